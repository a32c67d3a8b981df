//! Enrichments, the most common request of devices, over 64 connections, compared with a request that
//! reads nothing.

use std::sync::Arc;

use anyhow::Context;
use notify_core::{FeedId, NewFeed, NotificationId, Timestamp};
use notify_server::store::sqlite::{self, SqliteOptions};
use notify_server::store::{FeedFetch, FeedItemRow, FeedItems, Idempotent, Validators};
use serde_json::{Value, json};

use crate::http_load::{MakeRequest, call, load_timed, write_request};
use crate::paths::Paths;
use crate::proc::{Costs, OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{Seed, checkpoint_log, device_id, first_app, notification, now, splitmix64};
use crate::servers::Server;
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

/// The number of items in the feed: the maximum.
const ITEMS: i64 = 500;

/// The costs of one kind of request, and its 99th percentile in microseconds, over the rounds.
#[derive(Default)]
struct Kind {
    costs: Costs,
    p99_us: Vec<f64>,
}

impl Kind {
    async fn measure(
        &mut self,
        target: (std::net::SocketAddr, u32),
        scale: &Scale,
        make: &MakeRequest,
    ) -> anyhow::Result<()> {
        let (cost, mut durations) =
            load_timed(target, scale.connections, scale.phase, make).await?;
        durations.sort_unstable();
        let index = durations.len() * 99 / 100;
        let p99 = durations.get(index).context("a request got a response")?;
        self.p99_us.push(p99.as_secs_f64() * 1e6);
        self.costs.0.push(cost);
        Ok(())
    }

    fn text(&self) -> String {
        let (rate, cpu) = (median(&self.costs.rates()), median(&self.costs.cpu()));
        format!("{}/s, CPU {cpu:.0} µs", grouped(rate))
    }
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let seed = Seed::with(paths, scale.statistics_few).await?;
    let data = seed.copy(paths)?;
    let feed = create_feed(&data.path().join("notify.db")).await?;
    let (server, _) = Server::start(paths, data.path())?;
    let target = (server.address, server.id());
    let key = [("x-api-key", seed.keys.api_key.as_str())];
    let made = call(server.address, "POST", "/v1/campaigns", &key, Some(&campaign(feed))).await?;
    let path = format!("/v1/enrichments/{}", made["id"].as_str().context("an id")?);
    let later = notification(&["android"], Some(now().plus_ms(86_400_000)));
    let sent = call(server.address, "POST", "/v1/notifications", &key, Some(&later)).await?;
    let sent: NotificationId = serde_json::from_value(sent["id"].clone())?;
    let samples = call(server.address, "GET", &path, &key, None).await?;
    anyhow::ensure!(samples["features"][0]["data"]["items"].as_array().map(Vec::len) == Some(3));

    let health: MakeRequest =
        Arc::new(|_, into| write_request(into, ("GET", "/healthz"), &[], b""));
    let plain = get(&seed.keys.api_key, {
        let path = path.clone();
        move |_| path.clone()
    });
    let devices = scale.statistics_few;
    let with_device = get(&seed.keys.api_key, move |number| {
        let device = device_id(splitmix64(number) % devices);
        format!("{path}?notification_id={}&device_id={device}", sent.as_str())
    });
    let mut section = Section::default();
    let (mut baseline, mut campaign_only, mut device_lookup) =
        (Kind::default(), Kind::default(), Kind::default());
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        baseline.measure(target, scale, &health).await?;
        campaign_only.measure(target, scale, &plain).await?;
        device_lookup.measure(target, scale, &with_device).await?;
        section.other_load.push(other_load.share()?);
    }
    server.stop()?;
    section.lines = vec![
        rate("GET /v1/enrichments/:id", &campaign_only, &baseline, Goal::AtLeast(0.7)),
        p99("GET /v1/enrichments/:id, p99", &campaign_only, &baseline),
        rate("the same with notification and device", &device_lookup, &baseline, Goal::Open),
        p99("the same with notification and device, p99", &device_lookup, &baseline),
    ];
    Ok(section)
}

fn rate(what: &str, kind: &Kind, baseline: &Kind, goal: Goal) -> Line {
    Line {
        row: "enrichment",
        what: what.to_owned(),
        figure: kind.text(),
        baseline: format!("GET /healthz: {}", baseline.text()),
        ratio: median_ratio(&kind.costs.rates(), &baseline.costs.rates()),
        goal,
    }
}

fn p99(what: &str, kind: &Kind, baseline: &Kind) -> Line {
    let text = |kind: &Kind| format!("{:.0} µs", median(&kind.p99_us));
    Line {
        row: "enrichment",
        what: what.to_owned(),
        figure: text(kind),
        baseline: format!("GET /healthz: {}", text(baseline)),
        ratio: median_ratio(&kind.p99_us, &baseline.p99_us),
        goal: Goal::Open,
    }
}

/// Creates a feed with items. The feed is never fetched, so the network has no influence on the figures.
async fn create_feed(file: &std::path::Path) -> anyhow::Result<FeedId> {
    let store = sqlite::open(file, SqliteOptions::default())?;
    let app = first_app(&store).await?;
    let new = NewFeed { url: "https://news.example/feed".into(), name: "Example News".into() };
    let id = FeedId(uuid::Uuid::now_v7());
    let at = now();
    let Idempotent::Executed(_) = store.create_feed(app, id, new, at, None).await? else {
        anyhow::bail!("the feed exists already")
    };
    let claims = store.claim_feeds(at, at.plus_ms(1), 1).await?;
    let claim = claims.first().context("a new feed is due")?;
    let items = FeedItems {
        rows: (0..ITEMS).map(|number| item(number, at)).collect(),
        digest: [1; 32],
        validators: Validators::default(),
        ttl_minutes: None,
    };
    let fetch = FeedFetch {
        at,
        next_at: None,
        error: None,
        failures: 0,
        items: Some(items),
        moved: None,
        url: None,
    };
    store.finish_feed(claim.feed, claim.claim, fetch).await?;
    store.close().await;
    checkpoint_log(file)?;
    Ok(id)
}

fn item(number: i64, now: Timestamp) -> FeedItemRow {
    FeedItemRow {
        title: format!("Number {number}: what everybody talks about in the city this morning"),
        url: format!("https://news.example.com/2026/06/02/city/article-{number}.html?from=feed"),
        image_url: Some(format!("https://images.example.com/2026/06/02/{number}-large.jpg")),
        published_at: Some(now.plus_ms(-number * 600_000)),
    }
}

fn campaign(feed: FeedId) -> Value {
    json!({"name": "Daily news", "layout_id": "content_with_three", "settings": {},
        "strings": [{"name": "recommendations_title", "translations": {"def": "More for you"}}],
        "features": [
            {"type": "content_feed", "position": 1, "data": {"feeds": [{"id": feed}]}},
            {"type": "action_button", "position": 1,
                "data": {"type": "url", "title": "Open", "url": "myapp://today"}}]})
}

fn get(key: &str, path: impl Fn(u64) -> String + Send + Sync + 'static) -> MakeRequest {
    let key = key.to_owned();
    Arc::new(move |number, into| {
        write_request(into, ("GET", &path(number)), &[("x-api-key", &key)], b"");
    })
}
