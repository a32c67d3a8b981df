//! Whole bodies on Messenger, one row for each form.

use notify_core::{Content, Message, NewAnswer, NewPoll, Platform, PollLayout};
use serde_json::{Value, json};

use super::{Given, ID, full, poll};
use crate::payload::{TooLarge, messenger};

const URL: &str = "https://n.example/o";
const IMAGE: &str = "https://i.example/1.png";
const POLL_URL: &str = "https://n.example/p/1";

fn sent(given: &Given) -> Value {
    let body = messenger::render(&given.context()).unwrap().first.put("4711");
    serde_json::from_slice(&body).unwrap()
}

/// The text that is sent if Messenger refuses a part of the message.
fn plain(given: &Given) -> Option<Value> {
    let body = messenger::render(&given.context()).unwrap().plain?.put("4711");
    Some(serde_json::from_slice(&body).unwrap())
}

fn body(message: &Value) -> Value {
    json!({"recipient": {"id": "4711"}, "messaging_type": "UPDATE", "message": message})
}

fn template(payload: &Value) -> Value {
    json!({"attachment": {"type": "template", "payload": payload}})
}

fn card(element: &Value) -> Value {
    template(&json!({"template_type": "generic", "elements": [element]}))
}

fn view(title: &str, url: &str) -> Value {
    json!({"type": "web_url", "url": url, "title": title})
}

fn opens(url: &str) -> Value {
    json!({"type": "web_url", "url": url})
}

fn answer(number: u8, title: &str) -> Value {
    json!({"type": "postback", "title": title, "payload": payload(number)})
}

fn payload(number: u8) -> String {
    format!("poll:{ID}:00000000-0000-0000-0000-{number:012x}")
}

fn quick(number: u8, title: &str) -> Value {
    json!({"content_type": "text", "title": title, "payload": payload(number)})
}

fn message(text: &str, url: Option<&str>, image: Option<&str>) -> Given {
    let [url, image_url] = [url, image].map(|url| url.map(str::to_owned));
    Given::message(Message { text: text.to_owned(), url, image_url, ..Message::default() })
}

fn poll_of(text: &str, image: Option<&str>, answers: &[&str]) -> Given {
    let answer = |text: &&str| NewAnswer { text: (*text).to_owned(), image_url: None };
    Given::content(Content::Poll(NewPoll {
        text: text.to_owned(),
        layout_id: PollLayout::PollText,
        image_url: image.map(str::to_owned),
        answers: answers.iter().map(answer).collect(),
    }))
}

#[test]
fn message_is_a_text_or_a_template_with_url_or_image() {
    let own = Given::message(Message {
        text: "Hello".to_owned(),
        url: Some(URL.to_owned()),
        view_button: Some("Read the whole story now".to_owned()),
        ..Message::default()
    });
    let rows = [
        (message("Hello \"you\"", None, None), json!({"text": "Hello \"you\""})),
        (
            message("Hello", Some(URL), None),
            card(
                &json!({"title": "Hello", "default_action": opens(URL), "buttons": [view("View", URL)]}),
            ),
        ),
        (
            own,
            card(&json!({
                "title": "Hello",
                "default_action": opens(URL),
                "buttons": [view("Read the whole stor…", URL)],
            })),
        ),
        (message("Hello", None, Some(IMAGE)), card(&json!({"title": "Hello", "image_url": IMAGE}))),
        (
            message("Hello", Some(URL), Some(IMAGE)),
            card(&json!({
                "title": "Hello",
                "image_url": IMAGE,
                "default_action": opens(URL),
                "buttons": [view("View", URL)],
            })),
        ),
        // A custom scheme is left out.
        (message("Hello", Some("shop://order/1"), None), json!({"text": "Hello"})),
        (full(), card(&json!({"title": "Läuft", "image_url": IMAGE}))),
    ];
    for (given, expected) in rows {
        assert_eq!(sent(&given), body(&expected));
    }
}

#[test]
fn the_plain_form_has_the_links_below_the_text() {
    let long = "ü".repeat(2_000 - URL.len() - 1);
    for (given, expected) in [
        (message("Hello", None, None), None),
        (message("Hello", Some("shop://order/1"), None), None),
        (message("Hello", Some(URL), None), Some(format!("Hello\n{URL}"))),
        (message("Hello", None, Some(IMAGE)), Some(format!("Hello\n{IMAGE}"))),
        (message("Hello", Some(URL), Some(IMAGE)), Some(format!("Hello\n{URL}\n{IMAGE}"))),
        (message(&long, Some(URL), Some(IMAGE)), Some(format!("{long}\n{URL}"))),
        (poll_of("Which?", None, &["a", "b"]), Some(format!("Which?\n{POLL_URL}"))),
        (poll_of("Which?", None, &["x"; 5]), Some(format!("Which?\n{POLL_URL}"))),
    ] {
        let expected = expected.map(|text| body(&json!({"text": text})));
        assert_eq!(plain(&given), expected);
    }
}

#[test]
fn text_uses_the_smallest_form_that_fits() {
    // 16 words of 4 letters make 79 characters, with the spaces between them.
    let words = |count: usize| vec!["abcd"; count].join(" ");
    let (title, rest) = (words(16), words(16));
    let long = "x".repeat(161);
    let buttons = [view("View", URL)];
    let longest = "ü".repeat(2_000 - URL.len() - 1);
    let rows = [
        (
            words(16),
            card(&json!({"title": title, "default_action": opens(URL), "buttons": buttons})),
        ),
        (
            words(32),
            card(&json!({
                "title": title,
                "subtitle": rest,
                "default_action": opens(URL),
                "buttons": buttons,
            })),
        ),
        (
            "x".repeat(160),
            card(&json!({
                "title": "x".repeat(80),
                "subtitle": "x".repeat(80),
                "default_action": opens(URL),
                "buttons": buttons,
            })),
        ),
        (
            long.clone(),
            template(&json!({"template_type": "button", "text": long, "buttons": buttons})),
        ),
        (
            "ü".repeat(640),
            template(
                &json!({"template_type": "button", "text": "ü".repeat(640), "buttons": buttons}),
            ),
        ),
        ("ü".repeat(641), json!({"text": format!("{}\n{URL}", "ü".repeat(641))})),
        (longest.clone(), json!({"text": format!("{longest}\n{URL}")})),
        // The link does not fit and is left out; the text is kept.
        (format!("{longest}ü"), json!({"text": format!("{longest}ü")})),
    ];
    for (text, expected) in rows {
        assert_eq!(sent(&message(&text, Some(URL), None)), body(&expected), "{text}");
    }
    let with_image = sent(&message(&"x".repeat(161), None, Some(IMAGE)));
    let element = &with_image["message"]["attachment"]["payload"]["elements"][0];
    assert_eq!(element["title"], "x".repeat(80));
    assert_eq!(element["subtitle"], format!("{}…", "x".repeat(79)));
}

#[test]
fn a_poll_is_its_question_with_a_button_for_each_answer() {
    let tea = &["Tea", "Coffee", "Water"];
    let rows = [
        (
            poll(),
            card(&json!({
                "title": "Tea or coffee?",
                "image_url": "https://i.example/cup.png",
                "default_action": opens(POLL_URL),
                "buttons": [answer(1, "Tea"), answer(2, "Coffee"), view("View", POLL_URL)],
            })),
        ),
        (
            poll_of("What?", None, tea),
            card(&json!({
                "title": "What?",
                "default_action": opens(POLL_URL),
                "buttons": [answer(1, "Tea"), answer(2, "Coffee"), answer(3, "Water")],
            })),
        ),
        (
            poll_of(&"x".repeat(640), None, &["", "An answer of more than twenty"]),
            template(&json!({
                "template_type": "button",
                "text": "x".repeat(640),
                "buttons": [
                    answer(1, "1"), answer(2, "An answer of more t…"), view("View", POLL_URL),
                ],
            })),
        ),
        (
            poll_of(&"x".repeat(641), None, tea),
            json!({
                "text": format!("{}\n{POLL_URL}", "x".repeat(641)),
                "quick_replies": [quick(1, "Tea"), quick(2, "Coffee"), quick(3, "Water")],
            }),
        ),
        (poll_of("Which?", None, &["a", "b", "c", "d"]), {
            let mut message = card(&json!({
                "title": "Which?",
                "default_action": opens(POLL_URL),
                "buttons": [view("View", POLL_URL)],
            }));
            message["quick_replies"] =
                json!([quick(1, "a"), quick(2, "b"), quick(3, "c"), quick(4, "d")]);
            message
        }),
        // More answers than there can be quick replies: people vote only on the poll's page.
        (
            poll_of("Which?", None, &["x"; 14]),
            card(&json!({
                "title": "Which?",
                "default_action": opens(POLL_URL),
                "buttons": [view("View", POLL_URL)],
            })),
        ),
    ];
    for (given, expected) in rows {
        assert_eq!(sent(&given), body(&expected));
    }
    let thirteen = sent(&poll_of("Which?", None, &["x"; 13]));
    assert_eq!(thirteen["message"]["quick_replies"].as_array().unwrap().len(), 13);
}

#[test]
fn recipient_id_is_escaped_as_a_json_string() {
    let body = messenger::render(&Given::text("x").context()).unwrap().first;
    for id in ["4711", "a\"b\\c", "ü\u{1}"] {
        let body: Value = serde_json::from_slice(&body.put(id)).unwrap();
        assert_eq!(body["recipient"]["id"], id);
    }
}

#[test]
fn overlong_text_is_not_rendered() {
    let given = Given::text("ü".repeat(2_001));
    let error = messenger::render(&given.context()).unwrap_err();
    let expected = TooLarge { platform: Platform::FbMessenger, bytes: 2_001, limit: 2_000 };
    assert_eq!(error, expected);
}

#[test]
fn texts_are_cut_between_grapheme_clusters() {
    let (flag, family) = ("🇦🇹", "👨‍👩‍👧‍👦");
    let title = "x".repeat(79);
    let given = message(&format!("{title}{flag}"), Some(URL), Some(IMAGE));
    let element = sent(&given)["message"]["attachment"]["payload"]["elements"][0].clone();
    assert_eq!((&element["title"], &element["subtitle"]), (&json!(title), &json!(flag)));
    let given = Given::message(Message {
        text: "Hello".to_owned(),
        url: Some(URL.to_owned()),
        view_button: Some(format!("{}{family}", "x".repeat(15))),
        ..Message::default()
    });
    let label = &sent(&given)["message"]["attachment"]["payload"]["elements"][0]["buttons"][0];
    assert_eq!(label["title"], format!("{}…", "x".repeat(15)));
}
