//! The pages, written whole on the server: they need no script and load nothing but images.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use notify_core::{AnswerId, Poll, PollAnswer};

use crate::api::error::ApiError;
use crate::api::handlers::poll_page::VisitorId;
use crate::api::handlers::poll_page::i18n::{Words, direction};
use crate::keys::sha256;

const STYLE: &str = include_str!("style.css");

/// Nothing is loaded but images over https, nothing runs, and the one style is known by its hash.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(sha256(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src https:; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("base64 is visible ASCII")
});

/// What the visitor sees of a poll.
pub(super) enum Seen {
    /// The answers to choose from, in a form that brings this visitor id along.
    Form(VisitorId),
    /// The results; the visitor gave that answer.
    Results(AnswerId),
}

/// The page of a poll.
pub(super) fn poll(poll: &Poll, public_id: uuid::Uuid, seen: &Seen) -> http::Response<Bytes> {
    let words = Words::of(poll);
    let mut html = begin(&poll.text, &poll.lang);
    html.raw("<h1 dir=\"auto\">").text(&poll.text).raw("</h1>\n");
    image(&mut html, poll.image_url.as_deref());
    match seen {
        Seen::Form(visitor) => form(&mut html, poll, (public_id, visitor.as_str()), words),
        Seen::Results(chosen) => results(&mut html, poll, *chosen, words),
    }
    end(html, StatusCode::OK)
}

/// The page of what is not answered, with the headers and the cause of the error.
pub(super) fn refusal(error: ApiError, accept_language: &str) -> http::Response<Bytes> {
    let words = Words::accepted(accept_language);
    let text = match error.status() {
        StatusCode::NOT_FOUND => words.unknown,
        StatusCode::TOO_MANY_REQUESTS => words.busy,
        status if status.is_client_error() => words.refused,
        _ => words.failed,
    };
    let (told, _) = error.into_response().into_parts();
    let mut html = begin(text, words.lang);
    html.raw("<h1>").text(text).raw("</h1>\n");
    let (page, body) = end(html, told.status).into_parts();
    let mut response = http::Response::from_parts(told, body);
    // `Retry-After`, `Allow` and the like stay; the rest is a page's.
    response.headers_mut().extend(page.headers);
    response
}

fn begin(title: &str, lang: &str) -> Html {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"").text(lang);
    html.raw("\" dir=\"").raw(direction(lang)).raw("\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.raw("<meta name=\"robots\" content=\"noindex\">\n<title>").text(title);
    html.raw("</title>\n<style>").raw(STYLE).raw("</style>\n</head>\n<body>\n<main>\n");
    html
}

fn end(mut html: Html, status: StatusCode) -> http::Response<Bytes> {
    html.raw("</main>\n</body>\n</html>\n");
    let mut response = http::Response::new(html.into_bytes());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    // Not `no-referrer`: the `Origin` of the page's own form would be `null`.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    // Each form is one visitor's.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An image over https; of another one the policy would leave a broken frame.
fn image(html: &mut Html, url: Option<&str>) -> bool {
    let url = url
        .filter(|url| url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")));
    let Some(url) = url else { return false };
    html.raw("<img alt=\"\" referrerpolicy=\"no-referrer\" src=\"").text(url).raw("\">\n");
    true
}

/// What stands for an answer: its image, its text, or its number where it has neither.
fn answer(html: &mut Html, answer: &PollAnswer, number: usize, words: &Words) {
    let has_image = image(html, Some(&answer.image_url));
    if !answer.text.is_empty() {
        html.raw("<span dir=\"auto\">").text(&answer.text).raw("</span>");
    } else if has_image {
        html.raw("<small lang=\"").text(words.lang).raw("\">");
        html.text(words.answer).text(&format!(" {number}")).raw("</small>");
    } else {
        html.raw("<span lang=\"").text(words.lang).raw("\">");
        html.text(words.answer).text(&format!(" {number}")).raw("</span>");
    }
}

fn form(html: &mut Html, poll: &Poll, (public_id, visitor): (uuid::Uuid, &str), words: &Words) {
    // Relative, so that it holds behind a proxy that puts a path before ours.
    html.raw("<form method=\"post\" action=\"").text(&public_id.to_string()).raw("/votes\">\n");
    html.raw("<input type=\"hidden\" name=\"visitor\" value=\"").text(visitor).raw("\">\n");
    html.raw("<ul class=\"").raw(poll.layout_id.as_str()).raw("\">\n");
    for (place, each) in poll.answers.iter().enumerate() {
        html.raw("<li><button name=\"answer\" value=\"").text(&each.id.to_string()).raw("\">");
        answer(html, each, place + 1, words);
        html.raw("</button></li>\n");
    }
    html.raw("</ul>\n</form>\n");
}

fn results(html: &mut Html, poll: &Poll, chosen: AnswerId, words: &Words) {
    html.raw("<p role=\"status\" lang=\"").text(words.lang).raw("\">");
    html.text(words.thanks).raw("</p>\n<ul class=\"results ");
    html.raw(poll.layout_id.as_str()).raw("\">\n");
    for (place, each) in poll.answers.iter().enumerate() {
        let is_chosen = each.id == chosen;
        html.raw(if is_chosen { "<li class=\"result chosen\">" } else { "<li class=\"result\">" });
        answer(html, each, place + 1, words);
        let share = each.percentage.to_string();
        html.raw(" <strong>").text(&share).raw(" %</strong>");
        if is_chosen {
            html.raw(" <small lang=\"").text(words.lang).raw("\">");
            html.text(words.yours).raw("</small>");
        }
        html.raw("<progress max=\"100\" value=\"").text(&share).raw("\"></progress>");
        votes(html, each.clicks, words);
        html.raw("</li>\n");
    }
    html.raw("</ul>\n<p>");
    votes(html, poll.answers.iter().map(|answer| answer.clicks).sum(), words);
    html.raw("</p>\n");
}

fn votes(html: &mut Html, count: u64, words: &Words) {
    html.raw("<small lang=\"").text(words.lang).raw("\">").text(words.votes);
    html.text(&format!(": {count}")).raw("</small>");
}

// HTML that cannot be broken out of: what is written as it is are texts of this program, whatever
// comes from elsewhere is escaped.

/// A page being written.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Markup of this program.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// A text, safe between tags and in quoted attributes alike.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // What no document may hold (HTML, 13.5), and what would turn the page around it.
                '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' => {}
                '\u{202a}'..='\u{202e}' => {}
                other => self.0.push(other),
            }
        }
        self
    }

    /// The page.
    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_place() {
        for (text, expected) in [
            ("Tea & cake?", "Tea &amp; cake?"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\" onload=\"x", "&quot; onload=&quot;x"),
            ("' x='", "&#39; x=&#39;"),
            ("a\0b\u{202e}c\u{1b}d", "abcd"),
            ("שלום 👋\n", "שלום 👋\n"),
        ] {
            let mut html = Html::default();
            html.raw("<p>").text(text).raw("</p>");
            assert_eq!(html.into_bytes(), format!("<p>{expected}</p>"));
        }
    }
}
