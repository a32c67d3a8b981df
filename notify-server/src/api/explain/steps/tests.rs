//! One row for each way in which a device fares; together they tell every word there is.

use std::collections::HashSet;

use notify_core::Platform;

use super::*;
use crate::store::{DeviceFacts, NotificationFacts, Settled};

const CREATED: Timestamp = Timestamp(1_000);
const STARTED: Timestamp = Timestamp(2_000);
const TRIED: Timestamp = Timestamp(3_000);
const SETTLED: Timestamp = Timestamp(4_000);
const NEXT: Timestamp = Timestamp(9_000);

/// A message to everybody on Android that was begun, and a device that is one to send to.
fn facts(progress: Progress) -> DeliveryFacts {
    DeliveryFacts {
        notification: NotificationFacts {
            status: NotificationStatus::Sending,
            created_at: CREATED,
            due_at: Some(CREATED),
            started_at: Some(STARTED),
            cancel_requested_at: None,
            platforms: vec![Platform::Android],
            names_devices: false,
            tag: None,
            local_time: None,
        },
        device: DeviceFacts {
            platform: Platform::Android,
            is_named: false,
            has_tag: false,
            push_disabled: false,
            dead: None,
            has_address: true,
            service: None,
            moved_at: None,
            created_at: Timestamp(500),
            utc_offset_minutes: 0,
        },
        progress,
    }
}

fn settled(settled: Settled, reason: Option<&str>, attempts: u16) -> DeliveryFacts {
    let reason = reason.map(str::to_owned);
    let first_attempt_at = (attempts > 1).then_some(TRIED);
    facts(Progress::Settled { settled, reason, attempts, first_attempt_at, at: SETTLED })
}

fn retrying() -> DeliveryFacts {
    facts(Progress::Retrying {
        attempts: 2,
        first_attempt_at: TRIED,
        reason: Some("Unavailable".into()),
        due_at: NEXT,
    })
}

fn with(mut facts: DeliveryFacts, change: impl FnOnce(&mut DeliveryFacts)) -> DeliveryFacts {
    change(&mut facts);
    facts
}

fn scheduled() -> DeliveryFacts {
    with(facts(Progress::None), |facts| {
        facts.notification.status = NotificationStatus::Scheduled;
        facts.notification.started_at = None;
        facts.notification.due_at = Some(NEXT);
    })
}

/// Each step as `word` where it is told of now, or `word@time`.
fn told(facts: &DeliveryFacts, channel: &Channel) -> (ExplainedOutcome, String) {
    let (outcome, steps) = explain(facts, channel, None);
    let words = steps.iter().map(|step| {
        assert!(!step.detail.is_empty());
        let at = step.at.map_or_else(String::new, |at| format!("@{at}"));
        format!("{}{at}", step.what.as_str())
    });
    (outcome, words.collect::<Vec<_>>().join(" "))
}

fn open() -> Channel {
    Channel { is_configured: true, state: ChannelState::Open, service: None }
}

const BEGUN: &str = "accepted@1000 started@2000 targeted@2000";

/// Facts, how the device fared, and what is told.
type Row = (DeliveryFacts, ExplainedOutcome, String);

fn rows() -> Vec<Row> {
    [settled_rows(), rows_to_come(), rows_not_targeted()].concat()
}

fn tag(facts: &mut DeliveryFacts) {
    facts.notification.tag = Some("vip".into());
}

fn dead(facts: &mut DeliveryFacts) {
    facts.device.dead = Some(("BadDeviceToken".into(), SETTLED));
}

fn begun(rest: &str) -> String {
    format!("{BEGUN} {rest}")
}

fn settled_rows() -> Vec<Row> {
    use ExplainedOutcome::*;
    vec![
        (
            settled(Settled::Sent, None, 1),
            Sent,
            begun("enabled@4000 has_address@4000 attempted@4000 sent@4000"),
        ),
        (
            with(settled(Settled::Sent, None, 3), tag),
            Sent,
            begun("has_tag@3000 enabled@3000 has_address@3000 attempted@3000 sent@4000"),
        ),
        (
            settled(Settled::Failed, Some("provider_not_configured"), 0),
            Failed,
            begun("enabled@4000 has_address@4000 provider_not_configured@4000 failed@4000"),
        ),
        (
            with(settled(Settled::Unregistered, Some("BadDeviceToken"), 1), dead),
            Unregistered,
            begun(
                "enabled@4000 has_address@4000 attempted@4000 unregistered@4000 address_dead@4000",
            ),
        ),
        (
            settled(Settled::Unregistered, Some("BadDeviceToken"), 1),
            Unregistered,
            begun("enabled@4000 has_address@4000 attempted@4000 unregistered@4000 enabled"),
        ),
        (
            settled(Settled::Expired, Some("credentials_refused"), 0),
            Expired,
            begun("enabled@4000 has_address@4000 credentials_refused@4000 expired@4000"),
        ),
        (
            with(settled(Settled::Canceled, Some("canceled"), 0), |facts| {
                facts.notification.cancel_requested_at = Some(TRIED);
            }),
            Canceled,
            begun("enabled@4000 has_address@4000 cancel_requested@3000 canceled@4000"),
        ),
    ]
}

fn rows_to_come() -> Vec<Row> {
    use ExplainedOutcome::*;
    vec![
        (
            retrying(),
            Pending,
            begun("enabled@3000 has_address@3000 attempted@3000 next_attempt@9000"),
        ),
        (
            with(retrying(), |facts| {
                facts.device.push_disabled = true;
                facts.device.has_address = false;
            }),
            Pending,
            begun(
                "enabled@3000 has_address@3000 attempted@3000 disabled no_address next_attempt@9000",
            ),
        ),
        (facts(Progress::Ahead), Pending, begun("enabled has_address waiting")),
        (
            with(facts(Progress::InOpenPage), tag),
            NotTargeted,
            begun("lacks_tag enabled has_address passed_over"),
        ),
        (
            with(facts(Progress::PassedOver), |facts| facts.device.moved_at = Some(TRIED)),
            NotTargeted,
            begun("enabled has_address passed_over address_moved@3000"),
        ),
        (
            with(facts(Progress::PassedOver), |facts| {
                tag(facts);
                dead(facts);
                facts.device.has_tag = true;
                facts.device.has_address = false;
            }),
            NotTargeted,
            begun("has_tag address_dead@4000 no_address passed_over"),
        ),
    ]
}

fn rows_not_targeted() -> Vec<Row> {
    use ExplainedOutcome::*;
    vec![
        (
            with(facts(Progress::RegisteredLater), |facts| facts.device.created_at = TRIED),
            NotTargeted,
            "accepted@1000 started@2000 targeted registered_later@3000".into(),
        ),
        (
            with(facts(Progress::None), |facts| facts.device.platform = Platform::Ios),
            NotTargeted,
            "accepted@1000 started@2000 not_targeted".into(),
        ),
        (
            with(facts(Progress::None), |facts| facts.notification.names_devices = true),
            NotTargeted,
            "accepted@1000 started@2000 not_targeted@2000".into(),
        ),
        (scheduled(), Pending, "accepted@1000 scheduled@9000 targeted enabled has_address".into()),
        (
            with(scheduled(), |facts| facts.device.push_disabled = true),
            NotTargeted,
            "accepted@1000 scheduled@9000 targeted disabled has_address".into(),
        ),
        (
            with(scheduled(), |facts| {
                facts.notification.status = NotificationStatus::Canceled;
                facts.notification.cancel_requested_at = Some(TRIED);
            }),
            Canceled,
            "accepted@1000 targeted enabled has_address cancel_requested@3000".into(),
        ),
        (
            with(scheduled(), |facts| facts.notification.status = NotificationStatus::Reported),
            Reported,
            "reported@1000".into(),
        ),
    ]
}

#[test]
fn every_way_a_device_fares_is_told_in_order() {
    for (facts, outcome, words) in rows() {
        assert_eq!(told(&facts, &open()), (outcome, words), "{facts:?}");
    }
}

/// Channels that hold everything back, and the word for each.
fn closed_channels() -> [(Channel, &'static str); 5] {
    let channel = |is_configured, state| Channel { is_configured, state, service: None };
    let held = ChannelState::Held { reason: Some("InvalidProviderToken".into()), probe_at: NEXT };
    [
        (channel(false, ChannelState::Open), "provider_not_configured"),
        (channel(true, held), "credentials_refused"),
        (channel(true, ChannelState::Throttled { until: NEXT }), "paused"),
        (channel(true, ChannelState::Unreachable { probe_at: NEXT }), "paused"),
        (channel(true, ChannelState::Stopped), "paused"),
    ]
}

/// A browser waits for its push service while the rest of the provider goes on.
#[test]
fn a_step_names_the_push_service_that_is_held() {
    let name = "https://push.example";
    let held = ChannelState::Held { reason: Some("http_403".into()), probe_at: NEXT };
    let channel = Channel { is_configured: true, state: held, service: Some(name.to_owned()) };
    let (_, steps) = explain(&facts(Progress::Ahead), &channel, None);
    let step = steps.last().unwrap();
    assert_eq!(step.what, StepKind::CredentialsRefused);
    let expected = "https://push.example refuses the server's credentials (http_403): everything \
                    for this push service is held; next probe at 1970-01-01T00:00:09Z";
    assert_eq!(step.detail, expected);
}

#[test]
fn what_holds_everything_back_is_told_of_now_while_something_is_to_come() {
    for (channel, word) in closed_channels() {
        let (_, words) = told(&facts(Progress::Ahead), &channel);
        assert_eq!(words, format!("{BEGUN} enabled has_address waiting {word}"));
        let (_, words) = told(&retrying(), &channel);
        let attempted = "enabled@3000 has_address@3000 attempted@3000";
        // Nobody knows when one that is stopped goes on.
        let at = if channel.state == ChannelState::Stopped { "" } else { "@9000" };
        assert_eq!(words, format!("{BEGUN} {attempted} {word} next_attempt{at}"));
        let (_, words) = told(&settled(Settled::Expired, Some("expired"), 0), &channel);
        let expired = "enabled@4000 has_address@4000";
        assert_eq!(words, format!("{BEGUN} {expired} {word} expired@4000"), "it may have held it");
        let (_, words) = told(&settled(Settled::Sent, None, 1), &channel);
        assert!(!words.contains(word), "what is over waits for nobody: {words}");
    }
}

#[test]
fn the_providers_words_and_the_times_stand_in_the_details() {
    let detail = |facts: &DeliveryFacts, word| {
        let (_, steps) = explain(facts, &open(), None);
        let step = steps.iter().find(|step| step.what == word);
        step.map(|step| step.detail.clone()).unwrap_or_default()
    };
    let failed = settled(Settled::Failed, Some("BadTopic"), 1);
    assert_eq!(detail(&failed, StepKind::Attempted), "1 attempt, the last answer: BadTopic");
    assert_eq!(detail(&failed, StepKind::Failed), "failed: BadTopic");
    let again = "2 attempts, the last answer: Unavailable";
    assert_eq!(detail(&retrying(), StepKind::Attempted), again);
    assert_eq!(detail(&retrying(), StepKind::NextAttempt), "due at 1970-01-01T00:00:09Z");
    assert_eq!(
        detail(&scheduled(), StepKind::Scheduled),
        "due at 1970-01-01T00:00:09Z; its audience is fixed then"
    );
}

/// Facts, a channel, a word, and the detail of that step, whole.
type Detail = (DeliveryFacts, Channel, StepKind, &'static str);

const LATER: Timestamp = Timestamp(20_000);

fn details_of_what_is_over() -> [Detail; 5] {
    use StepKind::{AddressDead, Attempted, Canceled, Expired, Failed};
    let failed = |reason, attempts| settled(Settled::Failed, Some(reason), attempts);
    let ios = with(settled(Settled::Unregistered, None, 1), |facts| {
        dead(facts);
        facts.device.platform = Platform::Ios;
        facts.notification.platforms = vec![Platform::Ios];
    });
    let not_allowed =
        "failed: address_not_allowed (the server runs without --allow-private-networks)";
    let dead = "the provider reported its address as dead (BadDeviceToken); another token, or \
                another ios_env, enables it";
    let expired = settled(Settled::Expired, Some("UNAVAILABLE"), 2);
    let canceled = settled(Settled::Canceled, Some("canceled"), 2);
    [
        (failed("provider_not_configured", 1), open(), Attempted, "1 attempt"),
        (failed("address_not_allowed", 0), open(), Failed, not_allowed),
        (expired, open(), Expired, "it expired (ttl_seconds): UNAVAILABLE"),
        (canceled, open(), Canceled, "canceled before it was tried again"),
        (ios, open(), AddressDead, dead),
    ]
}

fn details_of_what_is_to_come() -> [Detail; 5] {
    use StepKind::{NextAttempt, Paused, Scheduled};
    let channel = |state| Channel { is_configured: true, state, service: None };
    let held = channel(ChannelState::Held { reason: None, probe_at: LATER });
    let throttled = || channel(ChannelState::Throttled { until: LATER });
    let local = |facts: DeliveryFacts| {
        with(facts, |facts| {
            facts.notification.due_at = None;
            facts.notification.local_time = Some(Timestamp(7_200_000));
            facts.device.utc_offset_minutes = 90;
        })
    };
    let probe = "due at 1970-01-01T00:00:09Z, and waits for the probe at 1970-01-01T00:00:20Z";
    let pause = "due at 1970-01-01T00:00:09Z, and not before the pause ends";
    let paused = "fcm asked to slow down: everything waits until 1970-01-01T00:00:20Z";
    let turn =
        "the device's turn comes at 1970-01-01T00:30:00Z, by its offset from UTC now (+01:30)";
    [
        (retrying(), held, NextAttempt, probe),
        (retrying(), throttled(), NextAttempt, pause),
        (retrying(), throttled(), Paused, paused),
        (local(scheduled()), open(), Scheduled, turn),
        (local(facts(Progress::Ahead)), open(), Scheduled, turn),
    ]
}

fn details_of_the_target() -> [Detail; 4] {
    use StepKind::{NotTargeted, PassedOver, Started, Targeted};
    let named = |is_named| {
        with(facts(Progress::None), |facts| {
            facts.notification.names_devices = true;
            facts.device.is_named = is_named;
        })
    };
    let started = "became due; it goes to devices registered before this time";
    let targeted = "the notification names this device. The next lines say whether it can receive";
    let not_targeted = "it names devices, and this one is not among those on android";
    let passed_over = "it was skipped at sending time: it lacked the tag, was disabled or had no \
                       address. That may have changed since";
    [
        (named(true), open(), Started, started),
        (named(true), open(), Targeted, targeted),
        (named(false), open(), NotTargeted, not_targeted),
        (facts(Progress::PassedOver), open(), PassedOver, passed_over),
    ]
}

/// Each is what a person reads when something is odd.
#[test]
fn details_tell_what_is_known_and_no_more() {
    for (facts, channel, word, detail) in details_of_what_is_over()
        .into_iter()
        .chain(details_of_what_is_to_come())
        .chain(details_of_the_target())
    {
        let (_, steps) = explain(&facts, &channel, None);
        let told = steps.iter().find(|step| step.what == word).map(|step| step.detail.as_str());
        assert_eq!(told, Some(detail), "{facts:?}");
    }
}

/// The list of words is closed, and none of them is there for nothing.
#[test]
fn every_word_is_told_somewhere() {
    let mut untold: HashSet<StepKind> = StepKind::ALL.iter().copied().collect();
    for (channel, _) in closed_channels() {
        for (facts, ..) in rows() {
            for step in explain(&facts, &channel, None).1 {
                untold.remove(&step.what);
            }
        }
    }
    assert_eq!(untold, HashSet::new());
}
