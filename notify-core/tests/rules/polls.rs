//! Polls in notifications, and votes.

use notify_core::{AnswerPoll, CreateNotification, POLL_ANSWERS_MAX, Request};
use serde_json::{Value, json};

use crate::support::{NOW, check, check_types, errors_of};

pub(crate) fn poll(layout: &str, answer: &Value) -> Value {
    json!({"platforms": ["ios"], "poll": {
        "text": "?", "layout_id": layout, "image_url": "https://x.example/i.png",
        "answers": [answer, answer],
    }})
}

#[test]
fn polls_are_checked() {
    let base = poll("poll_text", &json!({"text": "a"}));
    let answers = |count: usize| json!(vec![json!({"text": "a"}); count]).to_string();
    check::<CreateNotification>(
        &base,
        &[
            ("/poll/text", "-", &["poll.text: is required"]),
            ("/poll/text", "\"\"", &["poll.text: is required"]),
            ("/poll/layout_id", "-", &["poll.layout_id: is required"]),
            (
                "/poll/layout_id",
                "\"x\"",
                &["poll.layout_id: must be one of poll_images, poll_text, poll_text_wide_image"],
            ),
            (
                "/poll/image_url",
                "\"ftp://x\"",
                &["poll.image_url: must be an absolute http or https url"],
            ),
            ("/poll/image_url", "\"\"", &[]),
            ("/poll/answers", "-", &["poll.answers: is required"]),
            ("/poll/answers", &answers(1), &["poll.answers: must hold at least 2 elements"]),
            ("/poll/answers", &answers(POLL_ANSWERS_MAX), &[]),
            (
                "/poll/answers",
                &answers(POLL_ANSWERS_MAX + 1),
                &["poll.answers: must hold at most 100 elements"],
            ),
            ("/poll/answers/1", "{}", &["poll.answers[1].text: is required for layout poll_text"]),
            ("/poll/answers/1", "1", &["poll.answers[1]: expected an object"]),
            ("/poll/answer", "1", &["poll.answer: unknown field, did you mean `answers`?"]),
        ],
    );
    check_types::<CreateNotification>(
        &base,
        &[
            ("/poll", "an object"),
            ("/poll/text", "a string"),
            ("/poll/layout_id", "a string"),
            ("/poll/image_url", "a string"),
            ("/poll/answers", "a list"),
        ],
    );
}

#[test]
fn each_poll_layout_requires_its_fields() {
    let image = json!({"image_url": "https://x.example/a.png"});
    check::<CreateNotification>(
        &poll("poll_images", &image),
        &[(
            "/poll/answers/0",
            "{\"text\": \"a\"}",
            &["poll.answers[0].image_url: is required for layout poll_images"],
        )],
    );
    let both = json!({"text": "a", "image_url": "https://x.example/a.png"});
    check::<CreateNotification>(
        &poll("poll_text_wide_image", &both),
        &[(
            "/poll/answers/0",
            "{}",
            &[
                "poll.answers[0].text: is required for layout poll_text_wide_image",
                "poll.answers[0].image_url: is required for layout poll_text_wide_image",
            ],
        )],
    );
}

#[test]
fn votes_need_no_body() {
    for body in ["", " \n", "{}", "{\"device_id\": null}", "{\"device_id\": \"d\"}"] {
        assert_eq!(errors_of::<AnswerPoll>(body), [""; 0], "{body}");
    }
    assert_eq!(AnswerPoll::parse(b"", NOW).unwrap().device_id, None);
    let rows = [
        ("{\"device_id\": \"\"}", "device_id: must not be empty"),
        ("{\"device_id\": 1}", "device_id: expected a string"),
        ("{\"device\": \"d\"}", "device: unknown field"),
        ("[]", "body: expected an object"),
    ];
    for (body, expected) in rows {
        assert_eq!(errors_of::<AnswerPoll>(body), [expected]);
    }
}
