//! Checking the credentials of APNs: a push to a device token that no device has. Apple looks at
//! the provider token and at the topic first, so that `BadDeviceToken` means that both were taken.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use notify_core::IosEnv;

use super::Apns;
use crate::payload::apns::TOPIC;
use crate::providers::{Address, Answer, Checked, Prepared, PreparedBody, Provider};

/// A device token by its form, of no device.
const IMPOSSIBLE_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// Shows nothing even where a device took it.
const SILENT: &[u8] = br#"{"aps":{"content-available":1}}"#;
const SILENT_HEADERS: [(&str, &str); 3] =
    [("apns-push-type", "background"), ("apns-priority", "5"), ("apns-expiration", "0")];
/// A key that is made for the other environment alone (Apple, "Communicate with APNs using
/// authentication tokens").
const OTHER_ENVIRONMENT: [&str; 2] = ["BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"];

/// Asks production and development host; where both are one, once. A key may be for one of the two
/// environments, and is good then.
pub(super) async fn both_hosts(apns: &Apns) -> Checked {
    if Arc::ptr_eq(&apns.production.pool, &apns.sandbox.pool) {
        return Checked::of_answer(&ask(apns, IosEnv::Production).await);
    }
    let (production, sandbox) =
        tokio::join!(ask(apns, IosEnv::Production), ask(apns, IosEnv::Sandbox));
    judge(&production, &sandbox)
}

fn judge(production: &Answer, sandbox: &Answer) -> Checked {
    let (here, there) = (Checked::of_answer(production), Checked::of_answer(sandbox));
    let is_good = |checked: &Checked, other: &Checked, answer: &Answer| {
        checked.ok || (other.ok && is_for_the_other(answer))
    };
    Checked {
        ok: is_good(&here, &there, production) && is_good(&there, &here, sandbox),
        detail: format!("production: {}; sandbox: {}", here.detail, there.detail),
    }
}

fn is_for_the_other(answer: &Answer) -> bool {
    matches!(answer, Answer::Config { reason } if OTHER_ENVIRONMENT.contains(&&**reason))
}

async fn ask(apns: &Apns, env: IosEnv) -> Answer {
    let mut headers = HeaderMap::new();
    for (name, value) in SILENT_HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(TOPIC, apns.topic.clone());
    headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
    let body = PreparedBody::Whole(Bytes::from_static(SILENT));
    let to = Address::Apns { token: IMPOSSIBLE_TOKEN.into(), env };
    apns.attempt(&Prepared { headers, body }, &to).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::{Certainty, Scope};

    #[test]
    fn a_key_is_good_that_one_host_takes_and_the_other_knows_as_not_its_own() {
        let taken =
            Answer::TokenDead { reason: "BadDeviceToken".into(), ambiguous: true, since: None };
        let config = |reason: &'static str| Answer::Config { reason: reason.into() };
        let (other, wrong) = (config(OTHER_ENVIRONMENT[0]), config("InvalidProviderToken"));
        let reason = "connect_timeout".into();
        let gone = Answer::Retry { reason, after: None, outcome: Certainty::NotProcessed };
        let reason = "TooManyProviderTokenUpdates".into();
        let many = Answer::Throttle { reason, after: None, scope: Scope::Provider };
        for (production, sandbox, ok) in [
            (&taken, &taken, true),
            (&taken, &other, true),
            (&other, &taken, true),
            (&other, &other, false),
            (&taken, &wrong, false),
            (&wrong, &wrong, false),
            (&taken, &gone, false),
            (&many, &taken, false),
        ] {
            let checked = judge(production, sandbox);
            assert_eq!(checked.ok, ok, "{}", checked.detail);
        }
        let told = judge(&taken, &wrong).detail;
        let expected = "production: the credentials are accepted; sandbox: the credentials are \
                        refused: InvalidProviderToken";
        assert_eq!(told, expected);
    }
}
