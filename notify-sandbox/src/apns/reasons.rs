//! Every reason APNs gives, with its status, and the tokens that ask for one of them.

use crate::sandbox::answer::{Action, Answer};

/// A refusal of APNs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// The HTTP status.
    pub status: u16,
    /// The `reason` of the body.
    pub name: &'static str,
}

macro_rules! reasons {
    ($($constant:ident $status:literal $name:literal)*) => {
        #[expect(missing_docs, reason = "the names are Apple's and say what they mean")]
        impl Reason {
            $(pub const $constant: Self = Self { status: $status, name: $name };)*

            /// All of them; the order within a status is that of the token scheme.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

reasons! {
    BAD_DEVICE_TOKEN 400 "BadDeviceToken"
    DEVICE_TOKEN_NOT_FOR_TOPIC 400 "DeviceTokenNotForTopic"
    MISSING_TOPIC 400 "MissingTopic"
    BAD_TOPIC 400 "BadTopic"
    TOPIC_DISALLOWED 400 "TopicDisallowed"
    BAD_COLLAPSE_ID 400 "BadCollapseId"
    BAD_EXPIRATION_DATE 400 "BadExpirationDate"
    BAD_MESSAGE_ID 400 "BadMessageId"
    BAD_PRIORITY 400 "BadPriority"
    INVALID_PUSH_TYPE 400 "InvalidPushType"
    DUPLICATE_HEADERS 400 "DuplicateHeaders"
    PAYLOAD_EMPTY 400 "PayloadEmpty"
    MISSING_DEVICE_TOKEN 400 "MissingDeviceToken"
    IDLE_TIMEOUT 400 "IdleTimeout"
    EXPIRED_PROVIDER_TOKEN 403 "ExpiredProviderToken"
    INVALID_PROVIDER_TOKEN 403 "InvalidProviderToken"
    MISSING_PROVIDER_TOKEN 403 "MissingProviderToken"
    BAD_CERTIFICATE 403 "BadCertificate"
    BAD_CERTIFICATE_ENVIRONMENT 403 "BadCertificateEnvironment"
    FORBIDDEN 403 "Forbidden"
    UNRELATED_KEY_ID_IN_TOKEN 403 "UnrelatedKeyIdInToken"
    BAD_ENVIRONMENT_KEY_ID_IN_TOKEN 403 "BadEnvironmentKeyIdInToken"
    BAD_PATH 404 "BadPath"
    METHOD_NOT_ALLOWED 405 "MethodNotAllowed"
    UNREGISTERED 410 "Unregistered"
    EXPIRED_TOKEN 410 "ExpiredToken"
    PAYLOAD_TOO_LARGE 413 "PayloadTooLarge"
    TOO_MANY_REQUESTS 429 "TooManyRequests"
    TOO_MANY_PROVIDER_TOKEN_UPDATES 429 "TooManyProviderTokenUpdates"
    INTERNAL_SERVER_ERROR 500 "InternalServerError"
    SERVICE_UNAVAILABLE 503 "ServiceUnavailable"
    SHUTDOWN 503 "Shutdown"
}

impl Reason {
    /// The reason of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name == name)
    }

    /// The first reason of this status.
    #[must_use]
    pub fn first_of(status: u16) -> Option<Self> {
        Self::of(status).next()
    }

    fn of(status: u16) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |reason| reason.status == status)
    }
}

/// Hex digits of a token as Apple makes them now.
const TOKEN_DIGITS: usize = 64;

/// Hex digits of the script at a token's end.
const SCRIPT_DIGITS: usize = 8;

/// A device token, distinct for each `seed`, that is answered like `answer` (the module's
/// documentation has the scheme).
///
/// # Panics
/// When a token cannot say it: an unknown reason, more than nine attempts, a `Retry-After`. Those
/// take a [`Rule`](crate::sandbox::Rule).
#[must_use]
pub fn apns_token(seed: u64, answer: &Answer) -> String {
    let script = if answer.is_success() {
        "ffffffff".to_owned()
    } else {
        script(answer).expect("the answer can be said in a token")
    };
    let digits = TOKEN_DIGITS - SCRIPT_DIGITS;
    format!("{seed:0digits$x}{script}")
}

fn script(answer: &Answer) -> Option<String> {
    let often = match answer.attempts {
        None => 'd',
        Some(attempts @ 1..=9) => char::from_digit(attempts, 10)?,
        Some(_) => return None,
    };
    if answer.retry_after.is_some() {
        return None;
    }
    let (status, index) = if answer.action == Action::Answer {
        let reason = match (&answer.reason, answer.status) {
            (Some(name), _) => Reason::named(name)?,
            (None, Some(status)) => Reason::first_of(status)?,
            (None, None) => return None,
        };
        (reason.status, Reason::of(reason.status).position(|other| other == reason)?)
    } else {
        (0, Action::FAULTS.iter().position(|fault| *fault == answer.action)?)
    };
    Some(format!("dea{often}{status:03}{index:x}"))
}

/// What a token asks for, if it does.
pub(super) fn in_token(token: &str) -> Option<Answer> {
    let script = token.get(token.len().checked_sub(SCRIPT_DIGITS)?..)?;
    let script = script.strip_prefix("dea")?;
    let attempts = match script.chars().next()? {
        'd' => None,
        digit => Some(digit.to_digit(10).filter(|often| *often > 0)?),
    };
    let status: u16 = script.get(1..4)?.parse().ok()?;
    let index = usize::try_from(script.chars().nth(4)?.to_digit(16)?).ok()?;
    let answer = if status == 0 {
        Answer::fault(*Action::FAULTS.get(index)?)
    } else {
        Answer::reason(Reason::of(status).nth(index)?.name)
    };
    Some(Answer { attempts, ..answer })
}
