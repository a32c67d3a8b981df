//! One row for each kind of update, and for those that are skipped.

use serde_json::json;

use crate::api::inbound::telegram::*;

const NOW: Timestamp = Timestamp(1_795_219_200_500);
/// Five seconds ago, as Telegram sends it and as it is recorded.
const DATE: i64 = NOW.0 / 1_000 - 5;
const AT: Timestamp = Timestamp(DATE * 1_000 + 999);
const POLL: &str = "01a1fcca-b631-719b-823d-823843478e58";
const ANSWER: &str = "01a1fcca-b631-719b-823d-823a538fb389";
const LINKED_ID: &str = "0190a7c0-0000-4000-8000-00000000ffff";

fn make_test_id() -> DeviceId {
    DeviceId::new("made").unwrap()
}

fn wrote(requested_id: Option<&str>, language: Option<&str>) -> InboundAction {
    let requested_id = requested_id.map(|id| DeviceId::new(id).unwrap());
    InboundAction::Wrote(NewContact {
        generated_id: make_test_id(),
        requested_id,
        language: language.map(str::to_owned),
    })
}

fn voted() -> InboundAction {
    let poll = notify_core::NotificationId::new(POLL).unwrap();
    InboundAction::Voted { poll, answer: ANSWER.parse().unwrap() }
}

fn private() -> Value {
    json!({"id": 42, "type": "private", "first_name": "Ann"})
}

fn group() -> Value {
    json!({"id": -1_001_234_567_890_i64, "type": "supergroup", "title": "Tea"})
}

fn message(chat: &Value, text: &str) -> Value {
    json!({"update_id": 1, "message": {"message_id": 1, "date": DATE, "chat": chat, "text": text,
        "from": {"id": 42, "is_bot": false, "language_code": "de"}}})
}

fn press(chat: &Value, data: &str) -> Value {
    json!({"update_id": 1, "callback_query": {"id": "q1", "data": data,
        "from": {"id": 42, "is_bot": false, "language_code": "de"},
        "message": {"message_id": 1, "date": DATE, "chat": chat}}})
}

fn member(chat: &Value, status: &Value) -> Value {
    json!({"update_id": 1, "my_chat_member": {"chat": chat, "date": DATE, "from": {"id": 42},
        "old_chat_member": {"status": "member"}, "new_chat_member": status}})
}

fn with(mut update: Value, pointer: &str, value: &Value) -> Value {
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    update.pointer_mut(parent).unwrap()[member] = value.clone();
    update
}

/// Parses the update of each row and checks its acts, which all must have the time `at`.
fn assert_acts(
    rows: Vec<(&str, Value, Vec<InboundAction>)>,
    at: Option<Timestamp>,
    pressed: Option<&str>,
) {
    for (what, update, expected) in rows {
        let acts: Vec<_> = parse_update(&update, NOW, make_test_id)
            .into_iter()
            .map(|inbound| {
                assert_eq!(inbound.at, at, "{what}");
                assert!(["42", "-1001234567890"].contains(&inbound.who.address()), "{what}");
                inbound.act
            })
            .collect();
        assert_eq!(acts, expected, "{what}");
        assert_eq!(callback_query_id(&update).as_deref(), pressed, "{what}");
    }
}

#[test]
fn parses_messages() {
    let german = || wrote(None, Some("de"));
    let start = |rest: &str| message(&private(), &format!("/start{rest}"));
    let by_name = format!("/start@tea_bot {LINKED_ID}");
    let linked = start(&format!(" {LINKED_ID}"));
    let rows = vec![
        ("a start", start(""), vec![german()]),
        ("a start out of a link", linked, vec![wrote(Some(LINKED_ID), Some("de"))]),
        ("a start without a device id", start(" user-7"), vec![german()]),
        ("a message", message(&private(), "hi"), vec![german()]),
        (
            "a message that begins like it",
            message(&private(), &format!("/started {LINKED_ID}")),
            vec![german()],
        ),
        ("a picture", with(start(""), "/message/text", &json!(null)), vec![german()]),
        (
            "no language",
            with(start(""), "/message/from/language_code", &json!("d\u{0}e")),
            vec![wrote(None, None)],
        ),
        ("a bot", with(start(""), "/message/from/is_bot", &json!(true)), vec![]),
        ("a start in a group", message(&group(), "/start"), vec![wrote(None, None)]),
        (
            "a start with the name of the bot",
            message(&group(), &by_name),
            vec![wrote(Some(LINKED_ID), None)],
        ),
        ("a message in a group", message(&group(), "hi"), vec![]),
    ];
    assert_acts(rows, Some(AT), None);
}

#[test]
fn parses_changes_of_membership() {
    let in_group = group();
    let private = |status: &str| member(&private(), &json!({"status": status}));
    let group = |status: &str| member(&in_group, &json!({"status": status}));
    let restricted = |is_member: bool| {
        member(&in_group, &json!({"status": "restricted", "is_member": is_member}))
    };
    let rows = vec![
        ("blocked", private("kicked"), vec![InboundAction::Left]),
        ("removed from a group", group("left"), vec![InboundAction::Left]),
        ("restricted and no member any more", restricted(false), vec![InboundAction::Left]),
        ("unblocked", private("member"), vec![InboundAction::Returned]),
        ("made an administrator", group("administrator"), vec![InboundAction::Returned]),
        ("restricted", restricted(true), vec![InboundAction::Returned]),
        ("an unknown status", group("guest"), vec![]),
        ("no status", member(&in_group, &json!({})), vec![]),
    ];
    assert_acts(rows, Some(AT), None);
}

/// The update has no time at which the button was pressed.
#[test]
fn a_pressed_button_counts_for_its_chat() {
    let german = || wrote(None, Some("de"));
    let poll = notify_core::NotificationId::new(POLL).unwrap();
    let pressed = buttons::telegram_payload(&poll, ANSWER.parse().unwrap()).unwrap();
    let gone = with(press(&private(), &pressed), "/callback_query/message", &json!(null));
    let rows = vec![
        ("of an answer", press(&private(), &pressed), vec![german(), voted()]),
        ("of another button", press(&private(), "more"), vec![german()]),
        ("in a group", press(&group(), &pressed), vec![voted()]),
        ("of a deleted message", gone, vec![]),
    ];
    assert_acts(rows, None, Some("q1"));
}

/// A reply in a group without topics has the id of a thread too.
#[test]
fn what_happens_in_a_topic_counts_for_the_topic() {
    let in_thread = |update: Value, of: &str, is_topic: bool| {
        let update = with(update, &format!("{of}/message_thread_id"), &json!(7));
        with(update, &format!("{of}/is_topic_message"), &json!(is_topic))
    };
    let poll = notify_core::NotificationId::new(POLL).unwrap();
    let pressed = buttons::telegram_payload(&poll, ANSWER.parse().unwrap()).unwrap();
    for (chat, is_topic, expected) in [
        (group(), true, "-1001234567890/7"),
        (group(), false, "-1001234567890"),
        (private(), true, "42"),
    ] {
        for (update, of) in [
            (press(&chat, &pressed), "/callback_query/message"),
            (message(&chat, "/start"), "/message"),
        ] {
            let acts = parse_update(&in_thread(update, of, is_topic), NOW, make_test_id);
            assert!(!acts.is_empty());
            assert!(acts.iter().all(|act| act.who.address() == expected), "{of} {chat}");
        }
    }
}

#[test]
fn skips_other_updates() {
    let start = || message(&private(), "/start");
    let rows = vec![
        ("no chat", with(start(), "/message/chat", &json!(null)), vec![]),
        ("a chat whose id is a text", with(start(), "/message/chat/id", &json!("42")), vec![]),
        ("an edit", json!({"update_id": 1, "edited_message": start()["message"]}), vec![]),
        ("a post", json!({"update_id": 1, "channel_post": start()["message"]}), vec![]),
        ("a list", json!([]), vec![]),
        ("nothing", json!(null), vec![]),
    ];
    assert_acts(rows, None, None);
}

#[test]
fn a_date_is_the_end_of_its_second_and_never_in_the_future() {
    for (date, expected) in [
        (json!(DATE), Some(AT)),
        (json!(NOW.0 / 1_000), Some(NOW)),
        (json!(NOW.0 / 1_000 + 60), Some(NOW)),
        (json!(i64::MAX), None),
        (json!(0), None),
        (json!("5"), None),
        (json!(null), None),
    ] {
        let update = with(message(&private(), "hi"), "/message/date", &date);
        assert_eq!(parse_update(&update, NOW, make_test_id)[0].at, expected, "{date}");
    }
}
