//! What Messenger and Telegram cannot carry of a notification (B16), in words for who previews it.

use notify_core::{Content, NewPoll, Platform};

use super::buttons::{web_link, with_link};
use super::shown::Shown;
use super::size::TELEGRAM_CHARS_MAX;
use super::{Outgoing, messenger, telegram};

/// What is left out or shortened; nothing on platforms that are not chats.
#[must_use]
pub(crate) fn left_out(outgoing: &Outgoing<'_>, platform: Platform) -> Vec<String> {
    let (label_chars_max, answers_max) = match platform {
        Platform::Android | Platform::Ios | Platform::Web => return Vec::new(),
        Platform::FbMessenger => (messenger::LABEL_CHARS_MAX, messenger::QUICK_REPLIES_MAX),
        Platform::ChatApp => (telegram::LABEL_CHARS_MAX, telegram::BUTTONS_MAX - 1),
    };
    let shown = Shown::of(outgoing);
    let mut all = Vec::new();
    let link = web_link(shown.url);
    if shown.url.is_some() && link.is_none() {
        all.push("the url has a custom scheme, which no button opens here: left out".to_owned());
    }
    match platform {
        Platform::FbMessenger => of_messenger(&shown, link, &mut all),
        Platform::ChatApp => of_telegram(&shown, &mut all),
        Platform::Android | Platform::Ios | Platform::Web => {}
    }
    let own_label = shown.message.and_then(|message| message.view_button.as_deref());
    if link.is_some() && own_label.is_some_and(|label| is_longer(label, label_chars_max)) {
        all.push(format!("view_button is shortened to {label_chars_max} characters"));
    }
    match outgoing.content {
        Content::Message(_) => {}
        Content::Poll(poll) => of_poll(poll, label_chars_max, answers_max, &mut all),
    }
    all
}

fn of_messenger(shown: &Shown<'_>, link: Option<&str>, all: &mut Vec<String>) {
    if shown.image_url.is_some() && messenger::is_cut_beside_image(shown.text) {
        all.push("the text is shortened to fit beside the image".to_owned());
    }
    let without_card = shown.image_url.is_none();
    if without_card && link.is_some_and(|url| messenger::has_no_room(shown.text, url)) {
        all.push("the url does not fit below the text: left out".to_owned());
    }
}

fn of_telegram(shown: &Shown<'_>, all: &mut Vec<String>) {
    let Some(image) = shown.image_url else { return };
    if !is_longer(shown.text, telegram::CAPTION_CHARS_MAX) {
        return;
    }
    let whole = with_link(shown.text, image, TELEGRAM_CHARS_MAX);
    all.push(if whole.len() > shown.text.len() {
        "the text is too long for a caption: the image goes as a link below it".to_owned()
    } else {
        "the text is too long for a caption and for the image's link: the image is left out"
            .to_owned()
    });
}

fn of_poll(poll: &NewPoll, label_chars_max: usize, answers_max: usize, all: &mut Vec<String>) {
    if poll.answers.len() > answers_max {
        all.push(format!("over {answers_max} answers: they are chosen on the poll's page alone"));
    } else if poll.answers.iter().any(|answer| is_longer(&answer.text, label_chars_max)) {
        all.push(format!("labels of answers are shortened to {label_chars_max} characters"));
    }
    if poll.answers.iter().any(|answer| answer.image_url.is_some()) {
        all.push("the images of answers show on the poll's page alone".to_owned());
    }
}

fn is_longer(text: &str, chars_max: usize) -> bool {
    text.chars().nth(chars_max).is_some()
}
