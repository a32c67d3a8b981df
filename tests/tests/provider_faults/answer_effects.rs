//! The effect of each response of each provider on a device: the table that T11 checks.

use notify_sandbox::{
    ApnsReason, Provider, ScriptedResponse, WebPushError, messenger_keywords, telegram_keywords,
};

/// The effect on a hundred devices that all get the same response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// All messages are accepted in the end.
    Sent,
    /// All devices are disabled.
    Disabled,
    /// The guard stops sending at its limit. No device stays disabled.
    Guarded,
    /// All deliveries fail, and the devices stay enabled.
    Failed,
    /// All deliveries wait for other credentials.
    Held,
    /// All deliveries wait for a retry.
    Waits,
}

/// A row: provider, response and effect.
pub(crate) type Row = (Provider, ScriptedResponse, Effect);

/// The rows of all providers.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for reason in ApnsReason::ALL {
        rows.push((Provider::Apns, ScriptedResponse::reason(reason.name), of_apns(reason)));
    }
    for (word, effect) in FCM {
        rows.push((Provider::Fcm, ScriptedResponse::reason(word), effect));
    }
    for refusal in WebPushError::ALL {
        // A reason without a keyword has the same effect as its status, or cannot be selected by an endpoint.
        let answer = match refusal.keyword {
            Some(_) => ScriptedResponse {
                status: Some(refusal.status),
                ..ScriptedResponse::reason(refusal.reason)
            },
            None => ScriptedResponse::status(refusal.status),
        };
        let row = (Provider::WebPush, answer, of_web_push(refusal.status));
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for word in messenger_keywords() {
        rows.push((Provider::Messenger, ScriptedResponse::reason(word), of_messenger(word)));
    }
    // A migrated chat gets the message at its new address, which another test checks.
    for word in telegram_keywords().filter(|word| *word != "migrated") {
        rows.push((Provider::Telegram, ScriptedResponse::reason(word), of_telegram(word)));
    }
    rows
}

fn of_apns(reason: &ApnsReason) -> Effect {
    match (reason.status, reason.name) {
        (400, "BadDeviceToken") => Effect::Guarded,
        (400, "MissingTopic" | "BadTopic" | "TopicDisallowed") | (403, _) => Effect::Held,
        (400, "IdleTimeout") | (429 | 500 | 503, _) => Effect::Waits,
        (400 | 404 | 405 | 413, _) => Effect::Failed,
        (410, _) => Effect::Disabled,
        _ => panic!("{reason:?}: reason without an effect"),
    }
}

const FCM: [(&str, Effect); 13] = [
    ("UNREGISTERED", Effect::Disabled),
    ("INVALID_ARGUMENT", Effect::Guarded),
    ("BAD_REQUEST", Effect::Failed),
    ("SENDER_ID_MISMATCH", Effect::Failed),
    ("NOT_FOUND", Effect::Held),
    ("PERMISSION_DENIED", Effect::Held),
    ("UNAUTHENTICATED", Effect::Held),
    ("THIRD_PARTY_AUTH_ERROR", Effect::Held),
    ("QUOTA_EXCEEDED", Effect::Waits),
    ("INTERNAL", Effect::Waits),
    ("UNAVAILABLE", Effect::Waits),
    ("UNSPECIFIED_ERROR", Effect::Waits),
    ("EMPTY", Effect::Waits),
];

fn of_web_push(status: u16) -> Effect {
    match status {
        400 | 413 => Effect::Failed,
        404 => Effect::Guarded,
        410 => Effect::Disabled,
        // After 401 and 403 only this push service is held, not the provider. The test can see only the hold.
        401 | 403 | 406 | 408 | 429 | 500..=599 => Effect::Waits,
        _ => panic!("{status}: status without an effect"),
    }
}

fn of_messenger(word: &str) -> Effect {
    match word {
        "nouser" => Effect::Guarded,
        "window" | "policy" | "cannot" | "unavailable" | "blocked" | "bothersome" | "empty"
        | "invalid" => Effect::Failed,
        // The error is about a part of the message. The server then sends the text alone, which is accepted.
        "toolarge" | "button" | "template" => Effect::Sent,
        "token" | "uninstalled" | "password" | "expired" | "revoked" | "permission" | "denied"
        | "nopermission" | "notlive" | "noadvanced" | "nophone" | "subscription" | "suspended" => {
            Effect::Held
        }
        "temporary" | "service" | "unknown" | "applimit" | "phonelimit" | "userlimit"
        | "pagelimit" | "customlimit" | "messengerlimit" => Effect::Waits,
        _ => panic!("{word}: word without an effect"),
    }
}

fn of_telegram(word: &str) -> Effect {
    match word {
        "blocked" | "deactivated" | "kicked" | "notmember" | "deleted" | "notopic" => {
            Effect::Disabled
        }
        "notfound" | "neverstarted" => Effect::Guarded,
        "empty" | "toolong" | "topicclosed" => Effect::Failed,
        // The error is about a photo or a button. The server then sends the message without it, which is
        // accepted.
        "parse" | "photo" | "fetch" | "dimensions" | "button" | "markup" => Effect::Sent,
        "unauthorized" | "badtoken" | "nomethod" | "notthere" => Effect::Held,
        "conflict" | "flood" | "internal" | "timeout" => Effect::Waits,
        _ => panic!("{word}: word without an effect"),
    }
}
