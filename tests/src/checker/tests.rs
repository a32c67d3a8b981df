//! Planted defects. The checker must report no finding for a sound history. For each planted defect, it must
//! report exactly the kind of the defect.

use std::collections::BTreeMap;

use notify_core::{Counts, DeliveryOutcome, NotificationStatus};
use notify_sandbox::Provider;

use super::{EndedProcess, Expected, History, Member, NotificationReport, Verdict};
use crate::received::Arrival;
use crate::request_log::{LogEntry, LoggedRequest, LoggedResponse};

const ID: &str = "id-1";
const KEY: &str = "key-1";

fn arrival(provider: Provider, address: &str, status: u16, connection: u64) -> Arrival {
    let identity = match provider {
        Provider::Apns | Provider::Fcm => Some(ID.to_owned()),
        Provider::WebPush => Some("topic-1".to_owned()),
        Provider::Messenger | Provider::Telegram | Provider::Oauth => None,
    };
    let (text, address) = (KEY.to_owned(), address.to_owned());
    Arrival { text, address, provider, identity, status, connection, at_ms: 0 }
}

fn member(device: &str, expected: Expected) -> Member {
    Member { device: device.to_owned(), addresses: vec![format!("{device}-token")], expected }
}

fn report(outcomes: &[(&str, DeliveryOutcome)]) -> NotificationReport {
    let mut counts = Counts { targeted: outcomes.len() as u64, ..Counts::default() };
    for (_, outcome) in outcomes {
        *match outcome {
            DeliveryOutcome::Sent => &mut counts.sent,
            DeliveryOutcome::Failed => &mut counts.failed,
            DeliveryOutcome::Unregistered => &mut counts.unregistered,
            DeliveryOutcome::Expired => &mut counts.expired,
            DeliveryOutcome::Canceled => &mut counts.canceled,
            DeliveryOutcome::Pending => &mut counts.pending,
        } += 1;
    }
    NotificationReport {
        id: ID.to_owned(),
        key: KEY.to_owned(),
        status: NotificationStatus::Completed,
        counts,
        deliveries: outcomes.iter().map(|(device, is)| ((*device).to_owned(), *is)).collect(),
    }
}

/// A history without defects: one notification to a member of each platform and of each expectation. The
/// first process was killed after its second connection, and its end repeated one message.
fn sound() -> History {
    let members = [
        ("ios", Expected::Delivered),
        ("android", Expected::Delivered),
        ("web", Expected::Delivered),
        ("person", Expected::Delivered),
        ("chat", Expected::Delivered),
        ("dead", Expected::Unregistered),
        ("refused", Expected::Rejected),
        ("maybe", Expected::Any),
        ("gone", Expected::Removed),
    ];
    let asked = LoggedRequest { key: KEY.to_owned(), audience: "all".to_owned() };
    let responses =
        vec![LoggedResponse::Unknown("reset".to_owned()), LoggedResponse::Accepted(ID.to_owned())];
    let members = members.map(|(device, expected)| member(device, expected)).to_vec();
    History {
        requests: vec![LogEntry { request: asked, responses }],
        audiences: BTreeMap::from([("all".to_owned(), members)]),
        arrivals: vec![
            arrival(Provider::Apns, "ios-token", 200, 1),
            arrival(Provider::Fcm, "android-token", 503, 2),
            arrival(Provider::Fcm, "dead-token", 404, 2),
            arrival(Provider::Fcm, "refused-token", 400, 2),
            arrival(Provider::Apns, "ios-token", 200, 3),
            arrival(Provider::Fcm, "android-token", 200, 3),
            arrival(Provider::WebPush, "web-token", 201, 4),
            arrival(Provider::Messenger, "person-token", 200, 5),
            arrival(Provider::Telegram, "chat-token", 200, 6),
        ],
        reports: vec![report(&[
            ("ios", DeliveryOutcome::Sent),
            ("android", DeliveryOutcome::Sent),
            ("web", DeliveryOutcome::Sent),
            ("person", DeliveryOutcome::Sent),
            ("chat", DeliveryOutcome::Sent),
            ("dead", DeliveryOutcome::Unregistered),
            ("refused", DeliveryOutcome::Failed),
            ("maybe", DeliveryOutcome::Canceled),
        ])],
        ended: vec![EndedProcess { last_connection: 2, repeats_max: 1 }],
    }
}

/// The number of findings of each kind: lost, duplicated, unexpected, wrong state, unbalanced,
/// unrecognisable.
fn counts_of(verdict: &Verdict) -> [usize; 6] {
    let kinds = [
        &verdict.lost,
        &verdict.duplicated,
        &verdict.unexpected,
        &verdict.wrong_state,
        &verdict.unbalanced,
        &verdict.unrecognisable,
    ];
    kinds.map(Vec::len)
}

const LOST: usize = 0;
const DUPLICATED: usize = 1;
const UNEXPECTED: usize = 2;
const WRONG_STATE: usize = 3;
const UNBALANCED: usize = 4;
const UNRECOGNISABLE: usize = 5;

#[test]
fn a_sound_history_is_sound() {
    let verdict = sound().check();
    assert_eq!(counts_of(&verdict), [0; 6], "{verdict:?}");
    verdict.ensure_sound().unwrap();
    assert_eq!((verdict.pairs, verdict.repeated(), verdict.largest_repeat()), (8, 1, 1));
}

/// A change of a history.
type Plant = fn(&mut History);
/// The description of a defect, the kind that must be reported, and the change that plants the defect.
type Planted = (&'static str, usize, Plant);

fn outcome(history: &mut History, device: &str, outcome: DeliveryOutcome) {
    let mut outcomes: Vec<_> = history.reports[0].deliveries.clone();
    let place = outcomes.iter().position(|(of, _)| of == device).unwrap();
    outcomes[place].1 = outcome;
    let outcomes: Vec<_> = outcomes.iter().map(|(of, is)| (of.as_str(), *is)).collect();
    history.reports = vec![report(&outcomes)];
}

fn forget(history: &mut History, address: &str) {
    history.arrivals.retain(|arrival| arrival.address != address);
}

fn leave_out(history: &mut History, device: &str) {
    let outcomes = history.reports[0].deliveries.clone();
    let outcomes = outcomes.iter().filter(|(of, _)| of != device);
    let outcomes: Vec<_> = outcomes.map(|(of, is)| (of.as_str(), *is)).collect();
    history.reports = vec![report(&outcomes)];
}

const PLANTED: &[Planted] = &[
    ("sent, and nothing arrived", LOST, |h| forget(h, "chat-token")),
    ("nothing known of an accepted notification", LOST, |h| {
        h.reports.clear();
        h.arrivals.clear();
    }),
    ("a member that is in no list", LOST, |h| {
        forget(h, "web-token");
        leave_out(h, "web");
    }),
    ("pending for ever", LOST, |h| {
        forget(h, "person-token");
        outcome(h, "person", DeliveryOutcome::Pending);
    }),
    ("expired though it was never tried", LOST, |h| {
        forget(h, "person-token");
        outcome(h, "person", DeliveryOutcome::Expired);
    }),
    ("failed though the provider would have taken it", LOST, |h| {
        h.arrivals[8].status = 500;
        outcome(h, "chat", DeliveryOutcome::Failed);
    }),
    ("more repeats than the end of a process excuses", DUPLICATED, |h| h.ended[0].repeats_max = 0),
    ("a repeat of a process that was not killed", DUPLICATED, |h| {
        h.arrivals.push(arrival(Provider::Telegram, "chat-token", 200, 7));
    }),
    ("an outcome lost by a process that was not killed", DUPLICATED, |h| {
        h.arrivals.push(arrival(Provider::Telegram, "gone-token", 200, 7));
    }),
    ("a refusal that is asked for again", DUPLICATED, |h| {
        h.arrivals.push(arrival(Provider::Fcm, "refused-token", 400, 7));
        h.ended[0].repeats_max = 1;
    }),
    ("arrived without a request", UNEXPECTED, |h| {
        h.arrivals[8].text = "key-2".to_owned();
        outcome(h, "chat", DeliveryOutcome::Sent);
        h.arrivals.push(arrival(Provider::Telegram, "chat-token", 200, 6));
    }),
    ("reported without a request", UNEXPECTED, |h| {
        h.reports.push(NotificationReport { key: "key-2".to_owned(), ..h.reports[0].clone() });
    }),
    ("arrived at an unknown address", UNEXPECTED, |h| {
        h.arrivals.push(arrival(Provider::Telegram, "unknown", 200, 6));
    }),
    ("arrived at a member that is in no list", UNEXPECTED, |h| leave_out(h, "web")),
    ("refused, and yet there", UNEXPECTED, |h| {
        h.requests[0].responses = vec![LoggedResponse::Rejected(400)]
    }),
    ("arrived for an unknown notification", UNEXPECTED, |h| {
        h.requests[0].responses.clear();
        h.reports.clear();
    }),
    ("an outcome of a device that is no member", UNEXPECTED, |h| {
        h.audiences.get_mut("all").unwrap().retain(|member| member.device != "maybe");
    }),
    ("one key made two", WRONG_STATE, |h| h.reports.push(h.reports[0].clone())),
    ("accepted under another id", WRONG_STATE, |h| {
        h.requests[0].responses.push(LoggedResponse::Accepted("id-2".to_owned()));
    }),
    ("never completed", WRONG_STATE, |h| h.reports[0].status = NotificationStatus::Sending),
    ("reported as dead, and was delivered", WRONG_STATE, |h| {
        outcome(h, "ios", DeliveryOutcome::Unregistered);
    }),
    ("reported as failed by the process that found it dead", WRONG_STATE, |h| {
        h.arrivals[2].connection = 3;
        outcome(h, "dead", DeliveryOutcome::Failed);
    }),
    ("several outcomes of one device", WRONG_STATE, |h| {
        let mut outcomes = h.reports[0].deliveries.clone();
        outcomes.push(("ios".to_owned(), DeliveryOutcome::Sent));
        let outcomes: Vec<_> = outcomes.iter().map(|(of, is)| (of.as_str(), *is)).collect();
        h.reports = vec![report(&outcomes)];
    }),
    ("the sum is not what was targeted", UNBALANCED, |h| h.reports[0].counts.targeted += 1),
    ("a count that the list does not bear out", UNBALANCED, |h| {
        h.reports[0].counts.sent -= 1;
        h.reports[0].counts.failed += 1;
    }),
    ("no collapse identity", UNRECOGNISABLE, |h| h.arrivals[0].identity = None),
    ("another collapse identity", UNRECOGNISABLE, |h| {
        h.arrivals[4].identity = Some("id-2".to_owned());
    }),
    ("no topic", UNRECOGNISABLE, |h| h.arrivals[6].identity = None),
    ("two topics of one notification", UNRECOGNISABLE, |h| {
        h.arrivals.insert(6, arrival(Provider::WebPush, "web-token", 503, 3));
        h.arrivals[6].identity = Some("topic-2".to_owned());
    }),
];

#[test]
fn every_planted_defect_is_reported_under_its_kind() {
    for (what, kind, plant) in PLANTED {
        let mut history = sound();
        plant(&mut history);
        let verdict = history.check();
        let mut expected = [0; 6];
        expected[*kind] = counts_of(&verdict)[*kind].max(1);
        assert_eq!(counts_of(&verdict), expected, "{what}: {verdict:?}");
        assert!(verdict.ensure_sound().is_err(), "{what}");
    }
}

#[test]
fn permitted_variations_are_not_reported() {
    let allowed: &[(&str, Plant)] = &[
        ("no answer, and it was done", |h| h.requests[0].responses.clear()),
        ("no answer, and nothing happened", |h| {
            h.requests[0].responses.clear();
            h.reports.clear();
            h.arrivals.clear();
        }),
        ("refused, and nothing happened", |h| {
            h.requests[0].responses = vec![LoggedResponse::Rejected(409)];
            h.reports.clear();
            h.arrivals.clear();
        }),
        ("a failure that is tried again", |h| {
            h.arrivals.insert(0, arrival(Provider::Telegram, "chat-token", 429, 1));
        }),
        ("a dead address that another notification found before it was tried again", |h| {
            h.arrivals[2].status = 500;
            outcome(h, "dead", DeliveryOutcome::Failed);
        }),
        (
            "a dead address that another notification found after a crash had lost the outcome",
            |h| {
                h.ended[0].repeats_max = 2;
                outcome(h, "dead", DeliveryOutcome::Failed);
            },
        ),
        ("a dead address that is known as such already", |h| {
            forget(h, "dead-token");
            leave_out(h, "dead");
        }),
        ("a dead address that is known as such since a crash", |h| leave_out(h, "dead")),
        ("a member that left after a crash had lost its outcome", |h| {
            h.arrivals.insert(0, arrival(Provider::Fcm, "gone-token", 200, 1));
            h.ended[0].repeats_max = 2;
        }),
    ];
    for (what, change) in allowed {
        let mut history = sound();
        change(&mut history);
        let verdict = history.check();
        assert_eq!(counts_of(&verdict), [0; 6], "{what}: {verdict:?}");
    }
}
