//! Scripted responses. A script is the text after the last `~` of a token. It selects the response that
//! the provider gives to messages to this token.

use serde::{Deserialize, Serialize};

/// A service that the sandbox fakes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Apple's push service.
    Apns,
    /// Firebase Cloud Messaging.
    Fcm,
    /// Google's OAuth2 token endpoint. Its requests are counted but not logged as messages.
    Oauth,
    /// The push service of a browser.
    WebPush,
    /// Facebook Messenger's Send API.
    Messenger,
    /// Telegram's Bot API.
    Telegram,
}

impl Provider {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apns => "apns",
            Self::Fcm => "fcm",
            Self::Oauth => "oauth",
            Self::WebPush => "webpush",
            Self::Messenger => "messenger",
            Self::Telegram => "telegram",
        }
    }
}

/// An environment of APNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Production, at `/apns`.
    Production,
    /// Development, at `/apns-sandbox`.
    Sandbox,
}

/// A fault in place of a response. Over HTTP/1.1 every fault except `Silence` closes the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// No fault: the response is sent.
    #[default]
    #[serde(rename = "answer")]
    None,
    /// The request never gets a response.
    Silence,
    /// `RST_STREAM` with `INTERNAL_ERROR`. The client cannot know whether the request was processed.
    Reset,
    /// `RST_STREAM` with `REFUSED_STREAM`. The client knows that the request was not processed.
    Refuse,
    /// `GOAWAY`, by default with the last stream that was processed, which excludes this request.
    Goaway,
    /// The connection is closed without `GOAWAY`.
    Cut,
}

impl Fault {
    /// The faults, in the order of the APNs token scheme.
    pub(crate) const ALL: [Self; 5] =
        [Self::Silence, Self::Reset, Self::Refuse, Self::Goaway, Self::Cut];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "answer",
            Self::Silence => "silence",
            Self::Reset => "reset",
            Self::Refuse => "refuse",
            Self::Goaway => "goaway",
            Self::Cut => "cut",
        }
    }
}

/// A response that a script selects. Without a fault, a status and a reason it is the provider's
/// success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptedResponse {
    /// A fault in place of the response.
    pub fault: Fault,
    /// The HTTP status; the usual status of the reason when absent.
    pub status: Option<u16>,
    /// APNs' reason, FCM's error code, the reason of a push service, Messenger's code or Telegram's
    /// keyword. When absent, the usual reason of the status.
    pub reason: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// For APNs 410: the time when the token became invalid, in unix milliseconds; now when absent.
    pub timestamp_ms: Option<i64>,
    /// For `GOAWAY`: the last stream that the frame declares as processed. When absent, the frame
    /// declares the last stream that was actually processed. The request that causes the `GOAWAY`
    /// never gets a response.
    pub last_stream_id: Option<u32>,
    /// The number of attempts of a token that get this response; all attempts when absent.
    pub attempts: Option<u32>,
}

impl ScriptedResponse {
    /// The provider's success.
    #[must_use]
    pub fn ok() -> Self {
        Self::default()
    }

    /// A response with this status and its usual reason.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// A response with this reason and its usual status.
    #[must_use]
    pub fn reason(reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::default() }
    }

    /// A fault in place of a response.
    #[must_use]
    pub fn fault(fault: Fault) -> Self {
        Self { fault, ..Self::default() }
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Limits the response to the first `attempts` attempts of a token. Later attempts succeed.
    #[must_use]
    pub fn first(self, attempts: u32) -> Self {
        Self { attempts: Some(attempts), ..self }
    }

    /// The status and the reason. A missing status is derived from the reason, and a missing reason from
    /// the status. Without both, the status is `success`.
    pub(crate) fn resolve(
        &self,
        success: u16,
        usual_reason: impl Fn(u16) -> Option<&'static str>,
        status_of: impl Fn(&str) -> Option<u16>,
    ) -> (u16, Option<&str>) {
        match (self.status, self.reason.as_deref()) {
            (Some(status), Some(reason)) => (status, Some(reason)),
            (Some(status), None) => (status, usual_reason(status)),
            (None, Some(reason)) => (status_of(reason).unwrap_or(400), Some(reason)),
            (None, None) => (success, None),
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        self.fault == Fault::None
            && self.reason.is_none()
            && self.status.is_none_or(|status| status == 200)
    }
}

/// What separates a script from the token before it. No real token contains it.
pub(crate) const MARK: char = '~';
/// What separates a script from the number of a person or a chat.
pub(crate) const RECIPIENT_MARKS: [char; 2] = [MARK, '-'];

/// Parses the script that follows the last [`MARK`] of a token. `parse_keyword` parses a status or keyword
/// of the provider.
pub(crate) fn parse_token(
    token: &str,
    parse_keyword: impl Fn(&str) -> Option<ScriptedResponse>,
) -> Option<ScriptedResponse> {
    parse_script(token.rsplit_once(MARK)?.1, parse_keyword)
}

/// Parses the script of a person or a chat, after the last of the [`RECIPIENT_MARKS`].
pub(crate) fn parse_recipient(
    recipient: &str,
    parse_keyword: impl Fn(&str) -> Option<ScriptedResponse>,
) -> Option<ScriptedResponse> {
    // The id of a group starts with a `-`.
    parse_script(recipient.trim_start_matches('-').rsplit_once(RECIPIENT_MARKS)?.1, parse_keyword)
}

/// Parses a script: a fault or a keyword of the provider, then optionally `:N` for `Retry-After` and
/// `xN` for the first N attempts only.
pub(crate) fn parse_script(
    script: &str,
    parse_keyword: impl Fn(&str) -> Option<ScriptedResponse>,
) -> Option<ScriptedResponse> {
    let (script, attempts) = split_number(script, 'x');
    let (script, retry_after) = split_number(script, ':');
    let response = match Fault::ALL.into_iter().find(|fault| fault.as_str() == script) {
        Some(fault) => ScriptedResponse::fault(fault),
        None => parse_keyword(script)?,
    };
    let attempts = attempts.and_then(|attempts| u32::try_from(attempts).ok());
    Some(ScriptedResponse { attempts, retry_after, ..response })
}

/// Writes the script that selects `response`. `keyword_of` returns the keyword of a response that is not
/// a fault. `None` when the response has no keyword.
pub(crate) fn write_script(
    response: &ScriptedResponse,
    keyword_of: impl FnOnce(&ScriptedResponse) -> Option<String>,
) -> Option<String> {
    let mut script = match response.fault {
        Fault::None => keyword_of(response)?,
        fault => fault.as_str().to_owned(),
    };
    if let Some(seconds) = response.retry_after {
        script.push_str(&format!(":{seconds}"));
    }
    if let Some(attempts) = response.attempts {
        script.push_str(&format!("x{attempts}"));
    }
    Some(script)
}

/// Splits `mark` and the number after it off the end of `script`. Without them, the whole script is
/// returned.
fn split_number(script: &str, mark: char) -> (&str, Option<u64>) {
    let split = script.rsplit_once(mark);
    let number = split.and_then(|(rest, digits)| Some((rest, digits.parse().ok()?)));
    number.map_or((script, None), |(rest, number)| (rest, Some(number)))
}
