//! T4: every provider responds with 503 for ten minutes, and with 429 in every form, and then recovers. No
//! message is lost or repeated, no retry comes too early, and a provider that is down gets few requests.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use notify_core::NotificationRecord;
use notify_sandbox::{Provider, ReceivedRequest, Rule, ScriptedResponse};
use notify_tests::NOW;
use serde_json::json;

use crate::manual_clock::{ALL, ManualServer, by_provider, text};

/// The number of devices on each platform.
const DEVICES: u64 = 20;
/// The time between two notifications to all devices, in seconds.
const EVERY_S: u64 = 10;
/// The duration of the outage, in seconds.
const OUTAGE_S: u64 = 600;
/// The share of the usual requests that a provider may get while it is down.
const OUTAGE_SHARE_MAX: f64 = 0.05;
/// The longest time until everything has completed, in seconds: twice the longest delay of a retry.
const RECOVERY_S_MAX: i64 = 2 * 15 * 60;
/// The configured `rate_per_second` of each provider.
const RATE: u64 = 50;
/// The factor by which the busiest second of the recovery may exceed [`RATE`].
const PEAK_MAX: f64 = 1.5;
const SECOND: Duration = Duration::from_secs(1);
/// The step of the clock during the recovery: the rate limit allows deliveries ahead for this time.
const TENTH: Duration = Duration::from_millis(100);

/// The attempts of each delivery: the time of arrival and the status of the response. The key is the text and
/// the token.
type Attempts = BTreeMap<(String, String), Vec<(i64, u16)>>;

fn attempts<'j>(journal: impl IntoIterator<Item = &'j ReceivedRequest>) -> Attempts {
    let mut attempts = Attempts::new();
    for message in journal {
        let token = message.token.clone().unwrap_or_default();
        let delivery = attempts.entry((text(message).to_owned(), token)).or_default();
        delivery.push((message.at_ms, message.status));
    }
    attempts
}

/// The shortest time between the n-th attempt and the next, in milliseconds. The delay starts at 2 s and
/// doubles, and jitter shortens it by up to half.
fn backoff_ms_min(attempt: usize) -> i64 {
    1_000 << attempt.min(9)
}

#[track_caller]
fn assert_nothing_is_lost(records: &[NotificationRecord]) {
    for record in records {
        let counts = &record.counts;
        let all = DEVICES * ALL.len() as u64;
        assert_eq!((counts.targeted, counts.sent), (all, all), "{record:?}");
    }
}

#[tokio::test]
async fn ten_minutes_of_503_lose_and_repeat_nothing_and_cause_few_requests() -> Result<()> {
    let server =
        ManualServer::start_with(|_, config| config["rate_per_second"] = json!(RATE)).await?;
    server.everybody(DEVICES).await?;
    for (provider, _, _) in ALL {
        server.sandbox().add_rule(Rule::on(provider, ScriptedResponse::status(503)))?;
    }
    let mut ids = Vec::new();
    for second in 0..OUTAGE_S {
        if second % EVERY_S == 0 {
            ids.push(server.broadcast(&format!("n{second}")).await?);
        }
        server.clock().advance(SECOND);
        server.settle().await;
    }
    let outage = server.sandbox().received();
    let usual = OUTAGE_S / EVERY_S * DEVICES;
    let mut counted = BTreeMap::new();
    for (provider, messages) in by_provider(outage.clone()) {
        counted.insert(provider, messages.len());
        assert!(messages.iter().all(|message| message.status == 503), "{provider}");
        let share = messages.len() as f64 / usual as f64;
        assert!(share <= OUTAGE_SHARE_MAX, "{provider}: {} requests", messages.len());
    }
    server.sandbox().clear();
    let ended_s = server.elapsed_s();
    let records = server.completed(&ids, TENTH).await?;
    let took_s = server.elapsed_s() - ended_s;
    assert!(took_s <= RECOVERY_S_MAX, "{took_s} s");
    assert_nothing_is_lost(&records);

    let recovery = server.sandbox().received();
    for (provider, messages) in by_provider(recovery.clone()) {
        let mut seconds: BTreeMap<i64, usize> = BTreeMap::new();
        for message in &messages {
            *seconds.entry(message.at_ms / 1_000).or_default() += 1;
        }
        let peak = seconds.values().copied().max().context("no message arrived")?;
        println!(
            "{provider}: {} in the outage, {peak} in the busiest second, {took_s} s",
            counted[provider]
        );
        assert!(peak as f64 <= RATE as f64 * PEAK_MAX, "{provider}: {peak} in a second");
    }
    let attempts = attempts(outage.iter().chain(&recovery));
    assert_eq!(attempts.len(), ids.len() * DEVICES as usize * ALL.len());
    for (delivery, made) in &attempts {
        let accepted = made.iter().filter(|(_, status)| (200..300).contains(status)).count();
        assert_eq!(accepted, 1, "{delivery:?}: {made:?}");
        for (number, pair) in made.windows(2).enumerate() {
            let waited_ms = pair[1].0 - pair[0].0;
            assert!(waited_ms >= backoff_ms_min(number), "{delivery:?}: {made:?}");
        }
    }
    assert_eq!(server.sandbox().counts().refused_streams, 0);
    server.stop().await;
    Ok(())
}

/// A form of 429: the value of `Retry-After`, and on Telegram the value of the field `retry_after` (`None`
/// for a body that is not JSON). `waited_s` is the shortest time until the next attempt, in seconds.
struct Throttling {
    what: &'static str,
    header: Option<&'static str>,
    field: Option<u64>,
    waited_s: i64,
}

/// All forms. Without a valid time, the server waits for a minute.
const FORMS: [Throttling; 6] = [
    Throttling { what: "a second", header: Some("1"), field: Some(1), waited_s: 1 },
    Throttling { what: "a minute", header: Some("60"), field: Some(60), waited_s: 60 },
    Throttling { what: "an hour", header: Some("3600"), field: Some(3_600), waited_s: 3_600 },
    Throttling { what: "garbage", header: Some("in a while"), field: None, waited_s: 60 },
    Throttling { what: "nothing", header: None, field: None, waited_s: 60 },
    // The date is some hours after the start of the clock, so the wait depends on the time of the response.
    Throttling { what: "a date", header: Some(DATE), field: None, waited_s: 0 },
];
/// Six hours after the start of the clock.
const DATE: &str = "Sat, 21 Nov 2026 06:00:00 GMT";
const DATE_S: i64 = 6 * 3_600;
/// The `retry_after` of the sandbox's Telegram by default, in seconds.
const FLOOD_S: i64 = 5;

#[tokio::test]
async fn a_429_is_obeyed_in_every_form_and_uses_no_attempt() -> Result<()> {
    let server = ManualServer::start_with(|_, _| {}).await?;
    server.everybody(DEVICES).await?;
    for throttling in FORMS {
        server.sandbox().clear();
        for (provider, _, _) in ALL {
            let mut rule = Rule::on(provider, ScriptedResponse::status(429).first(1));
            if provider == Provider::Telegram {
                rule.retry_after = throttling.field;
                rule.body = throttling.field.is_none().then(|| "no JSON".to_owned());
            }
            if let Some(header) = throttling.header {
                rule = rule.header("retry-after", header);
            }
            server.sandbox().add_rule(rule)?;
        }
        let id = server.broadcast(throttling.what).await?;
        let step = if throttling.waited_s == 60 { SECOND } else { SECOND * 60 };
        assert_nothing_is_lost(&server.completed(&[id], step).await?);
        for (provider, _, _) in ALL {
            assert_obeyed(&server, provider, &throttling);
        }
    }
    server.stop().await;
    Ok(())
}

#[track_caller]
fn assert_obeyed(server: &ManualServer, provider: Provider, throttling: &Throttling) {
    let journal = server.sandbox().received();
    let attempts = attempts(journal.iter().filter(|message| message.provider == provider));
    let throttled: Vec<_> = attempts.iter().filter(|(_, made)| made[0].1 == 429).collect();
    assert_eq!(throttled.len(), 1, "{provider:?} {}: once", throttling.what);
    for (delivery, made) in throttled {
        assert_eq!(made.len(), 2, "{provider:?} {delivery:?}: {made:?}");
        let waited_ms = made[1].0 - made[0].0;
        let what = format!("{provider:?} {}: waited {waited_ms} ms", throttling.what);
        let least_ms = match (throttling.header, provider) {
            (Some(DATE), _) => NOW.plus_ms(DATE_S * 1_000).as_ms() - made[0].0,
            (None, Provider::Telegram) => FLOOD_S * 1_000,
            _ => throttling.waited_s * 1_000,
        };
        assert!(least_ms > 0 && waited_ms >= least_ms, "{what} of {least_ms}");
    }
}
