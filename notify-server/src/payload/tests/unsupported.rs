//! The notes of a preview for chats.

use notify_core::{Content, Message, NewAnswer, NewPoll, Platform, PollLayout};

use super::{Given, full};
use crate::payload::unsupported;

const URL: &str = "https://n.example/o";
const IMAGE: &str = "https://i.example/1.png";

const SCHEME: &str = "the url has a custom scheme, which no button opens here: left out";
const BELOW: &str = "the text is too long for a caption: the image goes as a link below it";
const NOWHERE: &str =
    "the text is too long for a caption and for the image's link: the image is left out";
const SHORTENED: &str = "the text is shortened to fit beside the image";
const NO_ROOM: &str = "the url does not fit below the text: left out";

fn message(text_chars: usize, url: Option<&str>, image: Option<&str>, label: &str) -> Given {
    let [url, image_url] = [url, image].map(|url| url.map(str::to_owned));
    Given::message(Message {
        text: "ü".repeat(text_chars),
        url,
        image_url,
        view_button: Some(label.to_owned()),
        ..Message::default()
    })
}

fn poll(answers: usize, text_chars: usize, image: bool) -> Given {
    let image_url = image.then(|| IMAGE.to_owned());
    let answer = NewAnswer { text: "x".repeat(text_chars), image_url };
    Given::content(Content::Poll(NewPoll {
        text: "Which?".to_owned(),
        layout_id: PollLayout::PollText,
        image_url: None,
        answers: vec![answer; answers],
    }))
}

#[test]
fn unsupported_features_are_listed() {
    // The notes for Messenger, and those for Telegram.
    let rows: Vec<(Given, &[&str], &[&str])> = vec![
        (message(160, Some(URL), Some(IMAGE), "Open"), &[], &[]),
        (message(1, Some("shop://order"), None, &"x".repeat(99)), &[SCHEME], &[SCHEME]),
        (full(), &[SCHEME], &[SCHEME]),
        (
            message(1, Some(URL), None, &"x".repeat(21)),
            &["view_button is shortened to 20 characters"],
            &[],
        ),
        (
            message(1, Some(URL), None, &"x".repeat(65)),
            &["view_button is shortened to 20 characters"],
            &["view_button is shortened to 64 characters"],
        ),
        (message(161, None, Some(IMAGE), "Open"), &[SHORTENED], &[]),
        (message(1_025, None, Some(IMAGE), "Open"), &[SHORTENED], &[BELOW]),
        (message(1_980, Some(URL), None, "Open"), &[], &[]),
        (message(1_981, Some(URL), None, "Open"), &[NO_ROOM], &[]),
        (message(4_090, None, Some(IMAGE), "Open"), &[SHORTENED], &[NOWHERE]),
        (poll(13, 20, false), &[], &[]),
        (
            poll(2, 65, false),
            &["labels of answers are shortened to 20 characters"],
            &["labels of answers are shortened to 64 characters"],
        ),
        (
            poll(14, 65, false),
            &["over 13 answers: they are chosen on the poll's page alone"],
            &["labels of answers are shortened to 64 characters"],
        ),
        (
            poll(100, 1, true),
            &[
                "over 13 answers: they are chosen on the poll's page alone",
                "the images of answers show on the poll's page alone",
            ],
            &[
                "over 99 answers: they are chosen on the poll's page alone",
                "the images of answers show on the poll's page alone",
            ],
        ),
    ];
    for (row, (given, messenger, telegram)) in rows.into_iter().enumerate() {
        let notes = |platform| unsupported(&given.context(), platform);
        assert_eq!(notes(Platform::FbMessenger), messenger, "row {row}");
        assert_eq!(notes(Platform::ChatApp), telegram, "row {row}");
        assert_eq!(notes(Platform::Ios), Vec::<String>::new(), "row {row}");
    }
}
