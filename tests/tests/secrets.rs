//! Secrets in credentials, tokens and texts must not appear in anything that leaves the server: its log at
//! the most detailed level, its responses, its metrics and its files.

use std::path::Path;

use anyhow::{Context, Result};
use http::Method;
use notify_client::Client;
use notify_core::{
    AppId, CreateKey, CreateNotification, Platform, ProviderKind, PushKeys, PushSubscription,
    RegisterDevice, Subscribe,
};
use notify_sandbox::{Provider, Rule, Sandbox, ScriptedResponse};
use notify_tests::{
    Caller, Launch, WAIT_MAX, android, completed, configure_providers, ios, register, start_sandbox,
};
use serde_json::{Value, json};

/// A length of a piece of a private key that no other text contains by chance.
const CHUNK: usize = 40;

/// A secret, and the pieces of it that must not appear.
#[derive(Clone)]
struct Secret {
    name: &'static str,
    needles: Vec<String>,
}

/// A PEM key, with pieces of each line, so that a key with other line breaks is also found.
fn pem(name: &'static str, pem: &Value) -> Result<Secret> {
    let text = pem.as_str().context("a key is text")?;
    let lines = text.lines().filter(|line| !line.starts_with("-----") && line.len() >= CHUNK);
    // The pieces are taken from the end of a line, because the first line starts with the same text in all
    // keys of a kind.
    let needles: Vec<_> = lines.map(|line| line[line.len() - CHUNK..].to_owned()).collect();
    anyhow::ensure!(!needles.is_empty(), "{name} has lines");
    Ok(Secret { name, needles })
}

fn text(name: &'static str, text: &str) -> Secret {
    Secret { name, needles: vec![text.to_owned()] }
}

/// Returns which of the secrets these bytes contain.
fn found(secrets: &[&Secret], bytes: &[u8]) -> Vec<&'static str> {
    let holds = |needle: &String| bytes.windows(needle.len()).any(|at| at == needle.as_bytes());
    let found = secrets.iter().filter(|secret| secret.needles.iter().any(holds));
    found.map(|secret| secret.name).collect()
}

/// Makes traffic with every secret in it: messages that are sent, that fail and that are refused.
async fn traffic(client: &Client, valid: [Caller; 2], texts: &[&str]) -> Result<()> {
    let notification = |text: &str| {
        let platforms = Platform::ALL;
        CreateNotification::to_platforms(platforms, text)
            .url(format!("https://a.example/{text}"))
            .ttl_seconds(600)
    };
    for text in texts {
        let id = client.notifications().create(&notification(text)).await?.id;
        completed(client, &id).await?;
    }
    let text = texts[0];
    // Bodies that are refused. The log must not quote their secrets.
    for body in [
        format!(r#"{{"text":"{text}","platforms":["android"]"#),
        format!(r#"{{"text":"{text}","platforms":["{text}"],"{text}":1}}"#),
        json!({"text": text.repeat(500), "platforms": ["ios"]}).to_string(),
    ] {
        for caller in &valid {
            for path in ["/v1/notifications", "/v1/devices", "/admin/v1/apps"] {
                let reply = caller.send(&Method::POST, path, body.clone()).await?;
                assert!(matches!(reply.status, 400 | 401), "{path}: {}", reply.text);
            }
            for path in [
                format!("/v1/notifications/{text}?{text}=1"),
                "/v1/devices?push_token=PLANTED-push-token:sandbox".to_owned(),
                "/v1/devices?push_token=PLANTED-push-token&push_token=PLANTED-push-token"
                    .to_owned(),
                "/v1/devices?push_token=PLANTED-push-token%00&limit=0".to_owned(),
            ] {
                caller.send(&Method::GET, &path, "").await?;
            }
        }
    }
    Ok(())
}

/// Subscribes a browser. The end of its endpoint is a secret, because whoever knows the endpoint can send to
/// it.
async fn subscribe(client: &Client, sandbox: &Sandbox) -> Result<[Secret; 2]> {
    let made = sandbox.subscribe(None, &ScriptedResponse::ok())?;
    let end = made.endpoint.rsplit_once('/').context("an id")?.1.to_owned();
    let keys = PushKeys { p256dh: made.p256dh, auth: made.auth.clone() };
    let subscription =
        PushSubscription { endpoint: made.endpoint, keys, ..PushSubscription::default() };
    client.subscriptions().create(&Subscribe::web(subscription)).await?;
    Ok([text("an endpoint", &end), text("its secret", &made.auth)])
}

/// Returns all responses of the admin API and the metrics.
async fn answers(admin: &Caller, client: &Client) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let apps = admin.get("/admin/v1/apps").await.ok();
    let app = apps["apps"][0]["id"].as_str().context("an app")?.to_owned();
    for path in [
        "/metrics".to_owned(),
        "/openapi.json".to_owned(),
        "/readyz".to_owned(),
        "/admin/v1/apps".to_owned(),
        format!("/admin/v1/apps/{app}"),
        format!("/admin/v1/apps/{app}/keys"),
        format!("/admin/v1/apps/{app}/providers"),
        format!("/admin/v1/apps/{app}/providers/apns"),
        format!("/admin/v1/apps/{app}/providers/fcm"),
        format!("/admin/v1/apps/{app}/providers/webpush"),
        format!("/admin/v1/apps/{app}/providers/messenger"),
        format!("/admin/v1/apps/{app}/providers/telegram"),
        format!("/admin/v1/apps/{app}/devices/diagnostics"),
        "/admin/v1/diagnostics".to_owned(),
    ] {
        let reply = admin.send(&Method::GET, &path, "").await?;
        assert_eq!(reply.status, 200, "{path}");
        all.extend(reply.text.into_bytes());
    }
    for provider in ["apns", "fcm", "webpush", "messenger", "telegram"] {
        let path = format!("/admin/v1/apps/{app}/providers/{provider}/test");
        let reply = admin.send(&Method::POST, &path, "").await?;
        assert_eq!(reply.status, 200, "{path}");
        all.extend(reply.text.into_bytes());
    }
    // The error for a refused configuration must not quote all of it.
    let provider = client.admin().get_provider(app.parse()?, ProviderKind::Apns).await?;
    let mut config = provider.config;
    config["private_key"] = json!("-----BEGIN PRIVATE KEY-----\nPLANTED-in-a-broken-key");
    // The error must not quote the secrets either when another field is refused.
    let secret = "PLANTED-in-a-broken-key";
    for (provider, config) in [
        ("apns", config),
        ("fcm", json!({"service_account": {"private_key": secret, "client_email": "a"}})),
        ("webpush", json!({"vapid_private_key": secret, "subject": "mailto:a@b.example"})),
        ("messenger", json!({"page_access_token": secret, "app_secret": secret, "zz": 1})),
        ("telegram", json!({"bot_token": format!("1:{secret}"), "zz": 1})),
    ] {
        let path = format!("/admin/v1/apps/{app}/providers/{provider}");
        let reply = admin.send(&Method::PUT, &path, config.to_string()).await?;
        assert_eq!(reply.status, 400, "{provider}");
        all.extend(reply.text.into_bytes());
    }
    Ok(all)
}

/// Configures the chat platforms and subscribes to them. The token of one platform is part of every path, so
/// the test also sends it over plain HTTP/1.1 with another client.
async fn chat(client: &Client, app: AppId, sandbox: &Sandbox) -> Result<Vec<Secret>> {
    let (messenger, mut telegram) = (sandbox.messenger_config(), sandbox.telegram_config());
    let endpoint = telegram["endpoint"].as_str().context("an endpoint")?;
    telegram["endpoint"] = json!(endpoint.replace("https://", "http://"));
    client.admin().put_provider(app, ProviderKind::Messenger, &messenger).await?;
    client.admin().put_provider(app, ProviderKind::Telegram, &telegram).await?;
    for person in ["7701770177017701", "7701770177017701~blocked", "7701770177017701~500x1"] {
        client.subscriptions().create(&Subscribe::messenger(person)).await?;
        client.subscriptions().create(&Subscribe::chat(person)).await?;
    }
    let secret = |name, config: &Value, field: &str| -> Result<Secret> {
        Ok(text(name, config[field].as_str().context("a secret is text")?))
    };
    Ok(vec![
        secret("the page's token", &messenger, "page_access_token")?,
        secret("the app's secret", &messenger, "app_secret")?,
        secret("the verify token", &messenger, "verify_token")?,
        secret("the bot's token", &telegram, "bot_token")?,
        secret("the webhook's secret", &telegram, "webhook_secret")?,
    ])
}

fn files(folder: &Path) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name != "master.key") {
            all.extend(std::fs::read(path)?);
        }
    }
    Ok(all)
}

/// Registers phones whose tokens select every kind of response.
async fn phones(client: &Client) -> Result<()> {
    let dead = format!("PLANTED-push-token{}", "~unregistered");
    let mut alive = RegisterDevice::android("alive", "PLANTED-push-token:sandbox");
    alive.imei = Some("PLANTED-imei".to_owned());
    register(
        client,
        [
            RegisterDevice::android("dead", dead),
            alive,
            RegisterDevice::android("late", "PLANTED-push-token:sandbox~503x1"),
            RegisterDevice::ios("ios", "fa11ed0e5ec7e7".repeat(4)),
            ios(1, &ScriptedResponse::reason("Unregistered")),
            android(2, &ScriptedResponse::reason("SENDER_ID_MISMATCH")),
        ],
    )
    .await
}

#[tokio::test]
async fn secrets_appear_in_no_log_response_metric_or_file() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let server = Launch::on(&data)
        .argument("--allow-private-networks")
        .log("debug,notify_server=trace", &log)
        .start()
        .await?;
    let api_key = server.api_key.clone().context("a key")?;
    let admin_key = server.admin_key.clone().context("a key")?;
    let client = Client::builder(&server.origin)
        .api_key(api_key.as_str())
        .admin_key(admin_key.as_str())
        .build()?;
    let sandbox = start_sandbox().await?;
    let app = configure_providers(&client, &sandbox).await?;
    let another_key = client.admin().create_key(app, &CreateKey::default()).await?.api_key;

    let chat = chat(&client, app, &sandbox).await?;
    let credentials = [
        pem("the key of APNs", &sandbox.apns_config()["private_key"])?,
        pem("the key of FCM", &sandbox.fcm_config()["service_account"]["private_key"])?,
        text("the key of VAPID", sandbox.webpush_config()["vapid_private_key"].as_str().unwrap()),
        text("an API key", &api_key),
        text("another API key", &another_key),
        text("an admin key", &admin_key),
        text("a broken key", "PLANTED-in-a-broken-key"),
    ];
    let mut tokens = vec![
        text("a push token", "PLANTED-push-token"),
        text("an iOS token", "fa11ed0e5ec7e7"),
        text("a person", "7701770177017701"),
        text("a device's number", "PLANTED-imei"),
    ];
    let texts = [text("a text", "PLANTED-text"), text("a text of a retry", "PLANTED-again")];

    phones(&client).await?;
    tokens.extend(subscribe(&client, &sandbox).await?);
    sandbox.add_rule(Rule::on(
        Provider::Apns,
        ScriptedResponse::reason("InvalidProviderToken").first(1),
    ))?;
    let held = CreateNotification::to_platforms([Platform::Ios], "PLANTED-text");
    client.notifications().create(&held).await?;
    sandbox.wait_for(1, WAIT_MAX).await;
    configure_providers(&client, &sandbox).await?;
    let admin = Caller::admin(&server.origin, &admin_key);
    let callers = [Caller::app(&server.origin, &api_key), admin.clone()];
    traffic(&client, callers, &["PLANTED-text", "PLANTED-again"]).await?;

    let answered = answers(&admin, &client).await?;
    let backup = folder.path().join("data").join("backup.db");
    let status = server.terminate().await?;
    assert_eq!(status.code(), Some(0));
    notify_tests::back_up(&data, &backup).await?;

    let all = |groups: &[&'_ [Secret]]| -> Vec<Secret> {
        let each = groups.iter().flat_map(|group| group.iter());
        each.map(|one| Secret { name: one.name, needles: one.needles.clone() }).collect()
    };
    let logged = std::fs::read(&log)?;
    assert!(logged.len() > 1_000, "it logs everything");
    let nothing = Vec::<&str>::new();
    let everything = all(&[&credentials, &chat, &tokens, &texts]);
    let everything: Vec<&Secret> = everything.iter().collect();
    assert_eq!(found(&everything, &logged), nothing, "in the log");
    let log = String::from_utf8_lossy(&logged);
    assert!(log.contains("not delivered") && log.contains("…#"), "addresses are masked");
    assert_eq!(found(&everything, &answered), nothing, "in the answers");
    // The database must contain push tokens and texts. Credentials in it are encrypted or hashed.
    let kept: Vec<&Secret> = credentials.iter().chain(&chat).collect();
    let stored = files(&data)?;
    assert_eq!(found(&kept, &stored), nothing, "in the files");
    assert_eq!(found(&[&tokens[0], &texts[0]], &stored), ["a push token", "a text"], "it looks");
    sandbox.stop().await;
    Ok(())
}
