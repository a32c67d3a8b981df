//! The documents are correct: endpoints and examples of the API, the features of the sandbox, the
//! reason for each dependency, the links, and the README's quick start, run line by line.

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a listing of the guide"
)]
mod axum_receiver;
mod field_names;
mod links;
mod named_tests;
mod quick_start;
mod receivers;
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    unreachable_pub,
    reason = "a listing of the guide"
)]
mod warp_receiver;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use notify_core::{
    AnswerPoll, App, AppCreated, AppDevice, AppDiagnostics, AppList, CampaignCreated, CampaignList,
    CampaignRecord, CheckFeed, CreateApp, CreateFeed, CreateKey, CreateNotification, CreateWebhook,
    DeliveryList, Device, DeviceList, DeviceRegistered, DeviceStatistics, Diagnostics, Enrichment,
    EventsAccepted, Explanation, FeedCheck, FeedCreated, FeedList, KeyCreated, KeyList, LogIn,
    NoBody, NotificationCreated, NotificationList, NotificationPreview, NotificationRecord,
    NotificationStatistics, NotificationUsers, PatchAttributes, PatchUser, Poll, PreviewSegment,
    ProviderList, ProviderTestResult, ProviderView, PutSegment, RecoverWebhook, RegisterDevice,
    ReportEvents, ReportNotification, Request, Segment, SegmentList, SegmentPreview,
    SetCampaignStatus, SetTags, SetWebAccess, Subscribe, SubscriptionCreated, Success, TagList,
    Template, Timestamp, UpdateApp, UpdateWebhook, User, UserList, WebAccess, WebConfig, WebReport,
    WebSubscribe, WebSubscribed, Webhook, WebhookAttempt, WebhookAttemptList, WebhookCreated,
    WebhookList, WebhookRecovered,
};
use notify_sandbox::{
    ApnsReason, Sandbox, SandboxConfig, Settings, WebPushError, messenger_keywords,
    telegram_keywords,
};
use notify_tests::{Block, ServerProcess, WAIT_MAX, blocks};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package has a parent").to_owned()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The commands of a block. An indented line continues the command of the line before.
fn commands(block: &Block) -> Vec<&str> {
    block.text.lines().filter(|line| !line.is_empty()).collect()
}

#[test]
fn endpoints_and_headings_of_the_api_document_match() {
    let openapi: Value = serde_json::from_str(&notify_server::openapi_json()).unwrap();
    let mut endpoints = BTreeSet::new();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            endpoints.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let document = read("docs/api.md");
    let headings = document.lines().filter_map(|line| line.strip_prefix("### `"));
    let headings: BTreeSet<_> =
        headings.map(|heading| heading.trim_end_matches('`').to_owned()).collect();
    assert_eq!(headings, endpoints);
}

fn request<R: Request>(text: &str) -> Result<(), String> {
    let checked = R::parse(text.as_bytes(), Timestamp(1_795_242_504_737));
    checked.map(|_| ()).map_err(|broken| broken.to_string())
}

fn answer<T: DeserializeOwned>(text: &str) -> Result<(), String> {
    serde_json::from_str::<T>(text).map(|_| ()).map_err(|error| error.to_string())
}

/// Checks every rule of a condition that does not depend on its segments.
fn condition(text: &str) -> Result<(), String> {
    request::<PreviewSegment>(&format!(r#"{{"audience": {text}}}"#))
}

type Check = fn(&str) -> Result<(), String>;

fn request_check(endpoint: &str) -> Option<Check> {
    Some(match endpoint {
        "POST /v1/notifications"
        | "POST /v1/notifications/preview"
        | "Translations"
        | "Variables"
        | "Options of platforms"
        | "Silent notifications"
        | "Rate and canary" => request::<CreateNotification>,
        "POST /v1/notifications/notify" => request::<ReportNotification>,
        "POST /v1/polls/{id}/answers/{answer_id}" => request::<AnswerPoll>,
        "POST /v1/events" => request::<ReportEvents>,
        "POST /v1/devices" => request::<RegisterDevice>,
        "POST /v1/devices/{device_id}/secret" => request::<NoBody>,
        "POST /device/v1/devices" => request::<notify_core::RegisterAppDevice>,
        "POST /device/v1/devices/{device_id}/tags" => request::<SetTags>,
        "POST /device/v1/devices/{device_id}/attributes" => request::<PatchAttributes>,
        "POST /device/v1/devices/{device_id}/events" => request::<WebReport>,
        "POST /v1/devices/{device_id}/tags" => request::<SetTags>,
        "PATCH /v1/devices/{device_id}/attributes" => request::<PatchAttributes>,
        "PUT /v1/devices/{device_id}/user" => request::<LogIn>,
        "POST /v1/subscriptions" => request::<Subscribe>,
        "PATCH /v1/users/{user_id}" => request::<PatchUser>,
        "POST /v1/users/{user_id}/tokens" => request::<notify_core::CreateUserToken>,
        "PUT /device/v1/devices/{device_id}/user"
        | "PUT /web/v1/{app_id}/devices/{device_id}/user" => request::<notify_core::LogInWithToken>,
        "POST /v1/segments/preview" => request::<PreviewSegment>,
        "PUT /v1/segments/{name}" => request::<PutSegment>,
        "POST /v1/campaigns" | "PUT /v1/campaigns/{id}" => request::<Template>,
        "PUT /v1/campaigns/{id}/status" => request::<SetCampaignStatus>,
        "POST /v1/feeds" => request::<CreateFeed>,
        "POST /v1/webhooks" => request::<CreateWebhook>,
        "PATCH /v1/webhooks/{id}" => request::<UpdateWebhook>,
        "POST /v1/webhooks/{id}/rotate"
        | "POST /v1/notifications/{id}/pause"
        | "POST /v1/notifications/{id}/resume"
        | "POST /v1/webhooks/{id}/test"
        | "POST /v1/webhooks/{id}/attempts/{attempt_id}/redeliver" => request::<NoBody>,
        "POST /v1/webhooks/{id}/recover" => request::<RecoverWebhook>,
        "POST /v1/feeds/check" => request::<CheckFeed>,
        "POST /admin/v1/apps" => request::<CreateApp>,
        "PATCH /admin/v1/apps/{id}" => request::<UpdateApp>,
        "POST /admin/v1/apps/{id}/keys" => request::<CreateKey>,
        "POST /admin/v1/apps/{id}/keys/{key_id}/rotate" => request::<notify_core::RotateKey>,
        "PUT /admin/v1/apps/{id}/web" => request::<SetWebAccess>,
        "POST /admin/v1/keys" => request::<notify_core::CreateAdminKey>,
        "PATCH /admin/v1/keys/{key_id}" => request::<notify_core::RenameKey>,
        "POST /admin/v1/playground" => request::<NoBody>,
        "PUT /admin/v1/playground/devices/{device_id}/answer" => {
            request::<notify_core::SetPlaygroundAnswer>
        }
        "POST /web/v1/{app_id}/devices" => request::<WebSubscribe>,
        "POST /web/v1/{app_id}/devices/{device_id}/events" => request::<WebReport>,
        "PUT /admin/v1/apps/{id}/providers/{provider}" => answer::<Value>,
        "POST /hooks/messenger/{app_id}" | "POST /hooks/telegram/{app_id}" => answer::<Value>,
        "POST /admin/v1/apps/{id}/providers/{provider}/test"
        | "POST /admin/v1/apps/{id}/providers/{provider}/resume" => request::<NoBody>,
        _ => return None,
    })
}

/// Pairs of a form, without anything around them.
fn form(text: &str) -> Result<(), String> {
    let mut pairs = text.trim_end().split('&');
    let are_pairs = pairs.all(|pair| pair.contains('=') && !pair.contains(char::is_whitespace));
    if are_pairs { Ok(()) } else { Err("a form is pairs".to_owned()) }
}

fn answer_check(endpoint: &str) -> Option<Check> {
    Some(match endpoint {
        "POST /v1/notifications" | "POST /v1/notifications/notify" => answer::<NotificationCreated>,
        "GET /v1/notifications" => answer::<NotificationList>,
        "GET /v1/notifications/{id}" => answer::<NotificationRecord>,
        "POST /v1/notifications/preview" => answer::<NotificationPreview>,
        "GET /v1/notifications/{id}/deliveries" => answer::<DeliveryList>,
        "GET /v1/notifications/{id}/users" => answer::<NotificationUsers>,
        "GET /v1/notifications/{id}/explain/{device_id}" => answer::<Explanation>,
        "GET /v1/polls/{id}" => answer::<Poll>,
        "POST /v1/events" => answer::<EventsAccepted>,
        "POST /v1/devices" => answer::<DeviceRegistered>,
        "POST /device/v1/devices" | "POST /v1/devices/{device_id}/secret" => answer::<AppDevice>,
        "POST /device/v1/devices/{device_id}/events" => answer::<EventsAccepted>,
        "GET /v1/devices" => answer::<DeviceList>,
        "GET /v1/devices/{device_id}" => answer::<Device>,
        "GET /v1/tags" => answer::<TagList>,
        "POST /v1/subscriptions" => answer::<SubscriptionCreated>,
        "GET /v1/users" => answer::<UserList>,
        "GET /v1/users/{user_id}" | "PATCH /v1/users/{user_id}" => answer::<User>,
        "POST /v1/users/{user_id}/tokens" => answer::<notify_core::UserToken>,
        "GET /v1/segments" => answer::<SegmentList>,
        "POST /v1/segments/preview" => answer::<SegmentPreview>,
        "GET /v1/segments/{name}" | "PUT /v1/segments/{name}" => answer::<Segment>,
        "Conditions" => condition,
        "GET /v1/statistics/devices" => answer::<DeviceStatistics>,
        "GET /v1/statistics/notifications" => answer::<NotificationStatistics>,
        "POST /v1/campaigns" => answer::<CampaignCreated>,
        "GET /v1/campaigns" => answer::<CampaignList>,
        "GET /v1/campaigns/{id}" => answer::<CampaignRecord>,
        "GET /v1/enrichments/{campaign_id}"
        | "GET /device/v1/devices/{device_id}/enrichments/{campaign_id}"
        | "GET /web/v1/{app_id}/devices/{device_id}/enrichments/{campaign_id}" => {
            answer::<Enrichment>
        }
        "POST /v1/feeds" => answer::<FeedCreated>,
        "POST /v1/feeds/check" => answer::<FeedCheck>,
        "GET /v1/feeds" => answer::<FeedList>,
        "POST /v1/webhooks" | "POST /v1/webhooks/{id}/rotate" => answer::<WebhookCreated>,
        "GET /v1/webhooks" => answer::<WebhookList>,
        "GET /v1/webhooks/{id}" => answer::<Webhook>,
        "POST /v1/webhooks/{id}/test" => answer::<WebhookAttempt>,
        "GET /v1/webhooks/{id}/attempts" => answer::<WebhookAttemptList>,
        "POST /v1/webhooks/{id}/recover" => answer::<WebhookRecovered>,
        "POST /admin/v1/apps" => answer::<AppCreated>,
        "GET /admin/v1/apps" => answer::<AppList>,
        "GET /admin/v1/apps/{id}" => answer::<App>,
        "POST /admin/v1/apps/{id}/keys" | "POST /admin/v1/apps/{id}/keys/{key_id}/rotate" => {
            answer::<KeyCreated>
        }
        "GET /admin/v1/apps/{id}/keys" => answer::<KeyList>,
        "GET /admin/v1/apps/{id}/web" => answer::<WebAccess>,
        "GET /web/v1/{app_id}" => answer::<WebConfig>,
        "POST /web/v1/{app_id}/devices" => answer::<WebSubscribed>,
        "POST /web/v1/{app_id}/devices/{device_id}/events" => answer::<EventsAccepted>,
        "GET /admin/v1/apps/{id}/providers" => answer::<ProviderList>,
        "GET /admin/v1/apps/{id}/providers/{provider}" => answer::<ProviderView>,
        "POST /admin/v1/apps/{id}/providers/{provider}/test" => answer::<ProviderTestResult>,
        "GET /admin/v1/apps/{id}/devices/diagnostics" => answer::<AppDiagnostics>,
        "GET /admin/v1/diagnostics" => answer::<Diagnostics>,
        "POST /admin/v1/keys" => answer::<notify_core::AdminKeyCreated>,
        "GET /admin/v1/keys" => answer::<notify_core::AdminKeyList>,
        "GET /admin/v1/sessions" => answer::<notify_core::SessionList>,
        "GET /admin/v1/audit" => answer::<notify_core::AuditList>,
        "POST /admin/v1/playground" | "GET /admin/v1/playground" => {
            answer::<notify_core::Playground>
        }
        "GET /admin/v1/playground/messages" => answer::<notify_core::PlaygroundMessageList>,
        "Answers and errors" => answer::<notify_core::ErrorBody>,
        _ => return None,
    })
}

#[test]
fn examples_in_the_api_document_can_be_parsed() {
    let document = read("docs/api.md");
    let mut shown = BTreeSet::new();
    for Block { heading, language, text } in blocks(&document) {
        // `scripts/test-generators.sh` runs these.
        if heading == "Generated clients" {
            continue;
        }
        // After a colon stands what it shows.
        let kind = language.split(": ").next().unwrap_or_default();
        let check = match kind {
            "json request" => request_check(&heading),
            "json" => answer_check(&heading),
            "form request" => Some(form as Check),
            other => panic!("{heading}: a block of {other}"),
        };
        let check = check.unwrap_or_else(|| panic!("{heading}: no model for this {language}"));
        check(&text).unwrap_or_else(|error| panic!("{heading}: {error}\n{text}"));
        if kind.ends_with("request") {
            shown.insert(heading);
        }
    }
    let headings = document.lines().filter_map(|line| line.strip_prefix("### `"));
    for heading in headings.map(|heading| heading.trim_end_matches('`')) {
        let has_body = ["POST", "PUT", "PATCH"].iter().any(|method| heading.starts_with(method));
        assert_eq!(shown.contains(heading), has_body, "{heading}: an example of its body");
    }
}

/// Parses the examples of the OpenAPI document as the route parses its requests or writes its responses.
#[test]
fn examples_in_the_openapi_document_can_be_parsed() {
    let openapi: Value = serde_json::from_str(&notify_server::openapi_json()).unwrap();
    let mut read = 0;
    let mut all_of = |content: &Value, endpoint: &str, check: fn(&str) -> Option<Check>| {
        let named = content["examples"].as_object().into_iter().flatten();
        let named = named.map(|(_, example)| &example["value"]);
        for example in content.get("example").into_iter().chain(named) {
            let check = check(endpoint).unwrap_or_else(|| panic!("{endpoint}: no model"));
            check(&example.to_string()).unwrap_or_else(|error| panic!("{endpoint}: {error}"));
            read += 1;
        }
    };
    for (path, item) in openapi["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let endpoint = format!("{} {path}", method.to_uppercase());
            let json = "application/json";
            all_of(&operation["requestBody"]["content"][json], &endpoint, request_check);
            let success = &operation["responses"]["200"]["content"][json];
            let is_success = success["schema"]["$ref"] == "#/components/schemas/Success";
            let check =
                if is_success { |_: &str| Some(answer::<Success> as Check) } else { answer_check };
            all_of(success, &endpoint, check);
        }
    }
    assert!(read > 80, "{read}");
}

#[test]
fn the_sandbox_document_lists_every_reason_and_setting() {
    let document = read("docs/sandbox.md");
    for status in ApnsReason::ALL.iter().map(|reason| reason.status).collect::<BTreeSet<_>>() {
        let of_status = ApnsReason::ALL.iter().filter(|reason| reason.status == status);
        let reasons: Vec<_> =
            of_status.enumerate().map(|(at, reason)| format!("{at:x} `{}`", reason.name)).collect();
        let row = format!("| {status} | {} |", reasons.join(", "));
        assert!(document.lines().any(|line| line == row), "missing: {row}");
    }
    for (word, refusal) in WebPushError::ALL.iter().filter_map(|one| Some((one.keyword?, one))) {
        let row = format!("| `~{word}` | {} ", refusal.status);
        assert!(document.lines().any(|line| line.starts_with(&row)), "missing: {row}");
    }
    // The words of chats stand in tables below the name of their provider.
    let (_, of_chats) = document.split_once("**Messenger**").unwrap();
    let (of_persons, of_chats) = of_chats.split_once("**Telegram**").unwrap();
    for (part, word) in messenger_keywords()
        .map(|word| (of_persons, word))
        .chain(telegram_keywords().map(|word| (of_chats, word)))
    {
        assert!(part.contains(&format!("`~{word}`")), "missing: ~{word}");
    }
    let settings = serde_json::to_value(Settings::default()).unwrap();
    for (name, default) in settings.as_object().unwrap() {
        let row = format!("| `{name}` | {default} |");
        assert!(document.lines().any(|line| line.starts_with(&row)), "missing: {row}");
    }
}

#[test]
fn dependencies_and_decisions_match() {
    let mut dependencies = BTreeSet::new();
    for (manifest, heading) in
        [("Cargo.toml", "[workspace.dependencies]"), ("fuzz/Cargo.toml", "[dependencies]")]
    {
        let manifest = read(manifest);
        let (_, lines) = manifest.split_once(&format!("{heading}\n")).unwrap();
        let (lines, _) = lines.split_once("\n[").unwrap();
        let names = lines.lines().filter_map(|line| Some(line.split_once(" = ")?.0.to_owned()));
        dependencies.extend(names.filter(|name| !name.starts_with("notify-")));
    }

    let decisions = read("docs/decisions.md");
    let (_, table) = decisions.split_once("## Dependencies\n").unwrap();
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let names = rows.filter_map(|row| row.strip_prefix("| ")?.split_once(" |"));
    let names = names.flat_map(|(names, _)| names.split(", ").map(str::to_owned));
    assert_eq!(names.collect::<BTreeSet<_>>(), dependencies);

    for name in &dependencies {
        let used = ["core", "server", "client", "cli"].map(|part| format!("notify-{part}"));
        let mut members =
            used.iter().map(String::as_str).chain(["tests", "bench", "examples", "fuzz"]);
        let uses = |member: &str| {
            let manifest = read(&format!("{member}/Cargo.toml"));
            manifest.lines().any(|line| {
                line.strip_prefix(name.as_str())
                    .is_some_and(|rest| rest.starts_with(".workspace") || rest.starts_with(" = "))
            })
        };
        assert!(members.any(uses), "no package uses {name}");
    }
}

#[tokio::test]
async fn calls_in_the_sandbox_document_are_accepted() -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let sandbox = Sandbox::start(listener, SandboxConfig::default()).await?;
    let document = read("docs/sandbox.md");
    let mut calls = 0;
    for block in blocks(&document).iter().filter(|block| block.language == "sh") {
        // The playground is part of a server.
        if block.heading == "Playground" {
            continue;
        }
        for line in commands(block) {
            let line = line.replace("127.0.0.1:8081", &sandbox.addr().to_string());
            // -f: a refusal is a failure.
            let line = line.replacen("curl ", "curl -fsS ", 1);
            sh(&line, &Path::new(".").canonicalize()?, &[]).await?;
            calls += 1;
        }
    }
    ensure!(calls == 7, "{calls} calls");
    sandbox.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_documented_command_makes_a_valid_master_key() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("notify-data");
    fs::create_dir(&data_dir)?;
    let document = read("docs/operations.md");
    let blocks = blocks(&document);
    let block = blocks.iter().find(|block| block.heading == "When master.key is missing");
    for line in commands(block.context("a block that makes one")?) {
        sh(line, folder.path(), &[]).await?;
    }
    let key = data_dir.join("master.key");
    let made = fs::read(&key)?;
    let server = ServerProcess::start(&data_dir).await?;
    ensure!(server.terminate().await?.success());
    ensure!(fs::read(&key)? == made, "the server took the key that was there");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&key)?.permissions());
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    Ok(())
}

#[test]
fn the_readme_quotes_the_example_and_the_sdk_correctly() {
    let readme = read("README.md");
    let (_, rest) = readme.split_once("`cargo run -p notify-examples --bin ").unwrap();
    let (example, _) = rest.split_once('`').unwrap();
    assert!(root().join(format!("examples/src/bin/{example}.rs")).is_file(), "{example}");

    // The program is compiled by the SDK's documentation tests, which have more than a reader.
    let blocks = blocks(&readme);
    let added = blocks.iter().filter(|block| block.language == "sh").flat_map(commands);
    let added: Vec<_> = added.filter_map(|line| line.strip_prefix("cargo add ")).collect();
    // The features are those that `#[tokio::main]` and its default runtime need.
    let [client, "tokio --features macros,rt-multi-thread"] = *added else { panic!("{added:?}") };
    let folder = client.strip_prefix("--path ../notify/").unwrap();
    assert!(read(&format!("{folder}/Cargo.toml")).contains("name = \"notify-client\""));
    let program = blocks.iter().find(|block| block.language == "rust,no_run").unwrap();
    let program = &program.text;
    assert!(program.contains("#[tokio::main]\nasync fn main()"), "it is whole");
    let uses = program.lines().filter_map(|line| line.strip_prefix("use ")?.split("::").next());
    assert_eq!(uses.collect::<Vec<_>>(), ["notify_client"], "nothing else is a dependency");
}

/// Runs a line in a shell and fails when the line fails.
async fn sh(line: &str, folder: &Path, variables: &[(&str, String)]) -> Result<String> {
    let mut shell = Command::new("sh");
    // Each line is a separate step, because a reader would notice a failure of each line.
    shell.arg("-c").arg(format!("set -e\n{line}")).current_dir(folder).kill_on_drop(true);
    shell.envs(variables.iter().map(|(name, value)| (*name, value)));
    let output = tokio::time::timeout(WAIT_MAX, shell.output()).await;
    let output = output.with_context(|| format!("not in time: {line}"))??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}\n{text}{complaint}");
    Ok(text)
}
