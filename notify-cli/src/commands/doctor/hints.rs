//! What to do about a provider whose check failed. New keys help only where the keys were refused: a
//! provider that was not reached has not judged them.

use notify_client::notify_core::ProviderKind;

/// What the server says of a provider that gave no answer.
const NO_ANSWER: [&str; 9] = [
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
    /// It was not reached, or gave no answer.
    Reach,
    /// It answered, and cannot judge the credentials now.
    Passing,
}

/// What to do about a check that failed with these words.
pub(super) fn of_check(provider: ProviderKind, detail: &str, app: &str) -> String {
    for_app(failed_check(provider, detail), app)
}

/// What to do about refused credentials.
pub(super) fn of_credentials(provider: ProviderKind, app: &str) -> String {
    for_app(refused_credentials(provider), app)
}

/// A hint whose command names the application, as one of several needs.
fn for_app(hint: &str, app: &str) -> String {
    hint.replace(" FILE`", &format!(" FILE --app {app}`"))
}

fn failed_check(provider: ProviderKind, detail: &str) -> &'static str {
    match what_failed(provider, detail) {
        Failed::Credentials => refused_credentials(provider),
        Failed::AppSecret => {
            "app_secret does not belong to the app of the page token, or it was reset: copy it from \
             App settings > Basic, then run `notify providers put messenger FILE`"
        }
        Failed::Certificate => {
            "compare endpoint and ca_certificate: the endpoint's certificate must name the endpoint, \
             be valid now, and come from an authority that the server's system or ca_certificate \
             trusts; the keys were not checked"
        }
        Failed::Reach => {
            "check that endpoint is right and that the server's machine reaches it (DNS, firewall, \
             proxy); the keys were not checked"
        }
        Failed::Passing => "the provider is busy: check again later",
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
    if says(&NO_ANSWER) {
        return Failed::Reach;
    }
    if says(&["asks to wait", "gave no answer that counts"]) {
        return Failed::Passing;
    }
    Failed::Credentials
}

/// What to do where no provider is configured; `app` is what `--app` takes.
pub(super) fn first_provider(app: &str) -> String {
    let all = ProviderKind::ALL.map(ProviderKind::as_str).join(", ");
    format!(
        "`notify providers put PROVIDER FILE --app {app}`, with one of {all}; `notify providers put \
         --help` explains FILE"
    )
}

fn refused_credentials(provider: ProviderKind) -> &'static str {
    match provider {
        ProviderKind::Apns => {
            "compare team_id, key_id, topic and the .p8 file with Apple's developer account \
             (Certificates, Identifiers & Profiles > Keys), check the server's clock, then run \
             `notify providers put apns FILE`"
        }
        ProviderKind::Fcm => {
            "in the Firebase console create a key of a service account that may send (Project \
             settings > Service accounts) and enable the Cloud Messaging API, then run `notify \
             providers put fcm FILE`"
        }
        ProviderKind::WebPush => {
            "set the subject to a mailto: or https: address of yours, then run `notify providers put \
             webpush FILE`"
        }
        ProviderKind::Messenger => {
            "create a page access token with pages_messaging, then run `notify providers put \
             messenger FILE`"
        }
        ProviderKind::Telegram => {
            "copy the bot's token from @BotFather, then run `notify providers put telegram FILE`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_keys_are_the_remedy_only_where_the_keys_were_refused() {
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
        for provider in ProviderKind::ALL {
            let command = format!("`notify providers put {provider} FILE --app 'Shop'`");
            assert!(of_credentials(provider, "'Shop'").contains(&command), "{provider}");
        }
        let certificate = of_check(Apns, "tls_failed", "Shop");
        assert!(certificate.contains("ca_certificate") && !certificate.contains("make"));
    }

    #[test]
    fn without_a_provider_all_are_named() {
        assert_eq!(
            first_provider("'Shop'"),
            "`notify providers put PROVIDER FILE --app 'Shop'`, with one of apns, fcm, webpush, \
             messenger, telegram; `notify providers put --help` explains FILE"
        );
    }
}
