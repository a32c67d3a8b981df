//! What the server sends goes through a proxy, a squid. The hosts have names that only the proxy resolves, so nothing
//! arrives without it.

mod squid;

use anyhow::{Context, Result};
use notify_core::{
    CreateNotification, Platform, ProviderKind, PushKeys, PushSubscription, Subscribe,
};
use notify_sandbox::{Sandbox, SandboxConfig, ScriptedResponse};
use notify_server::config::Config;
use notify_tests::{
    Notify, TestServer, android, capture_log, configure_providers, ios, logged, register,
    start_sandbox_with, until,
};
use serde_json::{Value, json};
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use squid::{BASIC, CREDENTIALS, FORBIDDEN, PASSWORD, Squid};

/// The host of the providers.
const PROVIDERS: &str = "providers.sandbox.test";
/// The host of feeds and webhooks.
const PAGES: &str = "pages.sandbox.test";
/// A host that the proxy knows, and where nothing listens.
const CLOSED: &str = "closed.sandbox.test";
/// A host that `NO_PROXY` lists.
const DIRECT: &str = "direct.sandbox.test";

const FEED: &str = r#"<rss version="2.0"><channel><title>News</title><item><title>One</title>
    <link>https://a.example/1</link></item></channel></rss>"#;

/// Providers that clients reach by a name.
async fn providers() -> Result<Sandbox> {
    let config = SandboxConfig { host: Some(PROVIDERS.to_owned()), ..SandboxConfig::default() };
    start_sandbox_with(config).await
}

/// A server whose providers are at the name, behind this proxy.
async fn server(proxy: &str, sandbox: &Sandbox) -> Result<TestServer> {
    let set = |config: &mut Config| {
        config.egress_proxy = Some(proxy.parse().expect("the url of a proxy"));
        config.no_proxy = DIRECT.parse().expect("every list is one");
        config.allow_private_networks = true;
    };
    let server = TestServer::unconfigured_with(set).await;
    configure_providers(&server.client(), sandbox).await?;
    Ok(server)
}

/// The answer of the check of a provider.
async fn check(server: &TestServer, provider: ProviderKind) -> Result<String> {
    let result = server.client().admin().test_provider(server.app_id, provider).await?;
    Ok(format!("{}: {}", result.ok, result.detail))
}

/// The egress proxy in the diagnostics.
async fn diagnostics(server: &TestServer) -> Value {
    server.admin().get("/admin/v1/diagnostics").await.ok()["egress_proxy"].clone()
}

async fn subscribe(server: &TestServer, sandbox: &Sandbox) -> Result<()> {
    let made = sandbox.subscribe(None, &ScriptedResponse::ok())?;
    let subscription = PushSubscription {
        endpoint: made.endpoint,
        keys: PushKeys { p256dh: made.p256dh, auth: made.auth },
        ..PushSubscription::default()
    };
    let subscribe = Subscribe { device_id: Some("tab".to_owned()), ..Subscribe::web(subscription) };
    server.client().subscriptions().create(&subscribe).await?;
    Ok(())
}

#[tokio::test]
async fn everything_that_the_server_sends_goes_through_the_proxy() -> Result<()> {
    capture_log();
    let mut squid = Squid::start(&[PROVIDERS, PAGES]).await?;
    let sandbox = providers().await?;
    let pages = MockServer::start().await;
    let feed = ResponseTemplate::new(200).set_body_raw(FEED, "application/rss+xml");
    Mock::given(method("GET")).and(path("/rss")).respond_with(feed).mount(&pages).await;
    let ok = ResponseTemplate::new(200);
    Mock::given(method("POST")).and(path("/hook")).respond_with(ok).mount(&pages).await;
    let server = server(&squid.url(CREDENTIALS), &sandbox).await?;
    let client = server.client();

    for provider in [ProviderKind::Apns, ProviderKind::Fcm] {
        let checked = check(&server, provider).await?;
        assert!(checked.starts_with("true"), "{provider}: {checked}");
    }
    register(&client, [android(1, &ScriptedResponse::ok()), ios(1, &ScriptedResponse::ok())])
        .await?;
    subscribe(&server, &sandbox).await?;
    let platforms = [Platform::Android, Platform::Ios, Platform::Web];
    let hello = CreateNotification::to_platforms(platforms, "Hello");
    let id = client.notifications().create(&hello).await?.id;
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (3, 3), "{record:?}");

    let at_pages = |path: &str| format!("http://{PAGES}:{}{path}", pages.address().port());
    let feed =
        server.caller().post("/v1/feeds/check", &json!({"url": at_pages("/rss")})).await.ok();
    assert_eq!(feed["items"][0]["title"], "One", "{feed}");
    let hook = json!({"url": at_pages("/hook"), "events": ["notification.completed"]});
    let hook = server.caller().post("/v1/webhooks", &hook).await.id();
    let sent = server.caller().post(&format!("/v1/webhooks/{hook}/test"), &json!({})).await.ok();
    assert_eq!((&sent["outcome"], &sent["status"]), (&json!("delivered"), &json!(200)), "{sent}");

    let address = format!("127.0.0.1:{}", squid.port);
    assert_eq!(diagnostics(&server).await, json!({"address": address, "failure": null}));
    server.stop().await;
    let targets = [
        format!("200 {PROVIDERS}:{}", sandbox.addr().port()),
        format!("200 {PAGES}:{}", pages.address().port()),
    ];
    let requests = until("the connections are logged", async || {
        let requests = squid.requests();
        Ok(targets.iter().all(|target| requests.contains(target)).then_some(requests))
    });
    let requests = requests.await?;
    assert!(requests.iter().all(|request| targets.contains(request)), "{requests:?}");
    let log = logged();
    assert!(log.contains(&format!("outgoing connections use the proxy {address}")), "{log}");
    for secret in [PASSWORD, CREDENTIALS, BASIC] {
        assert!(!log.contains(secret), "{log}");
    }
    squid.stop()
}

#[tokio::test]
async fn a_proxy_that_refuses_or_is_gone_is_named() -> Result<()> {
    let mut squid = Squid::start(&[PROVIDERS, CLOSED, DIRECT]).await?;
    let sandbox = providers().await?;
    let place = format!("the proxy 127.0.0.1:{}", squid.port);
    let mut server = server(&squid.url("ada:wrong"), &sandbox).await?;
    for provider in [ProviderKind::Apns, ProviderKind::Fcm] {
        let checked = check(&server, provider).await?;
        let expected = format!("proxy_failed: {place} refuses the credentials (status 407)");
        assert!(checked.starts_with("false") && checked.contains(&expected), "{checked}");
    }
    let failure = format!("{place} refuses the credentials (status 407)");
    assert_eq!(diagnostics(&server).await["failure"], failure.as_str());
    // The url is a user's, so its error does not name the proxy.
    let feed = json!({"url": format!("https://{PAGES}/rss")});
    let feed = server.caller().post("/v1/feeds/check", &feed).await;
    assert!(feed.text.contains("egress proxy") && !feed.text.contains("127.0.0.1"), "{feed:?}");
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let doctor: Value = serde_json::from_str(&notify.run(&["doctor", "-o", "json"]).await?.stdout)?;
    let findings = doctor["checks"].as_array().context("checks")?;
    let finding = |check: &str| {
        let found = findings.iter().find(|finding| finding["check"] == check);
        found
            .map(|found| (found["detail"].clone(), found["hint"].to_string()))
            .context(check.to_owned())
    };
    let (detail, hint) = finding("egress proxy")?;
    assert!(detail == failure.as_str() && hint.contains("--egress-proxy"), "{detail} {hint}");
    let (_, hint) = finding("credentials")?;
    assert!(hint.contains("--egress-proxy"), "{hint}");

    let url = squid.url(CREDENTIALS);
    server.restart_with(|config| config.egress_proxy = url.parse().ok()).await;
    let (client, app) = (server.client(), server.app_id);
    let at = |host: &str, port: u16| {
        let mut config = sandbox.apns_config();
        for endpoint in ["endpoint", "sandbox_endpoint"] {
            config[endpoint] = format!("https://{host}:{port}/apns").into();
        }
        config
    };
    let port = sandbox.addr().port();
    let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    for (config, expected) in [
        (at(FORBIDDEN, port), format!("proxy_failed: {place} refuses the connection (status 403)")),
        (
            at(CLOSED, closed),
            format!("connect_failed: {place} does not reach the host (status 503)"),
        ),
    ] {
        client.admin().put_provider(app, ProviderKind::Apns, &config).await?;
        let checked = check(&server, ProviderKind::Apns).await?;
        assert!(checked.starts_with("false") && checked.contains(&expected), "{checked}");
    }
    // Only the proxy knows the name, and it is not asked.
    client.admin().put_provider(app, ProviderKind::Apns, &at(DIRECT, port)).await?;
    let checked = check(&server, ProviderKind::Apns).await?;
    assert!(checked.starts_with("false") && !checked.contains("proxy"), "{checked}");
    squid.stop()?;
    let requests = squid.requests();
    assert!(!requests.iter().any(|request| request.contains(DIRECT)), "{requests:?}");
    let checked = check(&server, ProviderKind::Fcm).await?;
    let expected = format!("proxy_failed: {place} cannot be reached: connection refused");
    assert!(checked.contains(&expected), "{checked}");
    server.stop().await;
    Ok(())
}

/// The guard judges the target, and the proxy is never asked for a private one.
#[tokio::test]
async fn private_targets_are_refused_behind_a_proxy_too() -> Result<()> {
    let mut squid = Squid::start(&[PAGES]).await?;
    let url = squid.url(CREDENTIALS);
    let server = TestServer::without_providers_with(|config| {
        config.egress_proxy = url.parse().ok();
    })
    .await;
    for url in ["https://10.1.2.3/rss", "https://127.0.0.1/rss", "https://localhost/rss"] {
        let refused = server.caller().post("/v1/feeds/check", &json!({"url": url})).await;
        assert!(refused.text.contains("private address"), "{refused:?}");
    }
    // The proxy would resolve the name to a private address. The server asks its own resolver, which does not know
    // the name, or does not answer.
    let url = json!({"url": format!("https://{PAGES}/rss")});
    let refused = server.caller().post("/v1/feeds/check", &url).await;
    let texts = ["does not resolve", "not in time"];
    assert!(texts.iter().any(|text| refused.text.contains(text)), "{refused:?}");
    server.stop().await;
    squid.stop()?;
    assert_eq!(squid.requests(), [""; 0]);
    Ok(())
}
