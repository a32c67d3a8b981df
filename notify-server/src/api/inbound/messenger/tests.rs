//! One row for each kind of event that Meta sends, and for malformed ones.

use serde_json::json;

use crate::api::inbound::messenger::*;
use crate::store::Recipient;

const NOW: Timestamp = Timestamp(1_795_219_200_000);
const AT: i64 = NOW.0 - 5_000;
const POLL: &str = "01a1fcca-b631-719b-823d-823843478e58";
const ANSWER: &str = "01a1fcca-b631-719b-823d-823a538fb389";
const LINKED_ID: &str = "0190a7c0-0000-4000-8000-00000000ffff";

fn make_test_id() -> DeviceId {
    DeviceId::new("made").unwrap()
}

fn wrote(requested_id: Option<&str>) -> InboundAction {
    let requested_id = requested_id.map(|id| DeviceId::new(id).unwrap());
    InboundAction::Wrote(NewContact { generated_id: make_test_id(), requested_id, language: None })
}

fn voted() -> InboundAction {
    let poll = notify_core::NotificationId::new(POLL).unwrap();
    InboundAction::Voted { poll, answer: ANSWER.parse().unwrap() }
}

fn call(events: &[Value]) -> Value {
    json!({"object": "page", "entry": [{"id": "page", "time": AT, "messaging": events}]})
}

/// An event of person 7 with these members.
fn event(members: &Value) -> Value {
    let mut event = json!({"sender": {"id": "7"}, "recipient": {"id": "page"}, "timestamp": AT});
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

#[test]
fn parses_each_kind_of_event() {
    let pressed = format!("poll:{POLL}:{ANSWER}");
    let rows: Vec<(&str, Value, Vec<InboundAction>)> = vec![
        ("a message", json!({"message": {"mid": "m", "text": "hi"}}), vec![wrote(None)]),
        ("a picture", json!({"message": {"attachments": [{}]}}), vec![wrote(None)]),
        (
            "a message out of a link",
            json!({"message": {"text": "hi", "referral": {"ref": LINKED_ID}}}),
            vec![wrote(Some(LINKED_ID))],
        ),
        (
            "a quick reply",
            json!({"message": {"text": "yes", "quick_reply": {"payload": pressed}}}),
            vec![wrote(None), voted()],
        ),
        ("a button", json!({"postback": {"payload": pressed}}), vec![wrote(None), voted()]),
        (
            "Get Started out of a link",
            json!({"postback": {"payload": "GET_STARTED", "referral": {"ref": LINKED_ID}}}),
            vec![wrote(Some(LINKED_ID))],
        ),
        ("a link", json!({"referral": {"ref": LINKED_ID}}), vec![wrote(Some(LINKED_ID))]),
        ("a link without a device id", json!({"referral": {"ref": "user-7"}}), vec![wrote(None)]),
        ("an opt-in", json!({"optin": {"ref": LINKED_ID}}), vec![wrote(Some(LINKED_ID))]),
        ("an opt-in to one topic", json!({"optin": {"type": "notification_messages"}}), vec![]),
        ("an echo", json!({"message": {"is_echo": true, "text": "ours"}}), vec![]),
        ("a deletion", json!({"message": {"is_deleted": true}}), vec![]),
        ("a delivery", json!({"delivery": {"watermark": 1}}), vec![]),
        ("a read", json!({"read": {"watermark": 1}}), vec![]),
        ("something new", json!({"hologram": {}}), vec![]),
        ("a message of a wrong type", json!({"message": "hi"}), vec![]),
        ("no sender", json!({"sender": null, "message": {}}), vec![]),
        ("a number", json!({"sender": {"id": 7}, "message": {}}), vec![]),
        ("no id", json!({"sender": {"id": ""}, "message": {}}), vec![]),
        ("a space", json!({"sender": {"id": "7 8"}, "message": {}}), vec![]),
        ("too long", json!({"sender": {"id": "7".repeat(256)}, "message": {}}), vec![]),
        ("only a user_ref", json!({"sender": {"user_ref": "7"}, "optin": {}}), vec![]),
    ];
    for (what, members, expected) in rows {
        let who = Recipient::Messenger("7".to_owned());
        let expected: Vec<_> = expected
            .into_iter()
            .map(|act| Inbound { who: who.clone(), at: Some(Timestamp(AT)), act })
            .collect();
        assert_eq!(parse_call(&call(&[event(&members)]), NOW, make_test_id), expected, "{what}");
    }
}

#[test]
fn times_are_optional_and_never_in_the_future() {
    for (timestamp, expected) in [
        (json!(AT), Some(Timestamp(AT))),
        (json!(NOW.0 + 60_000), Some(NOW)),
        (json!(0), None),
        (json!(-5), None),
        (json!("5"), None),
        (json!(1e300), None),
        (json!(null), None),
    ] {
        let event = event(&json!({"timestamp": timestamp, "message": {}}));
        assert_eq!(parse_call(&call(&[event]), NOW, make_test_id)[0].at, expected, "{timestamp}");
    }
}

#[test]
fn skips_invalid_events_of_a_batch() {
    let message = |person: &str| event(&json!({"sender": {"id": person}, "message": {}}));
    let entry = |events: Value| json!({"id": "page", "messaging": events});
    let batch = json!({"object": "page", "entry": [
        entry(json!([message("1"), 7, message("2")])),
        {"id": "page", "changes": [{}]},
        {"id": "page", "standby": [message("4")]},
        entry(json!("none")),
        entry(json!([message("3")])),
    ]});
    let people: Vec<_> = parse_call(&batch, NOW, make_test_id)
        .iter()
        .map(|event| event.who.address().to_owned())
        .collect();
    assert_eq!(people, ["1", "2", "3"]);
}

#[test]
fn ignores_calls_that_are_not_about_a_page() {
    let events = json!([{"messaging": [event(&json!({"message": {}}))]}]);
    for body in [
        json!({"object": "instagram", "entry": events}),
        json!({"entry": events}),
        json!({"object": "page"}),
        json!({"object": "page", "entry": {}}),
        json!([]),
        json!(null),
        json!("page"),
    ] {
        assert_eq!(parse_call(&body, NOW, make_test_id), [], "{body}");
    }
}
