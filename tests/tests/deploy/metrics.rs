//! The alerts and the dashboard use metrics that exist, and docs/operations.md lists all metrics.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use notify_core::{CreateNotification, Platform};
use notify_sandbox::ScriptedResponse;
use notify_tests::{ServerCertificate, TestServer, android, ios, register, until};
use serde_json::{Value, json};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::read;

/// The labels that Prometheus adds when it scrapes a server.
const SCRAPE_LABELS: [&str; 1] = ["instance"];
/// The suffixes of the series of a histogram.
const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_count", "_sum"];

/// The names of metrics, each with the names of its labels.
type Metrics = BTreeMap<String, BTreeSet<String>>;

/// The metrics in the tables of docs/operations.md. A row can name several.
fn documented() -> Metrics {
    let document = read("docs/operations.md");
    let is_row = |line: &&str| line.starts_with("| `notify_") || line.starts_with("| `process_");
    let names = document.lines().filter(is_row).flat_map(|row| {
        let cell = row.trim_start_matches("| ").split(" |").next().unwrap_or_default();
        cell.split('`').skip(1).step_by(2)
    });
    names
        .map(|name| {
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
            (name.to_owned(), labels.map(str::to_owned).collect())
        })
        .collect()
}

/// A label with an operator and a value, as in `channel="fcm"` and `code=~"5.."`.
struct Matcher<'a> {
    label: &'a str,
    operator: &'a str,
    value: &'a str,
}

/// The matchers in the text between braces.
fn matchers(text: &str) -> Vec<Matcher<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        let before = before.trim_start_matches([',', ' ']);
        let (label, operator) = before.split_at(before.find(['=', '!']).unwrap_or(before.len()));
        let (value, after) = after.split_once('"').unwrap_or((after, ""));
        found.push(Matcher { label, operator, value });
        rest = after;
    }
    found
}

/// The name of the metric that a series belongs to.
fn metric_of(series: &str) -> &str {
    let suffix = HISTOGRAM_SUFFIXES.iter().find_map(|suffix| series.strip_suffix(suffix));
    suffix.filter(|name| name.ends_with("_seconds")).unwrap_or(series)
}

/// What a server exports: its metrics, and each label with its value.
#[derive(Default)]
struct Exported {
    metrics: Metrics,
    values: BTreeSet<(String, String, String)>,
}

impl Exported {
    fn add(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let series = line.rsplit_once(' ').map_or(line, |(series, _)| series);
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let name = metric_of(name).to_owned();
            let known = self.metrics.entry(name.clone()).or_default();
            for Matcher { label, value, .. } in matchers(labels) {
                if label != "le" {
                    known.insert(label.to_owned());
                    self.values.insert((name.clone(), label.to_owned(), value.to_owned()));
                }
            }
        }
    }
}

/// A server that sent messages, one of which failed, called a webhook that is gone, and has a certificate.
async fn exported() -> Result<Exported> {
    let mut exported = Exported::default();
    let server = TestServer::start_with(|config| config.metrics_apps = 1).await;
    let client = server.client();
    let gone = MockServer::start().await;
    Mock::given(any()).respond_with(ResponseTemplate::new(410)).mount(&gone).await;
    let webhook = json!({"url": gone.uri(), "events": ["notification.completed"]});
    server.caller().post("/v1/webhooks", &webhook).await.ok();
    let refused = ScriptedResponse::reason("PayloadTooLarge");
    let devices = [ios(1, &refused), android(2, &ScriptedResponse::ok())];
    register(&client, devices).await?;
    let hello = CreateNotification::to_platforms([Platform::Ios, Platform::Android], "hello");
    server.completed(&client.notifications().create(&hello).await?.id).await?;
    let text = until("the webhook is disabled", async || {
        let text = server.anonymous().get("/metrics").await.text;
        Ok(text.contains("notify_webhooks_disabled_total{").then_some(text))
    });
    exported.add(&text.await?);
    server.stop().await;

    let certificate = ServerCertificate::of("127.0.0.1")?;
    let server = TestServer::without_providers_with(|config| certificate.configure(config)).await;
    let http = certificate.client().build()?;
    let url = format!("{}/metrics", server.origin());
    exported.add(&http.get(url).send().await?.text().await?);
    server.stop().await;
    Ok(exported)
}

/// The queries of the alerts: the name of each alert with its expression.
fn alerts() -> Vec<(String, String)> {
    let rules = read("deploy/prometheus/rules.yml");
    let mut found: Vec<(String, String)> = Vec::new();
    for rule in rules.split("- alert: ").skip(1) {
        let (name, rest) = rule.split_once('\n').unwrap_or((rule, ""));
        let (_, query) = rest.split_once("expr:").unwrap_or_default();
        let query = query.split("\n        for:").next().unwrap_or_default();
        found.push((name.to_owned(), query.trim_start_matches([' ', '|', '\n']).to_owned()));
    }
    found
}

/// The queries of the dashboard, with the title of the panel. A legend is written as a query for its labels.
fn panels() -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/notify.json"))?;
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().context("panels")? {
        let title = panel["title"].as_str().context("a title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().context("a query")?;
            let legend = target["legendFormat"].as_str().context("a legend")?;
            let labels = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            let labels = labels.collect::<Vec<_>>().join(", ");
            let legend = if labels.is_empty() { labels } else { format!(" by ({labels})") };
            found.push((title.to_owned(), format!("{query}{legend}")));
        }
    }
    Ok(found)
}

/// What a query names that no server exports.
fn unknown(query: &str, exported: &Exported) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut labels: BTreeSet<&str> = SCRAPE_LABELS.into();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    for (at, _) in query.match_indices("notify_") {
        let rest = &query[at..];
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (series, after) = rest.split_at(end);
        let name = metric_of(series);
        let Some(known) = exported.metrics.get(name) else {
            unknown.push(format!("the metric {name}"));
            continue;
        };
        labels.extend(known.iter().map(String::as_str));
        if series.ends_with("_bucket") {
            labels.insert("le");
        }
        let inside = after.strip_prefix('{').and_then(|after| after.split('}').next());
        for Matcher { label, operator, value } in matchers(inside.unwrap_or_default()) {
            let pair = (name.to_owned(), label.to_owned(), value.to_owned());
            if !known.contains(label) && !SCRAPE_LABELS.contains(&label) {
                unknown.push(format!("the label {label} of {name}"));
            } else if operator == "=" && !exported.values.contains(&pair) {
                unknown.push(format!("{label}=\"{value}\" of {name}"));
            }
        }
    }
    for grouping in ["by (", "without (", "on ("] {
        for (at, _) in query.match_indices(grouping) {
            let names = query[at + grouping.len()..].split(')').next().unwrap_or_default();
            let names = names.split(", ").filter(|name| !labels.contains(name));
            unknown.extend(names.map(|name| format!("the label {name}")));
        }
    }
    unknown
}

#[tokio::test]
async fn alerts_and_dashboard_use_metrics_that_are_exported_and_documented() -> Result<()> {
    let exported = exported().await?;
    assert_eq!(documented(), exported.metrics, "docs/operations.md, and what servers export");

    let (alerts, panels) = (alerts(), panels()?);
    ensure!(alerts.len() >= 5 && panels.len() >= 20, "{alerts:?} {panels:?}");
    let used: String = alerts.iter().chain(&panels).map(|(_, query)| query.as_str()).collect();
    for (place, query) in alerts.iter().chain(&panels) {
        let unknown = unknown(query, &exported);
        ensure!(unknown.is_empty(), "{place}: no server exports {unknown:?}: {query}");
        ensure!(query.contains("notify_"), "{place}: {query}");
    }
    // The dashboard shows every metric that the most important alerts are about.
    ensure!(used.contains("notify_oldest_due_age_seconds") && used.contains("notify_db_up"));
    Ok(())
}

#[test]
fn mistakes_in_queries_are_found() {
    let mut exported = Exported::default();
    exported.add(
        "notify_a_total{why=\"x\",channel=\"fcm\"} 1\nnotify_b_seconds_bucket{le=\"1.0\"} 2\n",
    );
    for (query, expected) in [
        ("rate(notify_a_total{why=\"x\", instance=~\"$instance\"}[5m])", vec![]),
        ("sum by (why, channel) (notify_a_total{channel!=\"z\", why=~\"y\"})", vec![]),
        ("sum by (le) (rate(notify_b_seconds_bucket[5m]))", vec![]),
        ("notify_c_total > 0", vec!["the metric notify_c_total"]),
        ("notify_a_total{why=~\"x\", code!=\"1\"}", vec!["the label code of notify_a_total"]),
        ("notify_a_total{reason!=\"x\"}", vec!["the label reason of notify_a_total"]),
        ("notify_a_total{reason=~\"x\"}", vec!["the label reason of notify_a_total"]),
        ("notify_a_total{why=\"y\"}", vec!["why=\"y\" of notify_a_total"]),
        ("sum by (route) (notify_a_total)", vec!["the label route"]),
        ("sum by (le) (notify_a_total)", vec!["the label le"]),
    ] {
        assert_eq!(unknown(query, &exported), expected, "{query}");
    }
}

#[test]
fn every_alert_has_a_row_in_the_runbook() {
    let document = read("docs/operations.md");
    let (_, section) = document.split_once("### Alerts\n").expect("a section about alerts");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `Notify"));
    let rows: Vec<_> =
        rows.filter_map(|row| Some(format!("Notify{}", row.split_once('`')?.0))).collect();
    let alerts: Vec<_> = alerts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(rows, alerts);
}
