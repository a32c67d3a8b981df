//! Every page of the console that is read with `GET`, with many devices and notifications. The benchmark
//! follows the links and filters of the pages, as an operator would, so new pages are measured too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, ensure};
use url::Url;

use crate::caller::Caller;
use crate::http_load::{Connection, write_request};
use crate::paths::Paths;
use crate::proc::{OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{DAY_MS, DAYS, Seed, device_id, notification, now};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median, print_line};

/// The longest time that a page may take, in milliseconds.
const PAGE_MS_MAX: f64 = 500.0;
/// The most addresses of one kind of page that are read, such as pages of one list.
const EXAMPLES_MAX: usize = 4;
/// The reads of each address in a round.
const READS: usize = 5;
/// The messages that the sandbox keeps.
const JOURNAL: usize = 16;
const PLATFORMS: [&str; 2] = ["android", "ios"];
/// An address for the links of pages. No request is sent to it.
const BASE: &str = "http://console/console/";

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let seed = Seed::with(paths, scale.devices_many).await?;
    let data = seed.copy(paths)?;
    let (server, _) = Server::start(paths, data.path())?;
    let caller = Caller { address: server.address, keys: seed.keys };
    // One notification with a delivery for each device, and many that wait.
    let sandbox = Sandbox::start(JOURNAL)?;
    caller.configure_providers(&sandbox, &["fcm", "apns"]).await?;
    print_line(&format!("sending to {} devices", grouped(scale.devices_many as f64)));
    let sent = caller.post(&notification(&PLATFORMS, None)).await?;
    while caller.poll_completed(&sent).await?.is_none() {}
    print_line(&format!("storing {} notifications", grouped(scale.notifications as f64)));
    store_notifications(&caller, scale).await?;

    let mut operator = Operator::sign_in(server.address, &caller.keys.admin_key).await?;
    let app = caller.first_app().await?;
    let sent = sent.trim_start_matches("/v1/");
    let found = format!("find?id={}&app={app}", device_id(0));
    let pages = operator.crawl([String::new(), found, format!("apps/{app}/{sent}")]).await?;
    let mut section = Section::default();
    let mut measured: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        for (kind, examples) in &pages {
            let times = measured.entry(kind.as_str()).or_default();
            for path in examples {
                for _ in 0..READS {
                    let started = Instant::now();
                    operator.read(path).await?;
                    times.push(started.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
        section.other_load.push(other_load.share()?);
    }
    section.lines = measured.iter().map(|(kind, times)| line(kind, times)).collect();
    section.notes.push(format!(
        "console: {} devices, {} notifications; each page once at a time over one connection; the \
         figure of the goal is the slowest read, in ms",
        grouped(scale.devices_many as f64),
        grouped(scale.notifications as f64)
    ));
    server.stop()?;
    Ok(section)
}

fn line(kind: &str, times: &[f64]) -> Line {
    let longest = times.iter().copied().fold(0.0, f64::max);
    let reads = times.len();
    Line {
        row: "console",
        what: format!("GET /console/{kind}"),
        figure: format!("median {:.1} ms, max {longest:.1} ms of {reads}", median(times)),
        baseline: format!("{PAGE_MS_MAX:.0} ms"),
        ratio: longest,
        goal: Goal::FigureAtMost(PAGE_MS_MAX),
    }
}

/// Stores notifications that are sent in 30 days.
async fn store_notifications(caller: &Caller, scale: &Scale) -> anyhow::Result<()> {
    let at = now().plus_ms(DAYS * DAY_MS);
    let body = notification(&PLATFORMS, Some(at)).to_string();
    let mut request = Vec::new();
    let key = [("x-api-key", caller.keys.api_key.as_str())];
    write_request(&mut request, ("POST", "/v1/notifications"), &key, body.as_bytes());
    let mut tasks = tokio::task::JoinSet::new();
    let connections = scale.connections as u64;
    for nth in 0..connections {
        let count =
            scale.notifications / connections + u64::from(nth < scale.notifications % connections);
        let (address, request) = (caller.address, request.clone());
        tasks.spawn(async move {
            let mut connection = Connection::open(address).await?;
            for _ in 0..count {
                let (status, answer) = connection.exchange(&request).await?;
                ensure!(status == 200, "{status} {}", String::from_utf8_lossy(answer));
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// A signed-in operator.
struct Operator {
    connection: Connection,
    cookie: String,
}

impl Operator {
    async fn sign_in(address: SocketAddr, admin_key: &str) -> anyhow::Result<Self> {
        let mut connection = Connection::open(address).await?;
        let mut request = Vec::new();
        let form = format!("key={admin_key}");
        write_request(&mut request, ("POST", "/console/sign-in"), &[], form.as_bytes());
        let (status, _) = connection.exchange(&request).await?;
        ensure!(status == 303, "the sign-in: {status}");
        let cookie = connection.header("set-cookie").context("a cookie")?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(Self { connection, cookie })
    }

    /// Reads a page below `/console/`, and the page that it redirects to.
    async fn read(&mut self, path: &str) -> anyhow::Result<String> {
        let mut at = Url::parse(BASE)?.join(path)?;
        loop {
            let target = match at.query() {
                Some(query) => format!("{}?{query}", at.path()),
                None => at.path().to_owned(),
            };
            let mut request = Vec::new();
            write_request(&mut request, ("GET", &target), &[("cookie", &self.cookie)], b"");
            let (status, body) = self.connection.exchange(&request).await?;
            if status != 303 {
                ensure!(status == 200, "{target}: {status}");
                return Ok(String::from_utf8(body.to_vec())?);
            }
            at = at.join(self.connection.header("location").context("a location")?)?;
        }
    }

    /// Follows the links and filters of all pages. Returns some addresses of each kind of page.
    async fn crawl(&mut self, first: [String; 3]) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let mut open = first.to_vec();
        while let Some(path) = open.pop() {
            let examples = kinds.entry(kind_of(&path)).or_default();
            if examples.len() >= EXAMPLES_MAX || !seen.insert(path.clone()) {
                continue;
            }
            examples.push(path.clone());
            let page = self.read(&path).await?;
            open.extend(links(&page, &path)?);
        }
        Ok(kinds)
    }
}

/// The kind of a page: its path with `{id}` in place of ids, and its query without ids and cursors.
fn kind_of(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_word =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte));
    let parts = path.split('/').map(|part| if is_word(part) { part } else { "{id}" });
    let mut kind = parts.collect::<Vec<_>>().join("/");
    let names: BTreeSet<&str> = query
        .split('&')
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').filter(|(_, value)| !value.is_empty())?;
            Some(if is_word(value) { pair } else { name })
        })
        .collect();
    if !names.is_empty() {
        kind = format!("{kind}?{}", names.into_iter().collect::<Vec<_>>().join("&"));
    }
    kind
}

/// The pages of the console that a page leads to, by links and by the choices of its filters.
fn links(page: &str, path: &str) -> anyhow::Result<Vec<String>> {
    let at = Url::parse(BASE)?.join(path)?;
    let mut found: Vec<String> =
        page.split("<a ").skip(1).filter_map(|tag| attribute(tag, "href")).collect();
    for form in page.split("<form").skip(1).filter_map(|rest| rest.split("</form>").next()) {
        if attribute(form, "method").is_some_and(|method| method == "post") {
            continue;
        }
        let action = attribute(form, "action").unwrap_or_default();
        for select in form.split("<select").skip(1) {
            let Some(name) = attribute(select, "name") else { continue };
            let choices = select.split("</select>").next().unwrap_or_default().split("<option");
            let values = choices.skip(1).filter_map(|option| {
                let text = option.split_once('>')?.1.split('<').next()?;
                Some(attribute(option, "value").unwrap_or_else(|| text.to_owned()))
            });
            found.extend(values.map(|value| format!("{action}?{name}={value}")));
        }
    }
    let mut paths = Vec::new();
    for href in found {
        let url = at.join(&href.replace("&amp;", "&").replace("&#38;", "&"))?;
        if let Some(path) = url.path().strip_prefix("/console/")
            && url.host_str() == at.host_str()
        {
            let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
            paths.push(format!("{path}{query}"));
        }
    }
    Ok(paths)
}

/// The value of an attribute in the tag at the start of a text.
fn attribute(text: &str, name: &str) -> Option<String> {
    let tag = text.split('>').next()?;
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    rest.split('"').next().map(str::to_owned)
}
