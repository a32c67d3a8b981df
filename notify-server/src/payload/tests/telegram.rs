//! Whole calls of the Bot API, one row for each form.

use notify_core::{Content, Message, NewAnswer, NewPoll, Platform, PollLayout};
use serde_json::{Value, json};

use super::{Given, full, poll};
use crate::payload::{TooLarge, telegram};

const URL: &str = "https://n.example/o";
const IMAGE: &str = "https://i.example/1.png";
const POLL_URL: &str = "https://n.example/p/1";

/// Method and parameters of a notification's forms: those with a photo, then the texts.
fn calls(given: &Given) -> Vec<(&'static str, Value)> {
    let calls = telegram::render(&given.context()).unwrap();
    assert!(calls.with_photo.is_empty() || calls.with_photo.len() == calls.as_text.len());
    let all = calls.with_photo.into_iter().chain(calls.as_text);
    all.map(|form| (form.method, serde_json::from_slice(&form.body.put("-100123")).unwrap()))
        .collect()
}

fn message(text: &str, url: Option<&str>, image: Option<&str>) -> Given {
    let [url, image_url] = [url, image].map(|url| url.map(str::to_owned));
    Given::message(Message { text: text.to_owned(), url, image_url, ..Message::default() })
}

fn keyboard(buttons: &[Value]) -> Value {
    json!({"inline_keyboard": buttons.iter().map(|button| json!([button])).collect::<Vec<_>>()})
}

fn view(url: &str) -> Value {
    json!({"text": "View", "url": url})
}

fn text(text: &str) -> (&'static str, Value) {
    ("sendMessage", json!({"chat_id": "-100123", "text": text}))
}

fn text_with(text: &str, buttons: &[Value]) -> (&'static str, Value) {
    let reply_markup = keyboard(buttons);
    ("sendMessage", json!({"chat_id": "-100123", "text": text, "reply_markup": reply_markup}))
}

fn photo(caption: &str, photo: &str) -> (&'static str, Value) {
    ("sendPhoto", json!({"chat_id": "-100123", "photo": photo, "caption": caption}))
}

fn photo_with(caption: &str, url: &str, buttons: &[Value]) -> (&'static str, Value) {
    let (method, mut parameters) = photo(caption, url);
    parameters["reply_markup"] = keyboard(buttons);
    (method, parameters)
}

#[test]
fn a_topic_of_a_group_is_a_parameter_of_its_own() {
    let calls = telegram::render(&message("Hello", None, None).context()).unwrap();
    for (recipient, chat, topic) in [
        ("-100123/42", "-100123", Some(42)),
        ("@shop/7", "@shop", Some(7)),
        ("-100123", "-100123", None),
        ("a/1,\"b\"", "a/1,\"b\"", None),
    ] {
        let mut expected = json!({"chat_id": chat, "text": "Hello"});
        if let Some(topic) = topic {
            expected["message_thread_id"] = json!(topic);
        }
        let body: Value = serde_json::from_slice(&calls.first().body_for(recipient)).unwrap();
        assert_eq!(body, expected, "{recipient}");
    }
}

#[test]
fn a_message_is_a_text_or_a_photo_with_an_inline_url_button() {
    let own = Given::message(Message {
        text: "Hello".to_owned(),
        url: Some(URL.to_owned()),
        view_button: Some("x".repeat(65)),
        ..Message::default()
    });
    let cut = format!("{}…", "x".repeat(63));
    let linked = format!("Hello\n{IMAGE}");
    let rows = [
        (message("<b>&\"", None, None), vec![text("<b>&\"")]),
        (message("Hello", Some(URL), None), vec![text_with("Hello", &[view(URL)]), text("Hello")]),
        (own, vec![text_with("Hello", &[json!({"text": cut, "url": URL})]), text("Hello")]),
        // With the text that is sent if the photo is refused.
        (message("Hello", None, Some(IMAGE)), vec![photo("Hello", IMAGE), text(&linked)]),
        (
            message("Hello", Some(URL), Some(IMAGE)),
            vec![
                photo_with("Hello", IMAGE, &[view(URL)]),
                photo("Hello", IMAGE),
                text_with(&linked, &[view(URL)]),
                text(&linked),
            ],
        ),
        // A custom scheme is left out.
        (message("Hello", Some("shop://order/1"), None), vec![text("Hello")]),
        (full(), vec![photo("Läuft", IMAGE), text(&format!("Läuft\n{IMAGE}"))]),
    ];
    for (given, expected) in rows {
        assert_eq!(calls(&given), expected);
    }
}

#[test]
fn text_too_long_for_a_caption_is_sent_with_the_photo_link() {
    let caption = "ü".repeat(1_024);
    let longer = "ü".repeat(1_025);
    let longest = "ü".repeat(4_096 - IMAGE.len() - 1);
    let rows = [
        (caption.clone(), vec![photo(&caption, IMAGE), text(&format!("{caption}\n{IMAGE}"))]),
        (longer.clone(), vec![text(&format!("{longer}\n{IMAGE}"))]),
        (longest.clone(), vec![text(&format!("{longest}\n{IMAGE}"))]),
        // The link does not fit and is left out; the text is kept.
        (format!("{longest}ü"), vec![text(&format!("{longest}ü"))]),
    ];
    for (text, expected) in rows {
        assert_eq!(calls(&message(&text, None, Some(IMAGE))), expected);
    }
}

fn poll_of(answers: &[&str]) -> Given {
    let answer = |text: &&str| NewAnswer { text: (*text).to_owned(), image_url: None };
    Given::content(Content::Poll(NewPoll {
        text: "Which?".to_owned(),
        layout_id: PollLayout::PollText,
        image_url: None,
        answers: answers.iter().map(answer).collect(),
    }))
}

#[test]
fn a_poll_is_its_question_with_a_button_for_each_answer_and_its_page() {
    let answer = |text: &str, last: &str| {
        let data = format!("poll:AYkKXayWd0u8zrMCCZqAVw:AAAAAAAAAAAAAAAAAAAAA{last}");
        assert!(data.len() <= 64, "{data}");
        json!({"text": text, "callback_data": data})
    };
    let buttons = [answer("Tea", "Q"), answer("Coffee", "g"), view(POLL_URL)];
    let cup = "https://i.example/cup.png";
    assert_eq!(
        calls(&poll()),
        [
            photo_with("Tea or coffee?", cup, &buttons),
            photo_with("Tea or coffee?", cup, &buttons[..2]),
            photo("Tea or coffee?", cup),
            text_with(&format!("Tea or coffee?\n{cup}"), &buttons),
            text_with(&format!("Tea or coffee?\n{cup}"), &buttons[..2]),
            text(&format!("Tea or coffee?\n{cup}")),
        ]
    );
    assert_eq!(
        calls(&poll_of(&["", "b"])),
        [
            text_with("Which?", &[answer("1", "Q"), answer("b", "g"), view(POLL_URL)]),
            text_with("Which?", &[answer("1", "Q"), answer("b", "g")]),
            text("Which?"),
        ]
    );
    let buttons = |answers: usize| {
        let [(_, call), ..] = &calls(&poll_of(&vec!["x"; answers]))[..] else { panic!("a form") };
        call["reply_markup"]["inline_keyboard"].as_array().unwrap().len()
    };
    assert_eq!((buttons(99), buttons(100)), (100, 1), "at most 100 buttons below a message");
}

#[test]
fn overlong_text_is_not_rendered() {
    let given = Given::text("ü".repeat(4_097));
    let error = telegram::render(&given.context()).unwrap_err();
    let expected = TooLarge { platform: Platform::ChatApp, bytes: 4_097, limit: 4_096 };
    assert_eq!(error, expected);
}
