//! Renders the pages, which need no scripts and load only images.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use notify_core::{AnswerId, Poll, PollAnswer};
use warp::Reply;
use warp::reply::Response;

use crate::api::error::ApiError;
use crate::api::handlers::poll_page::i18n::{Strings, direction};
use crate::api::handlers::poll_page::visitor::VisitorId;
use crate::keys::sha256;

const STYLE: &str = include_str!("style.css");

/// Allows only images over https and the one style, by its hash.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(sha256(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; img-src https:; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("base64 is visible ASCII")
});

/// Whether the visitor has voted.
pub(super) enum VoteState {
    /// The visitor has not voted: the page has a form with this visitor id.
    Open(VisitorId),
    /// The visitor has given this answer: the page shows the results.
    Voted(AnswerId),
}

/// The page of a poll.
pub(super) fn poll(poll: &Poll, public_id: uuid::Uuid, state: &VoteState) -> Response {
    let strings = Strings::of(poll);
    let mut html = begin(&poll.text, &poll.lang);
    html.raw("<h1 dir=\"auto\">").text(&poll.text).raw("</h1>\n");
    image(&mut html, poll.image_url.as_deref());
    match state {
        VoteState::Open(visitor) => form(&mut html, poll, public_id, visitor, strings),
        VoteState::Voted(chosen) => results(&mut html, poll, *chosen, strings),
    }
    end(html, StatusCode::OK)
}

/// The page of an error, with the headers of the error.
pub(crate) fn error_page(error: ApiError, accept_language: &str) -> Response {
    let strings = Strings::for_accept_language(accept_language);
    let text = match error.status() {
        StatusCode::NOT_FOUND => strings.unknown,
        StatusCode::TOO_MANY_REQUESTS => strings.busy,
        status if status.is_client_error() => strings.refused,
        _ => strings.failed,
    };
    let (error_head, _) = error.into_response().into_parts();
    let mut html = begin(text, strings.lang);
    html.raw("<h1>").text(text).raw("</h1>\n");
    let (page, body) = end(html, error_head.status).into_parts();
    let mut response = Response::from_parts(error_head, body);
    // The response keeps the headers of the error, such as `Retry-After` and `Allow`, unless the
    // page sets the same header.
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

fn end(mut html: Html, status: StatusCode) -> Response {
    html.raw("</main>\n</body>\n</html>\n");
    let mut response = Response::new(html.into_bytes().into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY.clone());
    // With `no-referrer` the `Origin` of the page's own form would be `null`.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    // Each form belongs to one visitor.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Adds an image if its URL is https, and returns whether it did. The policy blocks other images,
/// which would look broken.
fn image(html: &mut Html, url: Option<&str>) -> bool {
    let url = url
        .filter(|url| url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")));
    let Some(url) = url else { return false };
    html.raw("<img alt=\"\" referrerpolicy=\"no-referrer\" src=\"").text(url).raw("\">\n");
    true
}

/// Adds an answer: its image and its text, or its number if it has no text.
fn answer(html: &mut Html, answer: &PollAnswer, number: usize, strings: &Strings) {
    let has_image = image(html, Some(&answer.image_url));
    if !answer.text.is_empty() {
        html.raw("<span dir=\"auto\">").text(&answer.text).raw("</span>");
    } else if has_image {
        html.raw("<small lang=\"").text(strings.lang).raw("\">");
        html.text(strings.answer).text(&format!(" {number}")).raw("</small>");
    } else {
        html.raw("<span lang=\"").text(strings.lang).raw("\">");
        html.text(strings.answer).text(&format!(" {number}")).raw("</span>");
    }
}

fn form(
    html: &mut Html,
    poll: &Poll,
    public_id: uuid::Uuid,
    visitor: &VisitorId,
    strings: &Strings,
) {
    // Relative, since a proxy may add a path.
    html.raw("<form method=\"post\" action=\"").text(&public_id.to_string()).raw("/votes\">\n");
    html.raw("<input type=\"hidden\" name=\"visitor\" value=\"")
        .text(visitor.as_str())
        .raw("\">\n");
    html.raw("<ul class=\"").raw(poll.layout_id.as_str()).raw("\">\n");
    for (place, each) in poll.answers.iter().enumerate() {
        html.raw("<li><button name=\"answer\" value=\"").text(&each.id.to_string()).raw("\">");
        answer(html, each, place + 1, strings);
        html.raw("</button></li>\n");
    }
    html.raw("</ul>\n</form>\n");
}

fn results(html: &mut Html, poll: &Poll, chosen: AnswerId, strings: &Strings) {
    html.raw("<p role=\"status\" lang=\"").text(strings.lang).raw("\">");
    html.text(strings.thanks).raw("</p>\n<ul class=\"results ");
    html.raw(poll.layout_id.as_str()).raw("\">\n");
    for (place, each) in poll.answers.iter().enumerate() {
        let is_chosen = each.id == chosen;
        html.raw(if is_chosen { "<li class=\"result chosen\">" } else { "<li class=\"result\">" });
        answer(html, each, place + 1, strings);
        let share = each.percentage.to_string();
        html.raw(" <strong>").text(&share).raw(" %</strong>");
        if is_chosen {
            html.raw(" <small lang=\"").text(strings.lang).raw("\">");
            html.text(strings.yours).raw("</small>");
        }
        html.raw("<progress max=\"100\" value=\"").text(&share).raw("\"></progress>");
        votes(html, each.clicks, strings);
        html.raw("</li>\n");
    }
    html.raw("</ul>\n<p>");
    votes(html, poll.answers.iter().map(|answer| answer.clicks).sum(), strings);
    html.raw("</p>\n");
}

fn votes(html: &mut Html, count: u64, strings: &Strings) {
    html.raw("<small lang=\"").text(strings.lang).raw("\">").text(strings.votes);
    html.text(&format!(": {count}")).raw("</small>");
}

// Only literals of this program are added as markup. All other text is escaped.

/// An HTML page.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds literal markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds escaped text, between tags or in a quoted attribute.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Left out: control characters, which HTML does not allow, and characters that
                // change the direction of the text around them.
                '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => {}
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                other => self.0.push(other),
            }
        }
        self
    }

    /// The finished page.
    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        for (text, expected) in [
            ("Tea & cake?", "Tea &amp; cake?"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\" onload=\"x", "&quot; onload=&quot;x"),
            ("' x='", "&#39; x=&#39;"),
            ("a\0b\u{202e}c\u{1b}d", "abcd"),
            ("a\u{7f}b\u{80}c\u{9f}d", "abcd"),
            ("a\u{2066}b\u{2069}c", "abc"),
            ("\u{a0}\u{2065}\u{206a}", "\u{a0}\u{2065}\u{206a}"),
            ("שלום 👋\n", "שלום 👋\n"),
        ] {
            let mut html = Html::default();
            html.raw("<p>").text(text).raw("</p>");
            assert_eq!(html.into_bytes(), format!("<p>{expected}</p>"));
        }
    }
}
