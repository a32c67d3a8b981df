//! Ten connections without a key add only a limited amount of memory, whatever they send and whether or not
//! they read. The test tries every public path, and paths that refuse the requests.

use std::fs;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use notify_tests::{Launch, Resources, ServerProcess, WAIT_MAX};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http2::{Attack, CONNECTIONS};

/// The most memory that the server may add, in bytes.
const GROWTH_BYTES_MAX: u64 = 64 * 1_048_576;
/// A body that exceeds only the limit of its route.
const LARGE_BODY_BYTES: usize = 1_048_575;
/// A body within the limit of `/hooks`.
const HOOK_BODY_BYTES: usize = 262_143;
/// A body within the limit of `/web/v1`.
const PAGE_BODY_BYTES: usize = 65_535;
const SITE: &str = "https://shop.example";
const NOBODY: &str = "0190a7c0-0000-7000-8000-00000000ffff";
/// A well-formed key that does not exist.
const BAD_KEY: &str = "nk_0000000000000000000000000000000000000000000";

/// A server with a resource for every public path, and the ids for the paths.
struct Target {
    server: ServerProcess,
    app: String,
    poll_path: String,
    _folder: tempfile::TempDir,
}

impl Target {
    async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // Rate limits are off, because they would refuse most requests. Short timeouts end the attacks soon.
        let arguments = [
            ["--auth-failures-per-minute", "0"],
            ["--poll-votes-per-minute", "0"],
            ["--web-requests-per-minute", "0"],
            ["--web-address-requests-per-minute", "0"],
            ["--web-subscriptions-per-minute", "0"],
            ["--header-timeout", "1s"],
            ["--body-timeout", "1s"],
            ["--write-timeout", "1s"],
        ];
        let launch = arguments
            .as_flattened()
            .iter()
            .fold(Launch::on(folder.path()), |launch, argument| launch.argument(argument));
        let server = launch.start().await?;
        let caller = server.caller();
        let admin = server.admin();
        let resources = Resources::create(&caller, "phone").await?;
        let apps = admin.get("/admin/v1/apps").await.ok();
        let app = apps["apps"][0]["id"].as_str().context("an id")?.to_owned();
        let path = format!("/admin/v1/apps/{app}");
        for (part, body) in [
            ("web", json!({"allowed_origins": [SITE]})),
            ("providers/webpush", json!({"subject": "mailto:push@shop.example.com"})),
            ("providers/messenger", json!({"page_access_token": "EAAG", "app_secret": "s"})),
            ("providers/telegram", json!({"bot_token": "1:x", "webhook_secret": "s"})),
        ] {
            let (put, path) = (http::Method::PUT, format!("{path}/{part}"));
            admin.send(&put, &path, body.to_string()).await?.ok();
        }
        let poll = caller.get(&format!("/v1/polls/{}", resources.poll)).await.ok();
        let url = poll["url"].as_str().context("a url")?;
        let poll_path = url[url.find("/polls/").context("a poll's page")?..].to_owned();
        Ok(Self { server, app, poll_path, _folder: folder })
    }

    /// The attacks of ten connections over HTTP/2.
    fn attacks(&self) -> Vec<Attack> {
        let (app, poll) = (&self.app, &self.poll_path);
        let web = format!("/web/v1/{app}");
        let signature = format!("sha256={}", "0".repeat(64));
        let signed = |attack: Attack| attack.header("x-hub-signature-256", signature.clone());
        let keyed = |attack: Attack| attack.header("x-api-key", BAD_KEY);
        let unread = [
            "/healthz",
            "/readyz",
            "/metrics",
            "/openapi.json",
            "/docs",
            "/docs/swagger-ui-bundle.js",
            "/docs/swagger-ui.css",
            "/docs/start.js",
            "/sdk/notify.js",
            "/sdk/notify-sw.js",
            "/nowhere",
            "/v1/notifications",
            "/admin/v1/apps",
            "/polls/1",
            poll,
        ];
        let mut attacks = vec![Attack::unread("/metrics").header("x-long", "a".repeat(15_000))];
        attacks.extend(unread.into_iter().map(Attack::unread));
        attacks.extend([
            keyed(Attack::unread("/v1/devices")),
            Attack::unread(&web).header("origin", SITE),
            Attack::unread(&web),
            Attack::unread(format!("/hooks/messenger/{app}?hub.mode=subscribe")),
            Attack::unfinished(format!("{web}/devices"), PAGE_BODY_BYTES).header("origin", SITE),
            Attack::unfinished(format!("{web}/devices"), LARGE_BODY_BYTES),
            signed(Attack::unfinished(format!("/hooks/messenger/{app}"), HOOK_BODY_BYTES)),
            signed(Attack::unfinished(format!("/hooks/messenger/{app}"), LARGE_BODY_BYTES)),
            signed(Attack::unfinished(format!("/hooks/messenger/{NOBODY}"), LARGE_BODY_BYTES)),
            Attack::unfinished("/hooks/messenger/x", LARGE_BODY_BYTES),
            Attack::unfinished(format!("/hooks/telegram/{app}"), LARGE_BODY_BYTES),
            Attack::unfinished(format!("{poll}/votes"), LARGE_BODY_BYTES),
            Attack::unfinished("/nowhere", LARGE_BODY_BYTES),
            Attack::unfinished("/healthz", LARGE_BODY_BYTES),
            keyed(Attack::unfinished("/v1/notifications", LARGE_BODY_BYTES)),
        ]);
        attacks
    }

    /// Checks the peak memory so far.
    fn check_growth(&self, idle: u64, what: &str) -> Result<()> {
        let grown = self.server.memory_peak()?.saturating_sub(idle);
        ensure!(grown <= GROWTH_BYTES_MAX, "{what}: grew by {} MiB", grown / 1_048_576);
        Ok(())
    }
}

/// Resets the kernel's record of the peak memory. Returns the current memory of the server.
fn begin_peak(server: &ServerProcess) -> Result<u64> {
    // 5 resets the peak: proc_pid_clear_refs(5).
    fs::write(format!("/proc/{}/clear_refs", server.id()?), "5")?;
    server.memory_peak()
}

#[tokio::test]
async fn unauthenticated_connections_use_bounded_memory_on_every_path() -> Result<()> {
    let target = Target::start().await?;
    let idle = begin_peak(&target.server)?;
    for attack in target.attacks() {
        let what = format!("{} {}", attack.method, attack.path);
        let answered = attack.run(&target.server.origin).await?;
        target.check_growth(idle, &what)?;
        ensure!(answered > 0, "{what}: no stream was answered");
        // All attacks are compared with this first value, so memory that stays after each attack adds up.
        begin_peak(&target.server)?;
    }
    for (what, head) in half_heads() {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(held(&target.server.origin, &head).await?);
        }
        for mut connection in connections {
            let mut rest = Vec::new();
            let end = tokio::time::timeout(WAIT_MAX, connection.read_to_end(&mut rest)).await;
            // A reset also ends the connection.
            drop(end.with_context(|| format!("{what}: the connection is closed"))?);
        }
        target.check_growth(idle, what)?;
    }
    target.server.kill().await
}

/// Heads without an end, over HTTP/1 and HTTP/2.
fn half_heads() -> Vec<(&'static str, Bytes)> {
    let http1 = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx: {}", "a".repeat(60_000));
    let mut http2 =
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec();
    // HEADERS without END_HEADERS, then CONTINUATION without an end.
    for kind in std::iter::once(1).chain([9; 64]) {
        http2.extend_from_slice(&[0, 0x40, 0, kind, 0, 0, 0, 0, 1]);
        http2.extend_from_slice(&[0; 0x4000]);
    }
    vec![("half a head of HTTP/1", http1.into()), ("half a head of HTTP/2", http2.into())]
}

async fn held(origin: &str, bytes: &Bytes) -> Result<TcpStream> {
    let address = origin.strip_prefix("http://").context("plain HTTP")?;
    let mut stream = TcpStream::connect(address).await?;
    // The server may close the connection before it has read all bytes.
    let _ = stream.write_all(bytes).await;
    Ok(stream)
}
