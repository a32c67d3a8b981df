//! The words of scripting: which provider, which answer, which fault. Says what is wanted; how a
//! provider puts it into bytes is the provider's.

use serde::{Deserialize, Serialize};

/// Who is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// Apple's push service.
    Apns,
    /// Firebase Cloud Messaging.
    Fcm,
    /// Google's OAuth2 token endpoint; its requests are counted, but are no messages.
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

/// Which of the two APNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// `/apns`
    Production,
    /// `/apns-sandbox`
    Sandbox,
}

/// What happens to a request; over HTTP/1.1 all but `Answer` and `Silence` close the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It gets its answer.
    #[default]
    Answer,
    /// It never gets one.
    Silence,
    /// `RST_STREAM` with `INTERNAL_ERROR`: whether it was processed stays unknown.
    Reset,
    /// `RST_STREAM` with `REFUSED_STREAM`: it was not processed.
    Refuse,
    /// `GOAWAY`, by default with the last stream before this one.
    Goaway,
    /// The connection ends without a word.
    Cut,
}

impl Action {
    /// The faults, in the order of the APNs token scheme.
    pub(super) const FAULTS: [Self; 5] =
        [Self::Silence, Self::Reset, Self::Refuse, Self::Goaway, Self::Cut];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Silence => "silence",
            Self::Reset => "reset",
            Self::Refuse => "refuse",
            Self::Goaway => "goaway",
            Self::Cut => "cut",
        }
    }
}

/// One wanted answer; without status and reason it is the provider's success.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// What happens.
    pub action: Action,
    /// The HTTP status; the reason's own when absent.
    pub status: Option<u16>,
    /// APNs' reason, FCM's error code, Messenger's code or Telegram's word; the status's first one
    /// when absent.
    pub reason: Option<String>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// APNs 410: since when the token is dead, in unix milliseconds; now when absent.
    pub timestamp_ms: Option<i64>,
    /// `GOAWAY`: the last stream said to be processed; the last one that was when absent. A stream
    /// that asks for `GOAWAY` gets no answer itself, whatever this says.
    pub last_stream_id: Option<u32>,
    /// Only the first so many attempts of a token; always when absent.
    pub attempts: Option<u32>,
}

impl Answer {
    /// The provider's success.
    #[must_use]
    pub fn ok() -> Self {
        Self::default()
    }

    /// An answer with this status and its usual reason.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status: Some(status), ..Self::default() }
    }

    /// An answer with this reason and its usual status.
    #[must_use]
    pub fn reason(reason: &str) -> Self {
        Self { reason: Some(reason.to_owned()), ..Self::default() }
    }

    /// No answer, but a fault.
    #[must_use]
    pub fn fault(action: Action) -> Self {
        Self { action, ..Self::default() }
    }

    /// With `Retry-After`.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// To the first `attempts` attempts of a token alone.
    #[must_use]
    pub fn first(self, attempts: u32) -> Self {
        Self { attempts: Some(attempts), ..self }
    }

    /// Whether it stands for the provider's success.
    pub(super) fn is_success(&self) -> bool {
        self.action == Action::Answer
            && self.reason.is_none()
            && self.status.is_none_or(|status| status == 200)
    }
}
