//! The files of nginx and Caddy in docs/self-hosting.md work: the test takes them out of the page, changes only
//! host names and ports, and calls a server through the real proxies. Debian has no Traefik, so that its file is
//! only compared with the server.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use notify_core::NotificationId;
use notify_server::config::Config;
use notify_tests::{Caller, TestServer, WAIT_MAX, blocks, system_program, until};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Where the proxies of the page expect the server.
const UPSTREAM: &str = "127.0.0.1:8080";
/// The path below which the second file of each proxy has the server.
const PREFIX: &str = "/push";
/// nginx as people write it without our page.
const PLAIN_NGINX: &str = "server {
    listen 80;
    listen [::]:80;
    location / {
        proxy_pass http://127.0.0.1:8080;
    }
}
";
/// The name of the file with the messages of a proxy.
const LOG: &str = "log";
/// How often a proxy is started if another program takes its port.
const STARTS_MAX: usize = 3;

/// The code blocks of a language in docs/self-hosting.md, in order.
fn blocks_of(language: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package has a parent");
    let page =
        std::fs::read_to_string(root.join("docs/self-hosting.md")).expect("the page is there");
    let of_language = blocks(&page).into_iter().filter(|block| block.language == language);
    of_language.map(|block| block.text).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Nginx,
    Caddy,
}

/// A file of a proxy, and the path below which it has the server.
#[derive(Debug, Clone)]
struct Site {
    program: Program,
    file: String,
    prefix: &'static str,
    /// Whether it names the client to the server.
    names_client: bool,
}

/// The files of the page, and a plain one of each program.
fn sites() -> Vec<Site> {
    let (nginx, caddy) = (blocks_of("nginx"), blocks_of("caddyfile"));
    assert_eq!((nginx.len(), caddy.len()), (2, 2), "one at the root and one below a path");
    let site = |program, file: &str, prefix| Site {
        program,
        file: file.to_owned(),
        prefix,
        names_client: true,
    };
    vec![
        site(Program::Nginx, &nginx[0], ""),
        site(Program::Nginx, &nginx[1], PREFIX),
        // Caddy needs no settings, so that the first one is also the plain one.
        site(Program::Caddy, &caddy[0], ""),
        site(Program::Caddy, &caddy[1], PREFIX),
        Site { names_client: false, ..site(Program::Nginx, PLAIN_NGINX, "") },
    ]
}

/// Replaces what must occur in a file.
fn replaced(file: &str, from: &str, to: &str) -> Result<String> {
    ensure!(file.contains(from), "`{from}` is not in\n{file}");
    Ok(file.replace(from, to))
}

/// A running proxy, which ends when it is dropped.
struct Proxy {
    _process: Child,
    _folder: TempDir,
    /// The url of the server behind the proxy, without a slash at the end.
    base: String,
}

impl Proxy {
    async fn start(site: &Site, upstream: SocketAddr) -> Result<Self> {
        let mut log = String::new();
        for _ in 0..STARTS_MAX {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let folder = tempfile::tempdir()?;
            let mut process = site.command(upstream, port, folder.path())?.spawn()?;
            let started = until("the proxy accepts connections", async || {
                if let Some(status) = process.try_wait()? {
                    return Ok(Some(Err(status)));
                }
                let is_open = TcpStream::connect(("127.0.0.1", port)).await.is_ok();
                Ok(is_open.then_some(Ok(())))
            });
            if started.await?.is_ok() {
                let base = format!("http://127.0.0.1:{port}{}", site.prefix);
                return Ok(Self { _process: process, _folder: folder, base });
            }
            log = std::fs::read_to_string(folder.path().join(LOG))?;
        }
        bail!("{:?} does not start with\n{}\n{log}", site.program, site.file)
    }

    fn caller(&self, server: &TestServer) -> Caller {
        Caller::app(&self.base, server.api_key())
    }
}

impl Site {
    fn command(&self, upstream: SocketAddr, port: u16, folder: &Path) -> Result<Command> {
        let own = replaced(&self.file, UPSTREAM, &upstream.to_string())?;
        let file = folder.join("config");
        let mut command = match self.program {
            Program::Nginx => {
                let own = replaced(&own, "listen 80;", &format!("listen 127.0.0.1:{port};"))?;
                let own = replaced(&own, "listen [::]:80;", "")?;
                std::fs::write(&file, nginx_around(&own, folder))?;
                let mut command = Command::new(system_program("nginx"));
                command.arg("-e").arg("stderr").arg("-p").arg(folder).arg("-c").arg(&file);
                command
            }
            Program::Caddy => {
                let (host, _) = own.split_once(" {").context("a site")?;
                let own = replaced(&own, host, &format!("http://127.0.0.1:{port}"))?;
                let global = "{\n\tadmin off\n}\n";
                std::fs::write(&file, format!("{global}{own}"))?;
                let mut command = Command::new(system_program("caddy"));
                command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
                command
            }
        };
        command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        let log = std::fs::File::create(folder.join(LOG))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        Ok(command)
    }
}

/// The parts of nginx's configuration that Debian has in other files.
fn nginx_around(site: &str, folder: &Path) -> String {
    let folder = folder.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary: String =
        kinds.iter().map(|kind| format!("{kind}_temp_path {folder}/{kind};\n")).collect();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{}}\n\
         http {{\naccess_log off;\n{temporary}{site}\n}}\n"
    )
}

fn trust_this_machine(config: &mut Config) {
    config.trusted_proxies = "127.0.0.1".parse().expect("an address");
}

#[tokio::test]
async fn sends_events_and_paths_pass_each_proxy() -> Result<()> {
    let server = TestServer::start_with(|config| {
        trust_this_machine(config);
        // The calls that check the paths have no rights.
        config.auth_failures_per_minute = 0;
        config.web_requests_per_minute = 0;
        config.web_address_requests_per_minute = 0;
    })
    .await;
    let paths = paths(&server).await?;
    for site in sites() {
        let proxy = Proxy::start(&site, server.address()).await?;
        let checks = async {
            a_send_and_its_event_pass(&server, &proxy).await.context("send")?;
            a_body_at_the_limit_passes(&server, &proxy, &site).await.context("limit")?;
            an_id_with_a_slash_passes(&server, &proxy).await.context("slash")?;
            every_path_passes(&server, &proxy, &paths).await.context("paths")
        };
        checks.await.with_context(|| format!("{:?}\n{}", site.program, site.file))?;
    }
    server.stop().await;
    Ok(())
}

/// An event arrives while the stream stays open, so no proxy waits for its end.
async fn a_send_and_its_event_pass(server: &TestServer, proxy: &Proxy) -> Result<()> {
    let caller = proxy.caller(server);
    let phone = json!({"device_id": "phone", "platform": "android", "sdk_type": "android_push",
        "push_token": "phone"});
    assert_eq!(caller.post("/v1/devices", &phone).await.ok(), json!({"success": true}));
    let stream = caller.request(Method::GET, "/v1/events/stream?types=notification.completed");
    let mut stream = stream.send().await?.error_for_status()?;
    let mut shown = String::new();
    let mut read_until = async |end: &str| -> Result<()> {
        while !shown.contains(end) {
            let chunk = tokio::time::timeout(WAIT_MAX, stream.chunk()).await;
            let chunk = chunk.with_context(|| format!("only {shown:?}"))??;
            shown.push_str(std::str::from_utf8(&chunk.context("the stream goes on")?)?);
        }
        Ok(())
    };
    read_until("\n\n").await?;
    let notification = json!({"text": "hello", "platforms": ["android"]});
    let id: NotificationId = caller.post("/v1/notifications", &notification).await.id().parse()?;
    server.completed(&id).await?;
    read_until(id.as_ref()).await
}

async fn a_body_at_the_limit_passes(server: &TestServer, proxy: &Proxy, site: &Site) -> Result<()> {
    let caller = proxy.caller(server);
    let limit = Config::default().max_body_bytes;
    let device = json!({"device_id": "large", "platform": "android", "sdk_type": "android_push"});
    let body = |bytes: usize| format!("{device}{}", " ".repeat(bytes - device.to_string().len()));
    caller.post_bytes("/v1/devices", body(limit)).await.ok();
    if site.names_client {
        // The answer is that of the server, in JSON.
        caller.post_bytes("/v1/devices", body(limit + 1)).await.is(413);
    }
    Ok(())
}

async fn an_id_with_a_slash_passes(server: &TestServer, proxy: &Proxy) -> Result<()> {
    let caller = proxy.caller(server);
    let device = json!({"device_id": "a/b", "platform": "android", "sdk_type": "android_push"});
    let registered = caller.post("/v1/devices", &device).await.ok();
    let warning = "device_id: has a slash; behind a proxy that decodes paths, calls with the id in the path \
        get 404";
    assert_eq!(registered, json!({"success": true, "warnings": [warning]}));
    assert_eq!(caller.get("/v1/devices/a%2Fb").await.ok()["device_id"], "a/b");
    Ok(())
}

/// Every path of the API with a `GET`, and those that the API's description does not have.
async fn paths(server: &TestServer) -> Result<Vec<String>> {
    let document = server.anonymous().get("/openapi.json").await.json();
    let documented = document["paths"].as_object().context("paths")?;
    let others =
        ["/console", "/console/sign-in", "/docs/scalar.js", "/metrics", "/hooks/telegram/x"];
    let paths = documented.keys().map(String::as_str).chain(others);
    // A stream does not end.
    let paths = paths.filter(|path| *path != "/v1/events/stream");
    let filled = paths.map(|path| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
        parts.collect::<Vec<_>>().join("/")
    });
    let paths: Vec<String> = filled.collect();
    for area in ["/v1/", "/device/v1/", "/web/v1/", "/admin/v1/", "/polls/", "/hooks/", "/sdk/"] {
        ensure!(paths.iter().any(|path| path.starts_with(area)), "no path below {area}");
    }
    Ok(paths)
}

async fn every_path_passes(server: &TestServer, proxy: &Proxy, paths: &[String]) -> Result<()> {
    let http = client(None)?;
    for (nth, path) in paths.iter().enumerate() {
        let id = format!("path-{nth}");
        let mut answers = Vec::new();
        for base in [server.origin(), &proxy.base] {
            let request = http.get(format!("{base}{path}")).header("x-request-id", &id);
            let request = request.header("x-api-key", server.api_key());
            let request = request.bearer_auth(server.admin_key());
            let answer = request.send().await?;
            let header = |name: &str| {
                answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
            };
            let of_server = header("x-request-id");
            answers.push((answer.status().as_u16(), header("content-type"), of_server));
        }
        ensure!(answers[0] == answers[1], "{path}: {answers:?}");
        ensure!(answers[0].2.as_ref() == Some(&id), "{path}: {answers:?}");
    }
    Ok(())
}

/// A client whose connections come from this address.
fn client(address: Option<IpAddr>) -> Result<reqwest::Client> {
    let client = notify_tests::http_client()
        .timeout(WAIT_MAX)
        .redirect(reqwest::redirect::Policy::none())
        .local_address(address);
    Ok(client.build()?)
}

/// Each client has the rate limits of its own address, and cannot choose another one.
#[tokio::test]
async fn the_address_of_the_client_passes_each_proxy() -> Result<()> {
    const FAILURES: u32 = 3;
    let server = TestServer::without_providers_with(|config| {
        trust_this_machine(config);
        config.auth_failures_per_minute = FAILURES;
    })
    .await;
    for (nth, site) in (0_u8..).zip(sites().into_iter().filter(|site| site.names_client)) {
        let proxy = Proxy::start(&site, server.address()).await?;
        let clients = [10 + 2 * nth, 11 + 2 * nth].map(|last| IpAddr::from([127, 0, 0, last]));
        let failed = async |address: IpAddr, forged: &str| -> Result<u16> {
            let request = client(Some(address))?.get(format!("{}/v1/devices", proxy.base));
            Ok(request.header("x-forwarded-for", forged).send().await?.status().as_u16())
        };
        for _ in 0..FAILURES {
            assert_eq!(failed(clients[0], "203.0.113.1").await?, 401, "{site:?}");
        }
        assert_eq!(failed(clients[0], "203.0.113.2").await?, 429, "{site:?}");
        assert_eq!(failed(clients[1], "203.0.113.1").await?, 401, "{site:?}");
    }
    server.stop().await;
    Ok(())
}

/// The file forwards everything of the host to the address on which the server listens.
#[test]
fn traefik_forwards_the_host_to_the_server() {
    let files = blocks_of("yaml");
    let [file] = &files[..] else { panic!("one file: {files:?}") };
    let value = |key: &str| {
        let value = file.lines().find_map(|line| line.trim().strip_prefix(key));
        value.unwrap_or_else(|| panic!("{key} in\n{file}")).trim()
    };
    assert_eq!(value("rule:"), "Host(`notify.example.com`)", "every path");
    assert_eq!(value("- url:"), format!("http://{}", Config::default().listen));
    assert_eq!(Config::default().listen, UPSTREAM);
    assert!(file.contains(&format!("  services:\n    {}:", value("service:"))));
}
