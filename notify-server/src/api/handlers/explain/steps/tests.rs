//! One row for each outcome; together they contain every step.

use std::collections::HashSet;

use notify_core::{Platform, TokenProblem};

use super::*;
use crate::store::{DeviceFacts, NotificationFacts, Outcome};

const CREATED: Timestamp = Timestamp(1_000);
const STARTED: Timestamp = Timestamp(2_000);
const TRIED: Timestamp = Timestamp(3_000);
const SETTLED: Timestamp = Timestamp(4_000);
const NEXT: Timestamp = Timestamp(9_000);

/// A started message to everyone on Android, and an eligible device.
fn facts(progress: DeliveryProgress) -> DeliveryFacts {
    DeliveryFacts {
        notification: NotificationFacts {
            status: NotificationStatus::Sending,
            created_at: CREATED,
            due_at: Some(CREATED),
            started_at: Some(STARTED),
            cancel_requested_at: None,
            paused: None,
            platforms: vec![Platform::Android],
            names_devices: false,
            names_users: false,
            has_condition: false,
            tag: None,
            local_time: None,
            languages: Vec::new(),
        },
        device: DeviceFacts {
            platform: Platform::Android,
            is_named: false,
            has_tag: false,
            user_changed: false,
            is_logged_in: false,
            unmet: None,
            push_disabled: false,
            dead: None,
            has_address: true,
            token_problem: None,
            service: None,
            moved_at: None,
            created_at: Timestamp(500),
            utc_offset_minutes: 0,
            timezone: None,
            language: None,
        },
        progress,
        canary: None,
    }
}

fn pause(facts: &mut DeliveryFacts) {
    facts.notification.paused = Some(Pause { at: TRIED, reason: "requested".into() });
}

fn settled(outcome: Outcome, reason: Option<&str>, attempts: u16) -> DeliveryFacts {
    let reason = reason.map(str::to_owned);
    let first_attempt_at = (attempts > 1).then_some(TRIED);
    facts(DeliveryProgress::Settled { outcome, reason, attempts, first_attempt_at, at: SETTLED })
}

fn retrying() -> DeliveryFacts {
    facts(DeliveryProgress::Retrying {
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
    with(facts(DeliveryProgress::None), |facts| {
        facts.notification.status = NotificationStatus::Scheduled;
        facts.notification.started_at = None;
        facts.notification.due_at = Some(NEXT);
    })
}

/// Each step as `word` if it describes the current state, or as `word@time`.
fn explained(facts: &DeliveryFacts, channel: &Channel) -> (ExplainedOutcome, String) {
    let (outcome, steps) = explain(facts, channel, None);
    let words = steps.iter().map(|step| {
        assert!(!step.detail.is_empty());
        let at = step.at.map_or_else(String::new, |at| format!("@{at}"));
        format!("{}{at}", step.what.as_str())
    });
    (outcome, words.collect::<Vec<_>>().join(" "))
}

fn available() -> Channel {
    Channel { is_configured: true, status: ProviderStatus::Available, service: None }
}

const BEGUN: &str = "accepted@1000 started@2000 targeted@2000";

/// Facts, outcome and steps.
type Row = (DeliveryFacts, ExplainedOutcome, String);

fn rows() -> Vec<Row> {
    [settled_rows(), rows_to_come(), rows_not_targeted(), rows_of_audiences()].concat()
}

fn has_another_user(facts: &mut DeliveryFacts) {
    facts.notification.names_devices = true;
    facts.notification.names_users = true;
    facts.device.is_named = true;
    facts.device.user_changed = true;
}

fn fails_condition(facts: &mut DeliveryFacts) {
    facts.notification.has_condition = true;
    facts.device.unmet = Some("tag = vip".into());
}

fn has_canary(has_device: bool, judge_at: Option<Timestamp>) -> impl Fn(&mut DeliveryFacts) {
    move |facts| {
        facts.canary = Some(CanaryFacts { has_device, is_judged: false, judge_at });
    }
}

fn rows_of_audiences() -> Vec<Row> {
    use ExplainedOutcome::*;
    vec![
        (
            with(facts(DeliveryProgress::NotReached), has_canary(false, Some(NEXT))),
            Pending,
            after_start("enabled has_address canary"),
        ),
        (
            with(facts(DeliveryProgress::NotReached), has_canary(true, None)),
            Pending,
            after_start("enabled has_address canary waiting"),
        ),
        (
            with(facts(DeliveryProgress::NotReached), |facts| {
                has_canary(false, None)(facts);
                facts.canary.as_mut().unwrap().is_judged = true;
            }),
            Pending,
            after_start("enabled has_address waiting"),
        ),
        (
            with(facts(DeliveryProgress::InOpenPage), has_another_user),
            NotTargeted,
            after_start("user_changed enabled has_address passed_over"),
        ),
        (
            with(facts(DeliveryProgress::Skipped), fails_condition),
            NotTargeted,
            after_start("fails_audience enabled has_address passed_over"),
        ),
        (
            with(retrying(), has_another_user),
            Pending,
            after_start(
                "enabled@3000 has_address@3000 attempted@3000 user_changed next_attempt@9000",
            ),
        ),
        (
            settled(Outcome::Failed, Some("user_changed"), 1),
            Failed,
            after_start(
                "enabled@4000 has_address@4000 attempted@4000 user_changed@4000 failed@4000",
            ),
        ),
        (
            settled(Outcome::Failed, Some("fails_audience"), 1),
            Failed,
            after_start(
                "enabled@4000 has_address@4000 attempted@4000 fails_audience@4000 failed@4000",
            ),
        ),
        (
            with(settled(Outcome::Failed, Some("not_an_apns_token"), 0), has_no_apns_token),
            Failed,
            after_start("enabled@4000 has_address@4000 address_unusable failed@4000"),
        ),
        (
            with(facts(DeliveryProgress::NotReached), has_no_apns_token),
            Pending,
            after_start("enabled has_address address_unusable waiting"),
        ),
    ]
}

fn has_no_apns_token(facts: &mut DeliveryFacts) {
    facts.device.token_problem = TokenProblem::of(Platform::Ios, "null");
}

fn tag(facts: &mut DeliveryFacts) {
    facts.notification.tag = Some("vip".into());
}

fn dead(facts: &mut DeliveryFacts) {
    facts.device.dead = Some(("BadDeviceToken".into(), SETTLED));
}

fn after_start(rest: &str) -> String {
    format!("{BEGUN} {rest}")
}

fn settled_rows() -> Vec<Row> {
    use ExplainedOutcome::*;
    vec![
        (
            settled(Outcome::Sent, None, 1),
            Sent,
            after_start("enabled@4000 has_address@4000 attempted@4000 sent@4000"),
        ),
        (
            with(settled(Outcome::Sent, None, 3), tag),
            Sent,
            after_start("has_tag@3000 enabled@3000 has_address@3000 attempted@3000 sent@4000"),
        ),
        (
            settled(Outcome::Failed, Some("provider_not_configured"), 0),
            Failed,
            after_start("enabled@4000 has_address@4000 provider_not_configured@4000 failed@4000"),
        ),
        (
            with(settled(Outcome::Unregistered, Some("BadDeviceToken"), 1), dead),
            Unregistered,
            after_start(
                "enabled@4000 has_address@4000 attempted@4000 unregistered@4000 address_dead@4000",
            ),
        ),
        (
            settled(Outcome::Unregistered, Some("BadDeviceToken"), 1),
            Unregistered,
            after_start("enabled@4000 has_address@4000 attempted@4000 unregistered@4000 enabled"),
        ),
        (
            settled(Outcome::Expired, Some("credentials_refused"), 0),
            Expired,
            after_start("enabled@4000 has_address@4000 credentials_refused@4000 expired@4000"),
        ),
        (
            with(settled(Outcome::Canceled, Some("canceled"), 0), |facts| {
                facts.notification.cancel_requested_at = Some(TRIED);
            }),
            Canceled,
            after_start("enabled@4000 has_address@4000 cancel_requested@3000 canceled@4000"),
        ),
    ]
}

fn rows_to_come() -> Vec<Row> {
    use ExplainedOutcome::*;
    vec![
        (
            retrying(),
            Pending,
            after_start("enabled@3000 has_address@3000 attempted@3000 next_attempt@9000"),
        ),
        (
            with(retrying(), |facts| {
                facts.device.push_disabled = true;
                facts.device.has_address = false;
            }),
            Pending,
            after_start(
                "enabled@3000 has_address@3000 attempted@3000 disabled no_address next_attempt@9000",
            ),
        ),
        (facts(DeliveryProgress::NotReached), Pending, after_start("enabled has_address waiting")),
        (
            with(facts(DeliveryProgress::NotReached), pause),
            Pending,
            after_start("enabled has_address waiting paused@3000"),
        ),
        (
            with(retrying(), pause),
            Pending,
            after_start("enabled@3000 has_address@3000 attempted@3000 paused@3000 next_attempt"),
        ),
        (
            with(facts(DeliveryProgress::InOpenPage), tag),
            NotTargeted,
            after_start("lacks_tag enabled has_address passed_over"),
        ),
        (
            with(facts(DeliveryProgress::Skipped), |facts| facts.device.moved_at = Some(TRIED)),
            NotTargeted,
            after_start("enabled has_address passed_over address_moved@3000"),
        ),
        (
            with(facts(DeliveryProgress::Skipped), |facts| {
                tag(facts);
                dead(facts);
                facts.device.has_tag = true;
                facts.device.has_address = false;
            }),
            NotTargeted,
            after_start("has_tag address_dead@4000 no_address passed_over"),
        ),
    ]
}

fn rows_not_targeted() -> Vec<Row> {
    use ExplainedOutcome::*;
    vec![
        (
            with(facts(DeliveryProgress::RegisteredLater), |facts| facts.device.created_at = TRIED),
            NotTargeted,
            "accepted@1000 started@2000 targeted registered_later@3000".into(),
        ),
        (
            with(facts(DeliveryProgress::None), |facts| facts.device.platform = Platform::Ios),
            NotTargeted,
            "accepted@1000 started@2000 not_targeted".into(),
        ),
        (
            with(facts(DeliveryProgress::None), |facts| facts.notification.names_devices = true),
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
fn explains_every_outcome_in_order() {
    for (facts, outcome, words) in rows() {
        assert_eq!(explained(&facts, &available()), (outcome, words), "{facts:?}");
    }
}

/// Channels that block deliveries, and the step for each.
fn unavailable_channels() -> [(Channel, &'static str); 5] {
    let channel = |is_configured, status| Channel { is_configured, status, service: None };
    let rejected = ProviderStatus::AuthRejected {
        reason: Some("InvalidProviderToken".into()),
        probe_at: NEXT,
    };
    [
        (channel(false, ProviderStatus::Available), "provider_not_configured"),
        (channel(true, rejected), "credentials_refused"),
        (channel(true, ProviderStatus::Throttled { until: NEXT }), "paused"),
        (channel(true, ProviderStatus::Unreachable { probe_at: NEXT }), "paused"),
        (channel(true, ProviderStatus::Tripped), "paused"),
    ]
}

/// A browser waits for its push service while other deliveries of the provider continue.
#[test]
fn names_the_blocked_push_service() {
    let name = "https://push.example";
    let rejected = ProviderStatus::AuthRejected { reason: Some("http_403".into()), probe_at: NEXT };
    let channel = Channel { is_configured: true, status: rejected, service: Some(name.to_owned()) };
    let (_, steps) = explain(&facts(DeliveryProgress::NotReached), &channel, None);
    let step = steps.last().unwrap();
    assert_eq!(step.what, StepKind::CredentialsRefused);
    let expected = "https://push.example refuses the server's credentials (http_403): everything \
                    for this push service is held; next probe at 1970-01-01T00:00:09Z";
    assert_eq!(step.detail, expected);
}

#[test]
fn says_why_the_credentials_cannot_be_used() {
    for (reason, cause) in [
        (
            Some("THIRD_PARTY_AUTH_ERROR"),
            "fcm refuses the server's credentials (THIRD_PARTY_AUTH_ERROR)",
        ),
        (None, "fcm refuses the server's credentials"),
        (
            Some("credentials_cannot_be_opened"),
            "a server cannot open the stored credentials for fcm with its master key",
        ),
    ] {
        let status =
            ProviderStatus::AuthRejected { reason: reason.map(str::to_owned), probe_at: NEXT };
        let channel = Channel { is_configured: true, status, service: None };
        let (_, steps) = explain(&facts(DeliveryProgress::NotReached), &channel, None);
        let step = steps.last().unwrap();
        assert_eq!(step.what, StepKind::CredentialsRefused);
        let held = "everything is held; next probe at 1970-01-01T00:00:09Z";
        assert_eq!(step.detail, format!("{cause}: {held}"));
    }
}

#[test]
fn shows_the_provider_status_while_a_delivery_waits() {
    for (channel, word) in unavailable_channels() {
        let (_, words) = explained(&facts(DeliveryProgress::NotReached), &channel);
        assert_eq!(words, format!("{BEGUN} enabled has_address waiting {word}"));
        let (_, words) = explained(&retrying(), &channel);
        let attempted = "enabled@3000 has_address@3000 attempted@3000";
        // It is unknown when a stopped channel resumes.
        let at = if channel.status == ProviderStatus::Tripped { "" } else { "@9000" };
        assert_eq!(words, format!("{BEGUN} {attempted} {word} next_attempt{at}"));
        let (_, words) = explained(&settled(Outcome::Expired, Some("expired"), 0), &channel);
        let expired = "enabled@4000 has_address@4000";
        assert_eq!(
            words,
            format!("{BEGUN} {expired} {word} expired@4000"),
            "the status may have been the reason"
        );
        let (_, words) = explained(&settled(Outcome::Sent, None, 1), &channel);
        assert!(!words.contains(word), "a settled delivery does not wait: {words}");
    }
}

#[test]
fn details_contain_reasons_and_times() {
    let detail = |facts: &DeliveryFacts, word| {
        let (_, steps) = explain(facts, &available(), None);
        let step = steps.iter().find(|step| step.what == word);
        step.map(|step| step.detail.clone()).unwrap_or_default()
    };
    let failed = settled(Outcome::Failed, Some("BadTopic"), 1);
    assert_eq!(detail(&failed, StepKind::Attempted), "1 attempt, the last answer: BadTopic");
    assert_eq!(detail(&failed, StepKind::Failed), "failed: BadTopic");
    let again = "2 attempts, the last answer: Unavailable";
    assert_eq!(detail(&retrying(), StepKind::Attempted), again);
    assert_eq!(detail(&retrying(), StepKind::NextAttempt), "due at 1970-01-01T00:00:09Z");
    assert_eq!(
        detail(&scheduled(), StepKind::Scheduled),
        "due at 1970-01-01T00:00:09Z; the server chooses the recipients then"
    );
}

/// Facts, a channel, a step, and its complete detail.
type Detail = (DeliveryFacts, Channel, StepKind, &'static str);

const LATER: Timestamp = Timestamp(20_000);

fn details_of_settled() -> [Detail; 5] {
    use StepKind::{AddressDead, Attempted, Canceled, Expired, Failed};
    let failed = |reason, attempts| settled(Outcome::Failed, Some(reason), attempts);
    let ios = with(settled(Outcome::Unregistered, None, 1), |facts| {
        dead(facts);
        facts.device.platform = Platform::Ios;
        facts.notification.platforms = vec![Platform::Ios];
    });
    let not_allowed =
        "failed: address_not_allowed (the server runs without --allow-private-networks)";
    let dead = "the provider reported its address as dead (BadDeviceToken); another token, or \
                another ios_env, enables it";
    let expired = settled(Outcome::Expired, Some("UNAVAILABLE"), 2);
    let canceled = settled(Outcome::Canceled, Some("canceled"), 2);
    [
        (failed("provider_not_configured", 1), available(), Attempted, "1 attempt"),
        (failed("address_not_allowed", 0), available(), Failed, not_allowed),
        (expired, available(), Expired, "it expired (ttl_seconds): UNAVAILABLE"),
        (canceled, available(), Canceled, "canceled before it was tried again"),
        (ios, available(), AddressDead, dead),
    ]
}

fn details_of_pending() -> [Detail; 6] {
    use StepKind::{NextAttempt, Paused, Scheduled};
    let channel = |status| Channel { is_configured: true, status, service: None };
    let rejected = channel(ProviderStatus::AuthRejected { reason: None, probe_at: LATER });
    let throttled = || channel(ProviderStatus::Throttled { until: LATER });
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
    let in_zone = with(local(scheduled()), |facts| {
        facts.device.timezone = Some("Europe/Vienna".into());
    });
    let turn_in_zone =
        "the device's turn comes at 1970-01-01T01:00:00Z, by its offset from UTC then (+01:00)";
    [
        (retrying(), rejected, NextAttempt, probe),
        (retrying(), throttled(), NextAttempt, pause),
        (retrying(), throttled(), Paused, paused),
        (local(scheduled()), available(), Scheduled, turn),
        (in_zone, available(), Scheduled, turn_in_zone),
        (local(facts(DeliveryProgress::NotReached)), available(), Scheduled, turn),
    ]
}

fn details_of_the_target() -> [Detail; 7] {
    use StepKind::{FailsAudience, NotTargeted, PassedOver, Started, Targeted};
    let named = |is_named| {
        with(facts(DeliveryProgress::None), |facts| {
            facts.notification.names_devices = true;
            facts.device.is_named = is_named;
        })
    };
    let started = "became due; it goes to devices registered before this time";
    let targeted = "the notification names this device. The next lines say whether it can receive";
    let not_targeted = "it names devices, and this one is not among those on android";
    let passed_over = "it was skipped at sending time: it was disabled or had no address. That may have \
                       changed since";
    let skipped_in_audience = "it was skipped at sending time: it did not meet the condition of the \
                               audience, was disabled or had no address. That may have changed since";
    let skipped_as_user = "it was skipped at sending time: it lacked the tag, had another user, was \
                           disabled or had no address. That may have changed since";
    let of_user_with_tag = with(facts(DeliveryProgress::Skipped), |facts| {
        facts.notification.names_users = true;
        facts.notification.tag = Some("vip".into());
    });
    let of_condition = || with(facts(DeliveryProgress::Skipped), fails_condition);
    [
        (of_condition(), available(), PassedOver, skipped_in_audience),
        (of_user_with_tag, available(), PassedOver, skipped_as_user),
        (of_condition(), available(), FailsAudience, "does not meet `tag = vip` now"),
        (named(true), available(), Started, started),
        (named(true), available(), Targeted, targeted),
        (named(false), available(), NotTargeted, not_targeted),
        (facts(DeliveryProgress::Skipped), available(), PassedOver, passed_over),
    ]
}

#[test]
fn details_describe_what_is_known() {
    for (facts, channel, word, detail) in
        details_of_settled().into_iter().chain(details_of_pending()).chain(details_of_the_target())
    {
        let (_, steps) = explain(&facts, &channel, None);
        let actual = steps.iter().find(|step| step.what == word).map(|step| step.detail.as_str());
        assert_eq!(actual, Some(detail), "{facts:?}");
    }
}

#[test]
fn every_step_is_used() {
    let mut unused: HashSet<StepKind> = StepKind::ALL.iter().copied().collect();
    for (channel, _) in unavailable_channels() {
        for (mut facts, ..) in rows() {
            facts.notification.languages = vec!["de".to_owned()];
            for step in explain(&facts, &channel, None).1 {
                unused.remove(&step.what);
            }
        }
    }
    assert_eq!(unused, HashSet::new());
}

#[test]
fn the_language_of_a_translated_notification_is_explained() {
    let detail = |language: Option<&str>| {
        let mut facts = facts(DeliveryProgress::NotReached);
        facts.notification.languages = vec!["pt".to_owned(), "pt-BR".to_owned()];
        facts.device.language = language.map(str::to_owned);
        let (_, steps) = explain(&facts, &available(), None);
        let mut steps = steps.into_iter().filter(|step| step.what == StepKind::Language);
        let step = steps.next().unwrap();
        assert!(step.at.is_none() && steps.next().is_none());
        step.detail
    };
    assert_eq!(detail(Some("pt_BR")), "gets the texts of `pt-BR`: its language is `pt_BR` now");
    assert_eq!(detail(Some("pt-PT")), "gets the texts of `pt`: its language is `pt-PT` now");
    assert_eq!(
        detail(Some("fr")),
        "gets the notification's own texts: there is no translation for its language now, `fr`"
    );
    assert_eq!(detail(None), "gets the notification's own texts: it has no language now");
    let (_, steps) = explain(&facts(DeliveryProgress::NotReached), &available(), None);
    assert!(steps.iter().all(|step| step.what != StepKind::Language), "without translations");
}
