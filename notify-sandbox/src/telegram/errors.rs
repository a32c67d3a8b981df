//! The errors of the Bot API: a status, and a description that tells the rest.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use crate::sandbox::answer::Answer;
use crate::sandbox::exchange::{json, respond, status};
use crate::sandbox::fcm::with_retry_after;
use crate::sandbox::suffix;

/// Seconds to wait that a 429 names unless told otherwise.
const RETRY_AFTER_S: u64 = 5;

/// The errors that can be asked for: word, status, description. The first of a status is its usual
/// one.
const WANTED: &[(&str, u16, &str)] = &[
    ("empty", 400, "Bad Request: message text is empty"),
    ("toolong", 400, "Bad Request: message is too long"),
    ("parse", 400, "Bad Request: can't parse entities: Unexpected end of text"),
    ("button", 400, "Bad Request: BUTTON_URL_INVALID"),
    ("markup", 400, "Bad Request: reply markup is too long"),
    ("photo", 400, "Bad Request: wrong type of the web page content"),
    ("fetch", 400, "Bad Request: failed to get HTTP URL content"),
    ("dimensions", 400, "Bad Request: PHOTO_INVALID_DIMENSIONS"),
    ("notfound", 400, "Bad Request: chat not found"),
    ("migrated", 400, "Bad Request: group chat was upgraded to a supergroup chat"),
    ("unauthorized", 401, "Unauthorized"),
    ("badtoken", 401, "Unauthorized: invalid token specified"),
    ("blocked", 403, "Forbidden: bot was blocked by the user"),
    ("deactivated", 403, "Forbidden: user is deactivated"),
    ("kicked", 403, "Forbidden: bot was kicked from the supergroup chat"),
    ("notmember", 403, "Forbidden: bot is not a member of the channel chat"),
    ("deleted", 403, "Forbidden: the group chat was deleted"),
    ("neverstarted", 403, "Forbidden: bot can't initiate conversation with a user"),
    ("nomethod", 404, "Not Found: method not found"),
    ("notthere", 404, "Not Found"),
    ("conflict", 409, "Conflict: terminated by other getUpdates request"),
    ("flood", 429, "Too Many Requests: retry after"),
    ("internal", 500, "Internal Server Error"),
    ("timeout", 504, "Gateway Timeout"),
];

/// Answered to a photo alone: a text to the same chat passes.
const OF_PHOTOS: [&str; 4] = ["parse", "photo", "fetch", "dimensions"];

/// Statuses that the server in front answers, with a page.
const PAGES: [u16; 2] = [502, 503];

fn wanted(word: &str) -> Option<&'static (&'static str, u16, &'static str)> {
    WANTED.iter().find(|wanted| wanted.0 == word)
}

/// The words by which a chat's id can ask for an error.
pub fn telegram_words() -> impl Iterator<Item = &'static str> {
    WANTED.iter().map(|wanted| wanted.0)
}

/// The status of an error that can be asked for.
pub(in crate::sandbox) fn status_of(reason: &str) -> Option<u16> {
    wanted(reason).map(|wanted| wanted.1)
}

/// What a chat asks for, if it does.
pub(super) fn in_chat(chat: &str, is_photo: bool) -> Option<Answer> {
    // The id of a group begins with the mark.
    let answer = suffix::read(chat.trim_start_matches('-'), |script| {
        if let Some(status) = status_of(script) {
            return Some(Answer { status: Some(status), ..Answer::reason(script) });
        }
        let status = script.parse().ok()?;
        let is_known = PAGES.contains(&status) || WANTED.iter().any(|wanted| wanted.1 == status);
        is_known.then(|| Answer::status(status))
    });
    answer.filter(|answer| {
        let of_photos = answer.reason.as_deref().is_some_and(|word| OF_PHOTOS.contains(&word));
        is_photo || !of_photos
    })
}

/// A chat id, distinct for each `seed`, that is answered like `answer` (the module's documentation
/// has the scheme).
///
/// # Panics
/// When an id cannot say it: a reason without a word. That takes a
/// [`Rule`](crate::sandbox::Rule).
#[must_use]
pub fn telegram_chat(seed: u64, answer: &Answer) -> String {
    let number = 5_000_000_000 + seed;
    if answer.is_success() {
        return number.to_string();
    }
    let script = suffix::write(answer, |answer| match (&answer.reason, answer.status) {
        (Some(reason), _) => wanted(reason).map(|wanted| wanted.0.to_owned()),
        (None, status) => status.map(|status| status.to_string()),
    });
    format!("{number}-{}", script.expect("the answer can be said in a chat's id"))
}

/// One failed call.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) http: u16,
    description: String,
    retry_after: Option<u64>,
    migrate_to: Option<i64>,
    is_page: bool,
}

impl Failure {
    pub(super) fn new(http: u16, description: impl Into<String>) -> Self {
        let description = description.into();
        Self { http, description, retry_after: None, migrate_to: None, is_page: false }
    }

    /// An error of the table.
    pub(super) fn named(word: &str) -> Self {
        Self::wanted(&Answer::reason(word), "")
    }

    /// Too much at once: the seconds after which it passes.
    pub(super) fn flood(retry_after: u64) -> Self {
        let description = format!("Too Many Requests: retry after {retry_after}");
        Self { retry_after: Some(retry_after), ..Self::new(429, description) }
    }

    /// What a rule or a chat asked for.
    pub(super) fn wanted(answer: &Answer, chat: &str) -> Self {
        let usual = || WANTED.iter().find(|wanted| Some(wanted.1) == answer.status);
        let found = answer.reason.as_deref().map_or_else(usual, wanted);
        let Some(&(word, http, description)) = found else {
            let http = answer.status.unwrap_or(500);
            let failure = Self::new(http, answer.reason.clone().unwrap_or_default());
            return Self {
                is_page: answer.reason.is_none(),
                retry_after: answer.retry_after,
                ..failure
            };
        };
        let http = answer.status.unwrap_or(http);
        match word {
            "flood" => Self::flood(answer.retry_after.unwrap_or(RETRY_AFTER_S)),
            "migrated" => {
                Self { migrate_to: Some(supergroup_of(chat)), ..Self::new(http, description) }
            }
            _ => Self { retry_after: answer.retry_after, ..Self::new(http, description) },
        }
    }

    /// The reason as the journal shows it.
    pub(super) fn reason(&self) -> &str {
        if self.is_page { "html" } else { &self.description }
    }

    pub(super) fn into_response(self) -> Response<Bytes> {
        if self.is_page {
            let title =
                format!("{} {}", self.http, status(self.http).canonical_reason().unwrap_or(""));
            let page = format!(
                "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n\
                 <center><h1>{title}</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n\
                 </html>\r\n"
            );
            let page = respond(status(self.http), "text/html", page);
            return with_retry_after(page, self.retry_after);
        }
        let mut body =
            json!({ "ok": false, "error_code": self.http, "description": self.description });
        let parameters: Vec<(&str, Value)> = [
            ("retry_after", self.retry_after.map(Value::from)),
            ("migrate_to_chat_id", self.migrate_to.map(Value::from)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        if !parameters.is_empty() {
            let owned = parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
            body["parameters"] = Value::Object(owned.collect());
        }
        with_retry_after(json(status(self.http), &body), self.retry_after)
    }
}

/// What a group becomes: `-100` and its number.
fn supergroup_of(chat: &str) -> i64 {
    let chat = chat.trim_start_matches('-');
    let number: String = chat.chars().take_while(char::is_ascii_digit).collect();
    format!("-100{number}").parse().unwrap_or(-1_001_000_000_000)
}
