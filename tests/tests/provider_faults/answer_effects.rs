//! What each answer of each provider does to a device: the table that T11 checks.

use notify_sandbox::{
    ApnsReason, Provider, ScriptedResponse, WebPushError, messenger_keywords, telegram_keywords,
};

/// The effect on a hundred devices that all get the same response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Accepted after all.
    Sent,
    /// All are disabled.
    Dead,
    /// The guard stops sending at the limit; no device stays disabled.
    Guarded,
    /// All fail and stay enabled.
    Failed,
    /// All wait for other credentials.
    Held,
    /// All wait for a retry.
    Waits,
}

/// A row: provider, response, effect.
pub(crate) type Row = (Provider, ScriptedResponse, Fate);

/// Every row of every provider.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for reason in ApnsReason::ALL {
        rows.push((Provider::Apns, ScriptedResponse::reason(reason.name), of_apns(reason)));
    }
    for (word, fate) in FCM {
        rows.push((Provider::Fcm, ScriptedResponse::reason(word), fate));
    }
    for refusal in WebPushError::ALL {
        // A reason without a word is that of its status, or cannot be asked for by an endpoint.
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

fn of_apns(reason: &ApnsReason) -> Fate {
    match (reason.status, reason.name) {
        (400, "BadDeviceToken") => Fate::Guarded,
        (400, "MissingTopic" | "BadTopic" | "TopicDisallowed") | (403, _) => Fate::Held,
        (400, "IdleTimeout") | (429 | 500 | 503, _) => Fate::Waits,
        (400 | 404 | 405 | 413, _) => Fate::Failed,
        (410, _) => Fate::Dead,
        _ => panic!("{reason:?}: a reason without a fate"),
    }
}

const FCM: [(&str, Fate); 13] = [
    ("UNREGISTERED", Fate::Dead),
    ("INVALID_ARGUMENT", Fate::Guarded),
    ("BAD_REQUEST", Fate::Failed),
    ("SENDER_ID_MISMATCH", Fate::Failed),
    ("NOT_FOUND", Fate::Held),
    ("PERMISSION_DENIED", Fate::Held),
    ("UNAUTHENTICATED", Fate::Held),
    ("THIRD_PARTY_AUTH_ERROR", Fate::Held),
    ("QUOTA_EXCEEDED", Fate::Waits),
    ("INTERNAL", Fate::Waits),
    ("UNAVAILABLE", Fate::Waits),
    ("UNSPECIFIED_ERROR", Fate::Waits),
    ("EMPTY", Fate::Waits),
];

fn of_web_push(status: u16) -> Fate {
    match status {
        400 | 413 => Fate::Failed,
        404 => Fate::Guarded,
        410 => Fate::Dead,
        // 401 and 403 hold that push service, not the provider, which is all that can be seen here.
        401 | 403 | 406 | 408 | 429 | 500..=599 => Fate::Waits,
        _ => panic!("{status}: a status without a fate"),
    }
}

fn of_messenger(word: &str) -> Fate {
    match word {
        "nouser" => Fate::Guarded,
        "window" | "policy" | "cannot" | "unavailable" | "blocked" | "bothersome" | "toolarge"
        | "empty" | "invalid" => Fate::Failed,
        "token" | "uninstalled" | "password" | "expired" | "revoked" | "permission" | "denied"
        | "nopermission" | "notlive" | "noadvanced" | "nophone" | "subscription" | "suspended" => {
            Fate::Held
        }
        "temporary" | "service" | "unknown" | "applimit" | "phonelimit" | "userlimit"
        | "pagelimit" | "customlimit" | "messengerlimit" => Fate::Waits,
        _ => panic!("{word}: a word without a fate"),
    }
}

fn of_telegram(word: &str) -> Fate {
    match word {
        "blocked" | "deactivated" | "kicked" | "notmember" | "deleted" => Fate::Dead,
        "notfound" | "neverstarted" => Fate::Guarded,
        "empty" | "toolong" | "button" | "markup" => Fate::Failed,
        // About a photo: the text alone is taken.
        "parse" | "photo" | "fetch" | "dimensions" => Fate::Sent,
        "unauthorized" | "badtoken" | "nomethod" | "notthere" => Fate::Held,
        "conflict" | "flood" | "internal" | "timeout" => Fate::Waits,
        _ => panic!("{word}: a word without a fate"),
    }
}
