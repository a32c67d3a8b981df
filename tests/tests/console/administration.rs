//! The pages with which operators run an installation: providers, doctor, server, web access, filters,
//! overview, and the box that finds ids.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use notify_client::Client;
use notify_core::doctor::{
    AppFacts, AppName, AppState, Finding, ProviderFacts, ServerFacts, Unavailable, check_app,
    check_server,
};
use notify_core::{CreateNotification, PageQuery, Platform, ProviderKind, RegisterDevice};
use notify_sandbox::ScriptedResponse;
use notify_tests::{
    Operator, Resources, Response, TestServer, ios, register, start_sandbox, until,
};
use serde_json::{Value, json};

use super::{android, escaped, first_app, links, operator};

/// The configuration of a provider as the fields of its form.
fn fields_of(config: &Value) -> Vec<(&str, String)> {
    let fields = config.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.as_str(), text)
        })
        .collect()
}

/// Submits the form of a provider.
async fn put(operator: &Operator, path: &str, fields: &[(&str, String)]) -> Result<Response> {
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    operator.submit(path, &fields).await
}

#[tokio::test]
async fn a_stopped_channel_is_on_the_overview_and_resume_needs_the_tick() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let client = server.client();
    let dead = ScriptedResponse::reason("BadDeviceToken");
    register(
        &client,
        (1..=60).map(|nth| RegisterDevice {
            store_identifier: Some("com.example.other".to_owned()),
            ..ios(nth, &dead)
        }),
    )
    .await?;
    client.notifications().create(&CreateNotification::to_platforms([Platform::Ios], "x")).await?;
    let link = format!("href=\"./apps/{app}/providers/apns\">");
    let overview = until("the overview shows the stop", async || {
        let page = operator.get("").await.text;
        Ok(page.contains("the server stopped sending").then_some(page))
    })
    .await?;
    assert!(overview.contains("Needs you") && overview.contains(&link), "{overview}");
    let list = operator.get(&format!("apps/{app}/providers")).await.text;
    assert!(list.contains("<span class=\"badge bad\">stopped</span>"), "{list}");

    let page = format!("apps/{app}/providers/apns");
    let text = operator.get(&page).await.text;
    let topic = server.sandbox().apns_config()["topic"].as_str().context("a topic")?.to_owned();
    for shown in [
        "No device was disabled",
        "more than twenty addresses",
        &format!("<code>{topic}</code>"),
        "<code>com.example.other</code> (60 of the newest 60)",
        "notify providers resume apns --app",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let state = async || -> Result<Value> {
        let providers = format!("/admin/v1/apps/{app}/providers/apns");
        Ok(server.admin().get(&providers).await.ok()["channel"]["state"].clone())
    };
    let resume = format!("{page}/resume");
    let refused = operator.submit(&resume, &[]).await?;
    assert_eq!(refused.status, 200);
    assert!(refused.text.contains("must be ticked before deliveries resume"), "{}", refused.text);
    assert_eq!(state().await?, "stopped");
    for nth in 1..=60 {
        client.devices().delete(&ios(nth, &dead).device_id.parse()?).await?;
    }
    let resumed = operator.submit(&resume, &[("confirm", "on")]).await?;
    assert_eq!((resumed.status, resumed.header("location")), (303, "../apns?done=resumed"));
    assert_eq!(state().await?, "open");
    let trail = server.admin().get("/admin/v1/audit").await.ok();
    assert_eq!(trail["entries"][0]["action"], "resume_provider");
    assert_eq!(trail["entries"][0]["object"], "apns");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_wrong_provider_file_shows_all_errors_at_their_fields_and_no_secret_again() -> Result<()>
{
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let base = format!("apps/{app}/providers");
    let secret = "-----BEGIN SECRET-----";
    let apns = [
        ("team_id", "TEAM 123"),
        ("key_id", ""),
        ("private_key", secret),
        ("topic", "com.example.app"),
        ("rate_per_second", "fast"),
    ];
    let page = operator.submit(&format!("{base}/apns"), &apns).await?;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("<h2>4 problems</h2>"), "{}", page.text);
    for (field, what) in [
        ("team_id", "must be 1 to 255 letters and digits"),
        ("key_id", "is required"),
        ("private_key", "must be a private key of P-256"),
        ("rate_per_second", "must be a whole number"),
    ] {
        let error = format!("<div id=\"{field}-problem\"><p class=\"error\">{what}");
        assert!(page.text.contains(&error), "{error}: {}", page.text);
    }
    assert!(page.text.contains("value=\"TEAM 123\"") && page.text.contains("value=\"fast\""));
    assert!(page.text.contains("value=\"com.example.app\""));
    assert!(!page.text.contains(secret));

    let account = json!({"type": "service_account", "project_id": "shop",
        "private_key": "-----BEGIN HIDDEN-----", "client_email": ""});
    for (file, errors) in [
        (
            "{\"cut\": ".to_owned(),
            &["must be the JSON file of a service account; this looks like JSON with"][..],
        ),
        (
            "shop.json".to_owned(),
            &["must be the JSON file of a service account; this looks like the name of a file"],
        ),
        (account.to_string(), &["client_email: is required", "private_key: must be"]),
    ] {
        let form = [("service_account", file.as_str()), ("endpoint", "ftp://x")];
        let page = operator.submit(&format!("{base}/fcm"), &form).await?.text;
        for error in errors.iter().chain(&["must be an http or https origin"]) {
            assert!(page.contains(&format!("<p class=\"error\">{error}")), "{error}: {page}");
        }
        assert!(page.contains("value=\"ftp://x\"") && !page.contains("HIDDEN"), "{page}");
    }
    let providers = server.admin().get(&format!("/admin/v1/apps/{app}/providers")).await.ok();
    assert_eq!(providers, json!({"providers": []}));
    let trail = server.admin().get("/admin/v1/audit").await.ok();
    let actions = trail["entries"].as_array().unwrap().iter().map(|entry| &entry["action"]);
    assert_eq!(actions.collect::<Vec<_>>(), ["sign_in"], "a refused change is no change");
    Ok(())
}

#[tokio::test]
async fn providers_are_configured_tested_and_removed() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let sandbox = server.sandbox();
    let base = format!("apps/{app}/providers");
    for (provider, config, secret, words) in [
        ("apns", sandbox.apns_config(), "private_key", "the credentials are accepted"),
        ("fcm", sandbox.fcm_config(), "service_account", "the credentials are accepted"),
        ("webpush", sandbox.webpush_config(), "vapid_private_key", "the VAPID key signs"),
        ("messenger", sandbox.messenger_config(), "page_access_token", "accepted"),
        ("telegram", sandbox.telegram_config(), "bot_token", "the bot's token is accepted"),
    ] {
        let secret = config[secret].as_str().or(config[secret]["private_key"].as_str());
        let secret = secret.and_then(|secret| secret.lines().max_by_key(|line| line.len()));
        let secret = secret.context("a secret")?;
        let path = format!("{base}/{provider}");
        let saved = put(&operator, &path, &fields_of(&config)).await?;
        let location = format!("{provider}?done=saved");
        assert_eq!((saved.status, saved.header("location")), (303, location.as_str()));
        let page = operator.get(&path).await.text;
        assert!(page.contains("<span class=\"badge good\">delivering</span>"), "{page}");
        assert!(secret.len() > 15 && !page.contains(secret), "{provider}: {page}");
        let tested = operator.submit(&format!("{path}/test"), &[]).await?;
        assert!(tested.text.contains(&escaped(words)), "{words}: {}", tested.text);
    }
    operator.submit(&format!("{base}/telegram/delete"), &[]).await?.is(303);
    let page = operator.get(&format!("{base}/telegram")).await.text;
    assert!(page.contains("not configured") && !page.contains("Remove Telegram"), "{page}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn testing_credentials_answers_in_words_with_the_remedy() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let other_sandbox = start_sandbox().await?;
    let mut config = server.sandbox().apns_config();
    config["private_key"] = other_sandbox.apns_config()["private_key"].clone();
    let path = format!("apps/{app}/providers/apns");
    put(&operator, &path, &fields_of(&config)).await?.is(303);
    let tested = operator.submit(&format!("{path}/test"), &[]).await?;
    assert_eq!(tested.status, 200);
    for shown in [
        "the credentials are refused: InvalidProviderToken",
        "compare team_id, key_id, topic and the .p8 file with",
        "<code>notify providers put apns FILE --app",
    ] {
        assert!(tested.text.contains(shown), "{shown}: {}", tested.text);
    }
    other_sandbox.stop().await;
    server.stop().await;
    Ok(())
}

/// The findings of the checks that `notify doctor` runs, from what it reads.
async fn findings(client: &Client) -> Result<Vec<Finding>> {
    let admin = client.admin();
    let mut findings = Vec::new();
    let apps = admin.list_apps(&PageQuery::default()).await?.apps;
    let names = AppName::of_all(&apps);
    for (app, name) in apps.into_iter().zip(names) {
        let mut providers = Vec::new();
        for view in admin.list_providers(app.id).await?.providers {
            let test = admin.test_provider(app.id, view.provider).await.map_err(Unavailable::new);
            providers.push(ProviderFacts { view, test });
        }
        let diagnostics = admin.app_diagnostics(app.id).await?;
        let state = Ok(AppState { diagnostics, providers });
        findings.extend(check_app(&AppFacts { app, name, state }));
    }
    // The tests of the providers also tell the server their time.
    let diagnostics = admin.diagnostics().await.map_err(Unavailable::new);
    findings.extend(check_server(&ServerFacts { diagnostics }));
    Ok(findings)
}

#[tokio::test]
async fn the_doctor_equals_notify_doctor() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, client) = (operator(&server).await?, server.client());
    register(&client, [RegisterDevice::android("phone", "t")]).await?;
    client.admin().delete_provider(server.app_id, ProviderKind::Fcm).await?;
    let other_sandbox = start_sandbox().await?;
    let mut apns = server.sandbox().apns_config();
    apns["private_key"] = other_sandbox.apns_config()["private_key"].clone();
    client.admin().put_provider(server.app_id, ProviderKind::Apns, &apns).await?;
    let name = json!({"name": "Bob's <shop>"});
    let second = server.admin().post("/admin/v1/apps", &name).await.id();
    let suspended = json!({"status": "suspended"});
    server.admin().patch(&format!("/admin/v1/apps/{second}"), &suspended).await.ok();

    let expected = findings(&client).await?;
    let page = operator.get("doctor").await.text;
    for finding in &expected {
        let title = format!("<strong>{}</strong>", finding.check());
        assert!(page.contains(&title), "{finding:?}: {page}");
        assert!(page.contains(&escaped(finding.about())), "{finding:?}: {page}");
        // The sizes change between two reads.
        if finding.check() != "disk" {
            assert!(page.contains(&escaped(finding.detail())), "{finding:?}: {page}");
        }
        for part in finding.hint().unwrap_or_default().split('`') {
            assert!(page.contains(&escaped(part)), "{finding:?}: {page}");
        }
    }
    assert_eq!(page.matches("<p class=\"what\">").count(), expected.len(), "{page}");
    let failed = expected.iter().filter(|finding| !finding.is_ok()).count();
    assert!(failed >= 4 && page.contains(&format!("{failed} problems")), "{failed}: {page}");
    let alone = operator.get(&format!("doctor?app={second}")).await.text;
    assert!(alone.contains("the application is suspended") && !alone.contains("InvalidProvider"));
    let trail = server.admin().get("/admin/v1/audit").await;
    assert!(!trail.text.contains("test_provider"), "reading changes nothing: {}", trail.text);
    other_sandbox.stop().await;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_server_page_shows_what_the_api_shows() -> Result<()> {
    let server = TestServer::without_providers_on_sqlite().await;
    let operator = operator(&server).await?;
    server.clock().advance(std::time::Duration::from_secs(5_400));
    let page = operator.get("server").await.text;
    for shown in
        [env!("CARGO_PKG_VERSION"), "1 h 30 min", "only this one", "sqlite", server.origin()]
    {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(operator.get("").await.text.contains("up 1 h 30 min"));
    Ok(())
}

#[tokio::test]
async fn web_access_is_set_with_its_errors_at_their_fields() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let path = format!("apps/{app}/web");
    let page = operator.get(&path).await.text;
    assert!(page.contains(">off</span>") && page.contains("configure Web Push"), "{page}");
    let wrong =
        [("allowed_origins", "https://a.example\r\nhttps://b.example/x"), ("allowed_tags", "n")];
    let page = operator.submit(&path, &wrong).await?.text;
    assert!(page.contains("<div id=\"origins-problem\"><p class=\"error\">"), "{page}");
    assert!(page.contains("https://b.example/x</textarea>"), "the input is shown again: {page}");
    let right = [
        ("allowed_origins", "https://a.example\r\n\r\n http://localhost:3000 "),
        ("allowed_tags", ""),
    ];
    operator.submit(&path, &right).await?.is(303);
    let access = server.admin().get(&format!("/admin/v1/apps/{app}/web")).await.ok();
    assert_eq!(access["allowed_origins"], json!(["https://a.example", "http://localhost:3000"]));
    assert!(access["push_services"].as_array().is_some_and(|hosts| hosts.len() > 3));
    let page = operator.get(&path).await.text;
    let snippet = escaped(&format!("<script src=\"{}/sdk/notify.js\">", server.origin()));
    assert!(page.contains(&snippet) && page.contains(">on</span>"), "{page}");
    operator.submit(&format!("{path}/off"), &[]).await?.is(303);
    server.admin().get(&format!("/admin/v1/apps/{app}/web")).await.is(404);
    Ok(())
}

#[tokio::test]
async fn lists_are_filtered_and_a_push_token_is_in_no_address() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let base = format!("apps/{app}");
    let mut disabled = android("tablet");
    disabled["push_disabled"] = json!(true);
    disabled["push_token"] = json!("other/token?&=+");
    for device in [
        android("phone"),
        disabled,
        json!({"device_id": "iphone", "platform": "ios",
        "sdk_type": "ios_push", "push_token": "3d"}),
    ] {
        server.caller().post("/v1/devices", &device).await.ok();
    }
    let listed = async |path: &str| {
        let page = operator.get(&format!("{base}/{path}")).await.text;
        let found = links(&page, &format!("{base}/{path}"));
        let devices =
            found.iter().filter_map(|link| link.strip_prefix(&format!("{base}/devices/")));
        devices.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(listed("devices?state=disabled").await, set(&["tablet"]));
    assert_eq!(listed("devices?state=enabled&platform=android").await, set(&["phone"]));
    assert_eq!(listed("devices?state=unregistered").await, set(&[]));
    let path = format!("{base}/devices");
    let one = operator.submit(&path, &[("push_token", "other/token?&=+")]).await?;
    assert_eq!((one.status, one.header("location")), (303, "devices/tablet"));
    let none = operator.submit(&path, &[("push_token", "unknown")]).await?.text;
    assert!(none.contains("No device has this push token") && !none.contains("unknown\""));

    let report = json!({"id": "own-1", "text": "t", "platforms": ["android"]});
    server.caller().post("/v1/notifications/notify", &report).await.id();
    for (status, is_listed) in [("reported", true), ("canceled", false), ("", true)] {
        let page = operator.get(&format!("{base}/notifications?status={status}")).await.text;
        assert_eq!(page.contains("notifications/own-1\""), is_listed, "{status}: {page}");
    }
    assert_eq!(operator.get(&format!("{base}/notifications?status=x")).await.status, 400);
    Ok(())
}

#[tokio::test]
async fn the_chart_has_a_choice_of_days() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let client = server.client();
    register(
        &client,
        [ios(1, &ScriptedResponse::ok()), ios(2, &ScriptedResponse::reason("Unregistered"))],
    )
    .await?;
    let hello = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = client.notifications().create(&hello).await?.id;
    server.completed(&id).await?;
    for (query, days) in [("", 30), ("?days=90", 90), ("?days=366", 366), ("?days=7", 30)] {
        let page = operator.get(&format!("apps/{app}{query}")).await.text;
        assert!(page.contains(&format!("Last {days} days")), "{query}: {page}");
        assert!(page.contains("1 sent, 1 not delivered"), "{query}: {page}");
        assert!(page.contains("data-label=\"Unregistered\" class=\"number\">1<"), "{page}");
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_overview_has_pages_of_applications() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    for nth in 0..25 {
        let app = json!({"name": format!("App {nth:02}")});
        server.admin().post("/admin/v1/apps", &app).await.id();
    }
    let count = |page: &str| page.matches("<li class=\"card\">").count();
    let first = operator.get("").await.text;
    assert_eq!(count(&first), 20, "{first}");
    let next = links(&first, "").into_iter().find(|link| link.starts_with("?cursor="));
    let second = operator.get(&next.context("a next page")?).await.text;
    assert_eq!(count(&second), 6, "{second}");
    Ok(())
}

#[tokio::test]
async fn any_pasted_id_leads_to_its_page() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let (caller, admin) = (server.caller(), server.admin());
    caller.post("/v1/devices", &android("a phone/1")).await.ok();
    let report = json!({"id": "own-1", "text": "t", "platforms": ["android"]});
    caller.post("/v1/notifications/notify", &report).await.id();
    caller.patch("/v1/users/ada@shop.example", &json!({})).await.ok();
    let made = Resources::create(&caller, "phone").await?;
    let keys = admin.get(&format!("/admin/v1/apps/{app}/keys")).await.ok();
    let admin_keys = admin.get("/admin/v1/keys").await.ok();
    let other = admin.post("/admin/v1/apps", &json!({"name": "Other"})).await.id();
    let first = |list: &Value| list["keys"][0]["id"].as_str().unwrap_or_default().to_owned();
    let cases = [
        (app.clone(), format!("apps/{app}")),
        ("own-1".to_owned(), format!("apps/{app}/notifications/own-1")),
        ("a phone/1".to_owned(), format!("apps/{app}/devices/a%20phone%2F1")),
        ("ada@shop.example".to_owned(), format!("apps/{app}/users/ada@shop.example")),
        (first(&keys), format!("apps/{app}#keys")),
        (first(&admin_keys), "keys".to_owned()),
        (made.notification.clone(), format!("apps/{app}/notifications/{}", made.notification)),
        (made.poll.clone(), format!("apps/{app}/notifications/{}", made.poll)),
        (made.campaign.clone(), format!("apps/{app}/campaigns/{}", made.campaign)),
        (made.webhook.clone(), format!("apps/{app}/webhooks/{}", made.webhook)),
        (made.feed.clone(), format!("apps/{app}/feeds/{}", made.feed)),
    ];
    for (id, page) in cases {
        // In its application, on the overview, and in another application.
        for from in [format!("&app={app}"), String::new(), format!("&app={other}")] {
            let path = format!("find?id={}{from}", id.replace(' ', "+").replace('/', "%2F"));
            let found = operator.get(&path).await;
            assert_eq!((found.status, found.header("location")), (303, page.as_str()), "{path}");
        }
    }
    for id in ["", "unknown", "0190a3b2-7f00-7000-8000-000000000001"] {
        let page = operator.get(&format!("find?id={id}&app={app}")).await;
        assert_eq!(page.status, 404);
        assert!(page.text.contains("Nothing found"), "{}", page.text);
    }
    let key = operator.get(&format!("find?id={}", server.api_key())).await;
    assert!(key.text.contains("That is a key, not an id") && !key.text.contains(server.api_key()));
    Ok(())
}
