//! How to mend a check of a provider that failed. New keys help only where the keys were refused:
//! a provider that was not reached has said nothing of them.

use notify_client::notify_core::ProviderKind;

/// What the server says of a provider that was not heard.
const UNHEARD: [&str; 9] = [
    "connect_failed",
    "connect_timeout",
    "tls_timeout",
    "settings_timeout",
    "http2_failed",
    "timeout",
    "connection_cut",
    "no_http2",
    "did not answer in time",
];

/// What a check failed of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// The provider refuses the credentials, or takes them for another's.
    Credentials,
    /// Messenger takes no call that is proved by another app's secret.
    AppSecret,
    /// Its certificate is not trusted, or not its own.
    Certificate,
    /// It was not reached, or not heard.
    Reach,
    /// It was heard, and cannot say now.
    Passing,
}

/// How to mend a check that failed with these words.
pub(super) fn of_check(provider: ProviderKind, detail: &str) -> &'static str {
    match what_failed(provider, detail) {
        Failed::Credentials => of_credentials(provider),
        Failed::AppSecret => {
            "app_secret is not that of the app whose page token this is (App settings > Basic), or \
             it was reset; then `notify providers put messenger`"
        }
        Failed::Certificate => {
            "compare endpoint and ca_certificate: the endpoint's certificate must be its own, in \
             its time, and of an authority that the server's system or ca_certificate trusts; the \
             keys were not looked at"
        }
        Failed::Reach => {
            "see that endpoint is right, and that the server's machine reaches it: name service, \
             firewall, proxy; the keys were not looked at"
        }
        Failed::Passing => "nothing is to be done: it passes by itself; check again later",
    }
}

fn what_failed(provider: ProviderKind, detail: &str) -> Failed {
    let says = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    if provider == ProviderKind::Messenger && detail.contains("invalid_parameter (100") {
        return Failed::AppSecret;
    }
    if detail.contains("credentials are refused") {
        return Failed::Credentials;
    }
    if says(&["tls_failed", "certificate", "no_root_certificates"]) {
        return Failed::Certificate;
    }
    if says(&UNHEARD) {
        return Failed::Reach;
    }
    if says(&["asks to wait", "gave no answer that counts"]) {
        return Failed::Passing;
    }
    Failed::Credentials
}

/// How to mend credentials.
pub(super) fn of_credentials(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Apns => {
            "compare team_id, key_id, topic and the .p8 file with Apple's developer account \
             (Certificates, Identifiers & Profiles > Keys), and the server's clock; then `notify \
             providers put apns`"
        }
        ProviderKind::Fcm => {
            "in the Firebase console make a new key of a service account that may send (Project \
             settings > Service accounts), see that the Cloud Messaging API is on; then `notify \
             providers put fcm`"
        }
        ProviderKind::WebPush => {
            "the subject is a mailto: or https: address at which you are reached; then `notify \
             providers put webpush`"
        }
        ProviderKind::Messenger => {
            "make a new page access token with pages_messaging; then `notify providers put \
             messenger`"
        }
        ProviderKind::Telegram => {
            "ask @BotFather for the bot's token; then `notify providers put telegram`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_mended_only_where_they_were_refused() {
        use Failed::{AppSecret, Certificate, Credentials, Passing, Reach};
        use ProviderKind::{Apns, Fcm, Messenger, Telegram};
        let no_answer = "the provider gave no answer that counts: ";
        for (provider, detail, expected) in [
            (Apns, "the credentials are refused: InvalidProviderToken", Credentials),
            (
                Apns,
                "production: the provider gave no answer that counts: connect_timeout; sandbox: \
                 the credentials are refused: InvalidProviderToken",
                Credentials,
            ),
            (Fcm, &format!("{no_answer}connect_failed: Connection refused (os error 111)"), Reach),
            (Fcm, &format!("{no_answer}connect_failed: failed to lookup address"), Reach),
            (Fcm, "the provider did not answer in time", Reach),
            (
                Fcm,
                &format!("{no_answer}tls_failed: invalid peer certificate: UnknownIssuer"),
                Certificate,
            ),
            (
                Messenger,
                &format!("{no_answer}connect_failed: invalid peer certificate: Expired"),
                Certificate,
            ),
            (Messenger, "the provider did not take the check: invalid_parameter (100)", AppSecret),
            (Messenger, "the credentials are refused: token_invalid (190)", Credentials),
            (Telegram, "the provider asks to wait: Too Many Requests", Passing),
            (Telegram, &format!("{no_answer}http_502"), Passing),
            (
                Telegram,
                "the credentials cannot be opened with the master key: configure it anew",
                Credentials,
            ),
        ] {
            assert_eq!(what_failed(provider, detail), expected, "{provider}: {detail}");
        }
        let certificate = of_check(Apns, "tls_failed");
        assert!(certificate.contains("ca_certificate") && !certificate.contains("make"));
    }
}
