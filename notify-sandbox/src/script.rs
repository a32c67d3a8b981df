//! Scripted responses: their providers, their faults, and the scripts at the end of a token.

use serde::{Deserialize, Serialize};

/// A service that the sandbox plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Apple's push service.
    Apns,
    /// Firebase Cloud Messaging.
    Fcm,
    /// Google's OAuth2 token endpoint; its requests are counted, but are not messages.
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
    /// `/apns`
    Production,
    /// `/apns-sandbox`
    Sandbox,
}

/// What takes the place of a response. Over HTTP/1.1 every fault but `Silence` closes the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// Nothing: the response is sent.
    #[default]
    #[serde(rename = "answer")]
    None,
    /// No response ever comes.
    Silence,
    /// `RST_STREAM` with `INTERNAL_ERROR`: whether the request was processed stays unknown.
    Reset,
    /// `RST_STREAM` with `REFUSED_STREAM`: the request was not processed.
    Refuse,
    /// `GOAWAY`, by default with the last stream before this one.
    Goaway,
    /// The connection ends without notice.
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

/// A response that a script asks for; without status and reason it is the provider's success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptedResponse {
    /// A fault in place of the response.
    pub fault: Fault,
    /// The HTTP status; the reason's own when absent.
    pub status: Option<u16>,
    /// APNs' reason, FCM's error code, Messenger's code or Telegram's keyword; the first one of the
    /// status when absent.
    pub reason: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// APNs 410: since when the token is dead, in unix milliseconds; now when absent.
    pub timestamp_ms: Option<i64>,
    /// `GOAWAY`: the last processed stream that it names; the actual one when absent. The stream
    /// that asks for `GOAWAY` never gets a response itself.
    pub last_stream_id: Option<u32>,
    /// The number of attempts of a token that get this response; all when absent.
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

    /// With `Retry-After`.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// For the first `attempts` attempts of a token only.
    #[must_use]
    pub fn first(self, attempts: u32) -> Self {
        Self { attempts: Some(attempts), ..self }
    }

    /// The status and reason, each by default from the other. `success` is the status without both.
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

/// Parses the script that follows the last `-` of a token.
pub(crate) fn parse_token(
    token: &str,
    keyword: impl Fn(&str) -> Option<ScriptedResponse>,
) -> Option<ScriptedResponse> {
    parse_script(token.rsplit_once('-')?.1, keyword)
}

/// Parses a fault or a keyword of the provider, then `:N` for `Retry-After` and `xN` for the first N
/// attempts only.
pub(crate) fn parse_script(
    script: &str,
    keyword: impl Fn(&str) -> Option<ScriptedResponse>,
) -> Option<ScriptedResponse> {
    let (script, attempts) = split_number(script, 'x');
    let (script, retry_after) = split_number(script, ':');
    let response = match Fault::ALL.into_iter().find(|fault| fault.as_str() == script) {
        Some(fault) => ScriptedResponse::fault(fault),
        None => keyword(script)?,
    };
    let attempts = attempts.and_then(|attempts| u32::try_from(attempts).ok());
    Some(ScriptedResponse { attempts, retry_after, ..response })
}

/// Writes the script that asks for a response; `keyword` names it where it is not a fault.
pub(crate) fn write_script(
    response: &ScriptedResponse,
    keyword: impl FnOnce(&ScriptedResponse) -> Option<String>,
) -> Option<String> {
    let mut script = match response.fault {
        Fault::None => keyword(response)?,
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

/// Splits `mark` and a number off the end.
fn split_number(script: &str, mark: char) -> (&str, Option<u64>) {
    let split = script.rsplit_once(mark);
    let number = split.and_then(|(rest, digits)| Some((rest, digits.parse().ok()?)));
    number.map_or((script, None), |(rest, number)| (rest, Some(number)))
}
