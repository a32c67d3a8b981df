//! Urls, in every field that has one.

use notify_core::{CheckFeed, CreateFeed, CreateNotification, Request, Template};
use serde_json::{Value, json};

use crate::{
    buttons, campaigns, notifications, polls,
    support::{changed, errors_of},
};

const ABSOLUTE: &str = "must be an absolute url";
const HTTP: &str = "must be an absolute http or https url";
const SCHEME: &str = "must not be a javascript: or data: url";
const SPACES: &str = "must not contain control characters or spaces around it";

/// Urls that every field refuses or accepts.
const EVERYWHERE: [(&str, Option<&str>); 22] = [
    ("https://x.example", None),
    ("HTTPS://X.example:8443/ü?a=b#c", None),
    ("http://[::1]/", None),
    ("https://user:pw@x.example/", None),
    ("relative/path", Some(ABSOLUTE)),
    ("//x.example", Some(ABSOLUTE)),
    ("?", Some(ABSOLUTE)),
    ("https://", Some(ABSOLUTE)),
    ("https://?x", Some(ABSOLUTE)),
    ("https://a b.example", Some(ABSOLUTE)),
    ("https://x.example:65536", Some(ABSOLUTE)),
    ("1app:x", Some(ABSOLUTE)),
    ("myapp://a b", Some(ABSOLUTE)),
    ("\u{200b}javascript:x", Some(ABSOLUTE)),
    ("javascript:x", Some(SCHEME)),
    ("JavaScript:alert(1)", Some(SCHEME)),
    ("DATA:text/html,x", Some(SCHEME)),
    (" javascript:x", Some(SPACES)),
    ("\u{a0}data:,x", Some(SPACES)),
    ("java\nscript:x", Some(SPACES)),
    ("\u{1}data:,x", Some(SPACES)),
    ("https://x.example\t", Some(SPACES)),
];

/// Urls that can be opened but not fetched.
const OPENED: [&str; 9] = [
    "myapp:",
    "my-app.v2://x/y?z",
    "myapp://chat:1234567/x",
    "tel:+15550100",
    "sms:+15550100?body=on my way",
    "mailto:a@x.example",
    "intent://x#Intent;scheme=app;end",
    "https:x.example",
    "https:///x.example",
];

fn check_at<R: Request>(base: &Value, pointer: &str, path: &str, other: Option<&str>) {
    let long = |count: usize| format!("https://x.example/{}", "é".repeat(count - 18));
    let check = |url: &str, expected: Option<&str>| {
        let errors = errors_of::<R>(&changed(base, pointer, &json!(url).to_string()));
        let expected = expected.map(|rule| format!("{path}: {rule}"));
        assert_eq!(errors, Vec::from_iter(expected), "{url}");
    };
    for (url, expected) in EVERYWHERE {
        check(url, expected);
    }
    for url in OPENED {
        check(url, other);
    }
    check(&long(2_048), None);
    check(&long(2_049), Some("must be at most 2048 characters"));
}

#[test]
fn urls_to_open_are_absolute_uris() {
    let full = notifications::full();
    check_at::<CreateNotification>(&full, "/url", "url", None);
    let (pointer, path) = ("/web_push_settings/actions/0/url", "web_push_settings.actions[0].url");
    check_at::<CreateNotification>(&full, pointer, path, None);
    for kind in ["url", "video", "fb"] {
        let button = buttons::button(&json!({"type": kind, "url": "tel:1"}));
        check_at::<Template>(&button, "/features/0/data/url", "features[0].data.url", None);
    }
}

#[test]
fn urls_to_fetch_are_absolute_http_urls() {
    let full = notifications::full();
    check_at::<CreateNotification>(&full, "/image_url", "image_url", Some(HTTP));
    let (pointer, path) =
        ("/web_push_settings/actions/0/icon", "web_push_settings.actions[0].icon");
    check_at::<CreateNotification>(&full, pointer, path, Some(HTTP));
    for (pointer, path) in
        [("/web_options/icon", "web_options.icon"), ("/web_options/badge", "web_options.badge")]
    {
        check_at::<CreateNotification>(&full, pointer, path, Some(HTTP));
    }
    let answer = json!({"image_url": "https://x.example"});
    let poll = polls::poll("poll_images", &answer);
    for (pointer, path) in [
        ("/poll/image_url", "poll.image_url"),
        ("/poll/answers/1/image_url", "poll.answers[1].image_url"),
    ] {
        check_at::<CreateNotification>(&poll, pointer, path, Some(HTTP));
    }
    for (pointer, path) in [
        ("/features/0/data/feeds/1/url", "features[0].data.feeds[1].url"),
        ("/features/2/data/articles/0/url", "features[2].data.articles[0].url"),
        ("/features/2/data/articles/0/thumb_url", "features[2].data.articles[0].thumb_url"),
        ("/features/3/data/icon_url", "features[3].data.icon_url"),
    ] {
        check_at::<Template>(&campaigns::full(), pointer, path, Some(HTTP));
    }
    let feed = json!({"url": "https://x.example/rss", "name": "n"});
    check_at::<CheckFeed>(&json!({"url": "x"}), "/url", "url", Some(HTTP));
    check_at::<CreateFeed>(&feed, "/url", "url", Some(HTTP));
}
