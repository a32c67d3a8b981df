//! The errors of the Send API: code and subcode tell, the HTTP status hardly does.

use bytes::Bytes;
use http::Response;
use serde_json::json;

use crate::sandbox::answer::Answer;
use crate::sandbox::exchange::{json, respond, status};
use crate::sandbox::suffix;

/// An error that can be asked for.
struct Wanted {
    /// What a recipient's ending says.
    word: &'static str,
    http: u16,
    code: u64,
    /// 0 where there is none.
    subcode: u64,
    message: &'static str,
}

const fn row(
    word: &'static str,
    http: u16,
    (code, subcode): (u64, u64),
    message: &'static str,
) -> Wanted {
    Wanted { word, http, code, subcode, message }
}

/// All of them; the first of a status is its usual one.
const WANTED: &[Wanted] = &[
    row("invalid", 400, (100, 0), "(#100) Invalid parameter"),
    row("temporary", 500, (1200, 0), "Temporary send message failure. Please try again later."),
    row("service", 500, (2, 0), "Service temporarily unavailable"),
    row("unknown", 500, (1, 0), "An unknown error has occurred."),
    row("denied", 403, (10, 0), "(#10) Application does not have permission for this action"),
    row("expired", 401, (190, 463), "Error validating access token: Session has expired."),
    row("token", 401, (190, 0), "Invalid OAuth access token."),
    row(
        "uninstalled",
        401,
        (190, 458),
        "Error validating access token: The user has not authorized application.",
    ),
    row(
        "password",
        401,
        (190, 460),
        "Error validating access token: The session has been invalidated because the user changed the password.",
    ),
    row(
        "revoked",
        401,
        (190, 467),
        "Error validating access token: This may be because the user logged out.",
    ),
    row("permission", 400, (1, 99), "An unknown error occurred: missing permission"),
    row("applimit", 400, (4, 0), "(#4) Application request limit reached"),
    row("phonelimit", 400, (4, 2_018_022), "(#4) Too many send requests to phone numbers"),
    row("userlimit", 400, (17, 0), "(#17) User request limit reached"),
    row("pagelimit", 400, (32, 0), "(#32) Page request limit reached"),
    row("customlimit", 400, (613, 0), "(#613) Calls to this api have exceeded the rate limit."),
    row(
        "messengerlimit",
        400,
        (80_006, 0),
        "(#80006) There have been too many calls to this messenger account.",
    ),
    row(
        "bothersome",
        400,
        (613, 1_893_016),
        "(#613) Messages like these are bothersome to people.",
    ),
    row("window", 403, (10, 2_018_278), "(#10) This message is sent outside of allowed window."),
    row("policy", 403, (10, 2_018_065), "(#10) This message is sent outside of allowed window."),
    row("cannot", 403, (10, 2_018_108), "(#10) This person can't receive messages right now."),
    row("unavailable", 400, (551, 1_545_041), "(#551) This person isn't available right now."),
    row(
        "blocked",
        403,
        (200, 1_545_041),
        "(#200) This person isn't receiving messages from you right now.",
    ),
    row("nouser", 400, (100, 2_018_001), "(#100) No matching user found"),
    row("toolarge", 400, (100, 2_018_109), "(#100) Attachment size exceeds allowable limit"),
    row(
        "empty",
        400,
        (100, 2_018_034),
        "(#100) Message cannot be empty, must provide valid attachment or text",
    ),
    row(
        "notlive",
        403,
        (200, 2_018_028),
        "(#200) Cannot message users who are not admins, developers or testers of the app.",
    ),
    row(
        "noadvanced",
        403,
        (200, 2_018_027),
        "(#200) Cannot message users without pages_messaging permission.",
    ),
    row(
        "nophone",
        403,
        (200, 2_018_021),
        "(#200) Cannot message phone numbers without permission.",
    ),
    row("nopermission", 403, (200, 0), "(#200) Permissions error"),
    row(
        "subscription",
        403,
        (230, 0),
        "(#230) Requires pages_messaging permission to manage the object",
    ),
    row(
        "suspended",
        400,
        (368, 0),
        "(#368) The action attempted has been deemed abusive or is otherwise disallowed",
    ),
];

/// Statuses that an edge server answers, with a page.
const PAGES: [u16; 4] = [429, 502, 503, 504];

fn wanted(reason: &str) -> Option<&'static Wanted> {
    WANTED.iter().find(|wanted| wanted.word == reason || wanted.code() == reason)
}

impl Wanted {
    /// `code` or `code/subcode`.
    fn code(&self) -> String {
        code(self.code, self.subcode)
    }
}

fn code(code: u64, subcode: u64) -> String {
    if subcode == 0 { code.to_string() } else { format!("{code}/{subcode}") }
}

/// The words by which a person's id can ask for an error.
pub fn messenger_words() -> impl Iterator<Item = &'static str> {
    WANTED.iter().map(|wanted| wanted.word)
}

/// The status of an error that can be asked for, by its word or its code.
pub(in crate::sandbox) fn status_of(reason: &str) -> Option<u16> {
    wanted(reason).map(|wanted| wanted.http)
}

/// What a recipient asks for, if it does.
pub(super) fn in_recipient(recipient: &str) -> Option<Answer> {
    suffix::read(recipient, |script| {
        if let Some(wanted) = WANTED.iter().find(|wanted| wanted.word == script) {
            return Some(Answer { status: Some(wanted.http), ..Answer::reason(wanted.word) });
        }
        let status = script.parse().ok()?;
        let is_known = PAGES.contains(&status) || WANTED.iter().any(|wanted| wanted.http == status);
        is_known.then(|| Answer::status(status))
    })
}

/// A page-scoped id, distinct for each `seed`, that is answered like `answer` (the module's
/// documentation has the scheme).
///
/// # Panics
/// When an id cannot say it: a reason without a word. That takes a
/// [`Rule`](crate::sandbox::Rule).
#[must_use]
pub fn messenger_recipient(seed: u64, answer: &Answer) -> String {
    if answer.is_success() {
        return format!("24{seed:014}");
    }
    let script = suffix::write(answer, |answer| match (&answer.reason, answer.status) {
        (Some(reason), _) => wanted(reason).map(|wanted| wanted.word.to_owned()),
        (None, status) => status.map(|status| status.to_string()),
    });
    format!("24{seed:014}-{}", script.expect("the answer can be said in a recipient's id"))
}

/// One failed request.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) http: u16,
    code: u64,
    subcode: u64,
    message: String,
    is_page: bool,
}

impl Failure {
    /// Against one of Meta's rules for a message.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        let message = format!("(#100) {}", message.into());
        Self { http: 400, code: 100, subcode: 0, message, is_page: false }
    }

    /// An error of the table.
    pub(super) fn named(word: &str) -> Self {
        Self::wanted(&Answer::reason(word))
    }

    /// What a rule or a recipient asked for.
    pub(super) fn wanted(answer: &Answer) -> Self {
        let usual = || {
            let status = answer.status.filter(|status| !PAGES.contains(status))?;
            WANTED.iter().find(|wanted| wanted.http == status)
        };
        let reason = answer.reason.as_deref();
        let (mut code, mut subcode) = (0, 0);
        if let Some(wanted) = reason.map_or_else(usual, wanted) {
            return Self {
                http: answer.status.unwrap_or(wanted.http),
                code: wanted.code,
                subcode: wanted.subcode,
                message: wanted.message.to_owned(),
                is_page: false,
            };
        }
        if let Some(reason) = reason {
            let (own, below) = reason.split_once('/').unwrap_or((reason, "0"));
            (code, subcode) = (own.parse().unwrap_or(0), below.parse().unwrap_or(0));
        }
        Self {
            http: answer.status.unwrap_or(500),
            code,
            subcode,
            message: reason.unwrap_or("An unknown error has occurred.").to_owned(),
            is_page: reason.is_none(),
        }
    }

    /// The reason as the journal shows it: the code with its subcode.
    pub(super) fn reason(&self) -> String {
        if self.is_page { "html".to_owned() } else { code(self.code, self.subcode) }
    }

    pub(super) fn into_response(self) -> Response<Bytes> {
        if self.is_page {
            let page = format!("<!DOCTYPE html><title>Error</title><p>{}</p>\n", self.http);
            return respond(status(self.http), "text/html; charset=utf-8", page);
        }
        let mut error = json!({
            "message": self.message,
            "type": "OAuthException",
            "code": self.code,
            "fbtrace_id": "ASandboxTrace",
        });
        if self.subcode != 0 {
            error["error_subcode"] = json!(self.subcode);
        }
        json(status(self.http), &json!({ "error": error }))
    }
}
