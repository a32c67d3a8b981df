//! Remedies for providers that fail a check. New credentials help only if the provider refused the current
//! ones. A provider that cannot be reached has not checked them.

use super::clock;
use crate::ProviderKind;

/// The parts of a detail by which the server reports that a provider did not respond.
const NO_RESPONSE: [&str; 9] = [
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

/// Why a check failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The provider refuses the credentials.
    Credentials,
    /// Messenger refuses calls that are signed with the secret of another app.
    AppSecret,
    /// The certificate of the provider is not trusted or does not match.
    Certificate,
    /// The provider did not respond.
    Unreachable,
    /// The provider responded, but cannot check the credentials now.
    Temporary,
    /// The egress proxy makes no connection.
    Proxy,
    /// The provider refuses the credentials, and the server's clock is wrong.
    Clock,
}

/// The remedy for a check that failed with this detail. `app` is the argument of `--app`.
pub(super) fn for_failed_check(provider: ProviderKind, detail: &str, app: &str) -> String {
    match cause(provider, detail) {
        Cause::Credentials => for_credentials(provider, app),
        Cause::AppSecret => format!(
            "app_secret does not belong to the app of the page token, or it was reset: copy it from \
             App settings > Basic, then run {}",
            put_command(provider, app)
        ),
        Cause::Certificate => format!(
            "compare endpoint and ca_certificate: the endpoint's certificate must name the endpoint, \
             be valid now, and come from an authority that the server's system or ca_certificate \
             trusts; to change them, run {}; the keys were not checked",
            put_command(provider, app)
        ),
        Cause::Unreachable => {
            "check that endpoint is right and that the server's machine reaches it (DNS, firewall, \
             proxy); the keys were not checked"
                .to_owned()
        }
        Cause::Temporary => "the provider is busy: check again later".to_owned(),
        Cause::Clock => clock::HINT.to_owned(),
        Cause::Proxy => format!("{PROXY_HINT}; the keys were not checked"),
    }
}

/// The remedy for an egress proxy that makes no connection.
pub(super) const PROXY_HINT: &str = "check the server's --egress-proxy (NOTIFY_EGRESS_PROXY, or HTTPS_PROXY) and \
    NO_PROXY, and that the rules of the proxy allow CONNECT to the providers (port 443)";

/// The remedy for refused credentials; `app` is the argument of `--app`.
pub(super) fn for_credentials(provider: ProviderKind, app: &str) -> String {
    let steps = match provider {
        ProviderKind::Apns => {
            "compare team_id, key_id, topic and the .p8 file with Apple's developer account \
             (Certificates, Identifiers & Profiles > Keys), check the server's clock"
        }
        ProviderKind::Fcm => {
            "in the Firebase console create a key of a service account that may send (Project \
             settings > Service accounts) and enable the Cloud Messaging API; invalid_grant can also mean that \
             the server's clock is wrong"
        }
        ProviderKind::WebPush => "set the subject to a mailto: or https: address of yours",
        ProviderKind::Messenger => "create a page access token with pages_messaging",
        ProviderKind::Telegram => "copy the bot's token from @BotFather",
    };
    format!("{steps}, then run {}", put_command(provider, app))
}

/// The remedy for an application without a provider; `app` is the argument of `--app`.
pub(super) fn for_missing_provider(app: &str) -> String {
    let all = ProviderKind::ALL.map(ProviderKind::as_str).join(", ");
    format!(
        "`notify providers put PROVIDER FILE --app {app}`, with one of {all}; `notify providers put \
         --help` explains FILE"
    )
}

/// The command that configures a provider; `app` is the argument of `--app`.
pub(super) fn put_command(provider: ProviderKind, app: &str) -> String {
    format!("`notify providers put {provider} FILE --app {app}`")
}

/// Why a check failed, according to the detail that the server reports.
fn cause(provider: ProviderKind, detail: &str) -> Cause {
    let contains_any = |words: &[&str]| words.iter().any(|word| detail.contains(word));
    if provider == ProviderKind::Messenger && detail.contains("invalid_parameter (100") {
        return Cause::AppSecret;
    }
    if detail.contains("credentials are refused") {
        return if detail.contains(clock::WRONG_CLOCK) { Cause::Clock } else { Cause::Credentials };
    }
    if detail.contains("proxy_failed") {
        return Cause::Proxy;
    }
    if contains_any(&["tls_failed", "certificate", "no_root_certificates"]) {
        return Cause::Certificate;
    }
    if contains_any(&NO_RESPONSE) {
        return Cause::Unreachable;
    }
    if contains_any(&["asks to wait", "could not answer"]) {
        return Cause::Temporary;
    }
    Cause::Credentials
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_credentials_are_the_remedy_only_for_refused_ones() {
        use Cause::{AppSecret, Certificate, Clock, Credentials, Proxy, Temporary, Unreachable};
        use ProviderKind::{Apns, Fcm, Messenger, Telegram};
        let no_answer = "the provider could not answer: ";
        for (provider, detail, expected) in [
            (Apns, "the credentials are refused: InvalidProviderToken", Credentials),
            (
                Apns,
                "production: the provider could not answer: connect_timeout; sandbox: \
                 the credentials are refused: InvalidProviderToken",
                Credentials,
            ),
            (
                Fcm,
                &format!("{no_answer}connect_failed: Connection refused (os error 111)"),
                Unreachable,
            ),
            (Fcm, &format!("{no_answer}connect_failed: failed to lookup address"), Unreachable),
            (Fcm, "the provider did not answer in time", Unreachable),
            (Fcm, &format!("{no_answer}connect_failed: the proxy p:1 does not reach"), Unreachable),
            (Apns, &format!("{no_answer}proxy_failed: the proxy p:1 refuses"), Proxy),
            (Fcm, &format!("{no_answer}proxy_failed: the proxy p:1: a certificate"), Proxy),
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
            (
                Fcm,
                "the credentials are refused: oauth http_400 invalid_grant; this server's clock is 120 \
                 minutes ahead of the provider's",
                Clock,
            ),
            (Messenger, "the provider rejected the check: invalid_parameter (100)", AppSecret),
            (Messenger, "the credentials are refused: token_invalid (190)", Credentials),
            (Telegram, "the provider asks to wait: Too Many Requests", Temporary),
            (Telegram, &format!("{no_answer}http_502"), Temporary),
            (
                Telegram,
                "the credentials cannot be opened with the master key: configure the provider again",
                Credentials,
            ),
        ] {
            assert_eq!(cause(provider, detail), expected, "{provider}: {detail}");
        }
        for provider in ProviderKind::ALL {
            let command = format!("`notify providers put {provider} FILE --app 'Shop'`");
            assert!(for_credentials(provider, "'Shop'").contains(&command), "{provider}");
        }
        let certificate = for_failed_check(Apns, "tls_failed", "Shop");
        assert!(certificate.contains("ca_certificate") && !certificate.contains("make"));
        assert!(certificate.contains("`notify providers put apns FILE --app Shop`"));
    }

    #[test]
    fn the_remedy_for_a_missing_provider_lists_all_providers() {
        assert_eq!(
            for_missing_provider("'Shop'"),
            "`notify providers put PROVIDER FILE --app 'Shop'`, with one of apns, fcm, webpush, \
             messenger, telegram; `notify providers put --help` explains FILE"
        );
    }
}
