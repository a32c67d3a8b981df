//! Bodies with gaps: filled, they equal the body that is rendered for one device.

use notify_core::{CampaignRef, Content, Message};
use serde_json::Value;

use super::{Given, object};
use crate::payload::gapped::{Counting, GappedBody, mark};
use crate::payload::{apns, fcm, web_push};

/// Texts that could break out of JSON, or look like a gap.
const TEXTS: [&str; 9] = [
    "Ada",
    "",
    "\"},\"aps\":{\"badge\":1},\"x\":{\"y\":\"",
    "back\\slash\\",
    "line\nbreak\u{0}\u{1f}",
    "{{name|default}}",
    "ünïcödé 😀 \u{2028}",
    "\u{e000}notify.1\u{e001}",
    "</script>",
];

/// A message whose title and text have gaps for two texts.
fn with_texts(first: &str, second: &str) -> Given {
    Given::message(Message {
        text: format!("Hello \"{first}\", {second} and {first}"),
        title: Some(format!("For {second}")),
        url: Some("https://shop.example/".to_owned()),
        extra: Some(notify_core::Extra { key: "k".to_owned(), value: object(r#"{"a": "b"}"#) }),
        campaign: Some(CampaignRef::Default),
        ..Message::default()
    })
}

#[test]
fn a_filled_body_equals_the_rendered_one() {
    let marked = with_texts(&mark(0), &mark(1));
    let (to_apns, apns_headers) = apns::render_gapped(&marked.context(), 2);
    let (to_browser, web_headers) = web_push::render_gapped(&marked.context(), 2);
    let to_fcm = [false, true].map(|as_data| fcm::render_gapped(&marked.context(), as_data, 2));
    for first in TEXTS {
        for second in TEXTS {
            let given = with_texts(first, second);
            let texts = [first, second];
            let rendered = apns::render(&given.context()).unwrap();
            assert_eq!(to_apns.fill(&texts).unwrap(), rendered.body);
            assert_eq!(apns_headers, rendered.headers);
            let rendered = web_push::render(&given.context()).unwrap();
            assert_eq!(to_browser.fill(&texts).unwrap(), rendered.body);
            assert_eq!(web_headers, rendered.headers);
            for (as_data, (before, after)) in [false, true].into_iter().zip(&to_fcm) {
                let rendered = fcm::render(&given.context(), as_data).unwrap();
                assert_eq!(*before, rendered.body.before);
                assert_eq!(after.fill(&texts).unwrap(), rendered.body.after);
            }
        }
    }
}

#[test]
fn a_body_is_filled_up_to_the_limit() {
    let marked = Given::text(mark(0));
    let quotes = |count: usize| "\"".repeat(count);
    let (to_apns, _) = apns::render_gapped(&marked.context(), 1);
    let (_, to_fcm) = fcm::render_gapped(&marked.context(), false, 1);
    let (to_browser, _) = web_push::render_gapped(&marked.context(), 1);
    let fits = |given: &Given| {
        [
            apns::render(&given.context()).is_ok(),
            fcm::render(&given.context(), false).is_ok(),
            web_push::render(&given.context()).is_ok(),
        ]
    };
    for count in (1_900..2_100).chain(3_900..4_100) {
        for text in ["x".repeat(count), quotes(count)] {
            let filled = [&to_apns, &to_fcm, &to_browser].map(|body| body.fill(&[&text]).is_some());
            assert_eq!(filled, fits(&Given::text(text)), "{count}");
        }
    }
}

#[test]
fn a_body_without_marks_is_whole() {
    let raw = Given::message(Message {
        text: mark(0),
        ios_json: Some(object(r#"{"aps":{"alert":"a","badge":1,"sound":"s"}}"#)),
        android_json: Some(object(r#"{"k":"v"}"#)),
        ..Message::default()
    });
    let (to_apns, _) = apns::render_gapped(&raw.context(), 1);
    let (_, to_fcm) = fcm::render_gapped(&raw.context(), false, 1);
    assert!(to_apns.is_whole() && to_fcm.is_whole());
    let json = bytes::Bytes::from(format!("\"{}{}\"", mark(1), mark(0)));
    let body = GappedBody::cut(&json, 2, json.len(), 4, Counting::Json);
    assert_eq!(body.fill(&["b", "a"]).unwrap(), "\"ab\"");
    assert_eq!(body.fill(&["b", "aa"]), None, "larger than the limit");
    let value: Value = serde_json::from_slice(&body.fill(&["", "\""]).unwrap()).unwrap();
    assert_eq!(value, "\"");
    assert!(matches!(raw.content, Content::Message(_)));
}
