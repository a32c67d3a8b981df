//! Checks of an application: whether its providers accept their credentials, and whether the credentials
//! are those of its devices' app.

use notify_client::{
    Client,
    notify_core::{App, AppDiagnostics, IosDiagnostics, ProviderKind, ProviderView},
};

use crate::output::pluralize;

use super::report::{Finding, Report};
use super::{AppName, channel, content, hints};

/// The beginning of the error codes with which APNs refuses a key of the other environment.
const OTHER_ENVIRONMENT: &str = "BadEnvironmentKey";

/// Checks an application.
pub(super) async fn check(notify: &Client, app: &App, name: &AppName, report: &mut Report) {
    let label = &name.label;
    report.extend(channel::check_status(app, label));
    let admin = notify.admin();
    let (providers, diagnostics) =
        match (admin.list_providers(app.id).await, admin.app_diagnostics(app.id).await) {
            (Ok(list), Ok(diagnostics)) => (list.providers, diagnostics),
            (Err(error), _) | (_, Err(error)) => {
                let finding = Finding::failed("providers", label, error.to_string());
                return report.add(finding.with_hint("read the server's log"));
            }
        };
    if providers.is_empty() {
        let hint = hints::for_missing_provider(&name.argument);
        report
            .add(Finding::failed("providers", label, "no provider is configured").with_hint(hint));
    }
    for channel in &diagnostics.channels {
        report.add(channel::check_channel(name, channel));
        report.extend(channel::check_services(name, channel));
    }
    report.extend(content::webhooks(label, &diagnostics.webhooks));
    report.extend(content::feeds(label, &diagnostics.feeds));
    for provider in &providers {
        check_provider(notify, app, name, provider, &diagnostics, report).await;
    }
}

async fn check_provider(
    notify: &Client,
    app: &App,
    AppName { label, argument }: &AppName,
    view: &ProviderView,
    diagnostics: &AppDiagnostics,
    report: &mut Report,
) {
    let provider = view.provider;
    let about = format!("{label} {provider}");
    let checked = match notify.admin().test_provider(app.id, provider).await {
        Ok(checked) => checked,
        Err(error) => {
            let finding = Finding::failed("credentials", &about, error.to_string());
            return report.add(finding.with_hint("read the server's log"));
        }
    };
    report.add(if checked.ok {
        Finding::passed("credentials", &about, checked.detail.clone())
    } else {
        let hint = hints::for_failed_check(provider, &checked.detail, argument);
        Finding::failed("credentials", &about, checked.detail.clone()).with_hint(hint)
    });
    match provider {
        ProviderKind::Apns => {
            report.extend(check_topic(&about, &diagnostics.ios));
            report.extend(check_environment(&about, &diagnostics.ios, &checked.detail));
        }
        ProviderKind::WebPush => {
            report.add(check_subject(
                argument,
                &about,
                view.config["subject"].as_str().unwrap_or_default(),
            ));
        }
        ProviderKind::Fcm | ProviderKind::Messenger | ProviderKind::Telegram => {}
    }
}

/// Compares the topic with the apps of the devices. APNs refuses a message whose topic is not the app of
/// the token.
fn check_topic(about: &str, ios: &IosDiagnostics) -> Option<Finding> {
    let topic = ios.topic.as_deref()?;
    let others: Vec<String> = ios
        .store_identifiers
        .iter()
        .filter(|count| count.store_identifier != topic)
        .map(|count| format!("{} ({} of {})", count.store_identifier, count.devices, ios.sampled))
        .collect();
    if others.is_empty() {
        let detail = match ios.sampled {
            0 => format!("the topic is {topic}; no iOS device is registered yet"),
            1 => format!("the topic is {topic}; the iOS device names no other app"),
            sampled => {
                format!(
                    "the topic is {topic}; none of the newest {sampled} iOS devices names another"
                )
            }
        };
        return Some(Finding::passed("topic", about, detail));
    }
    let detail = format!("the topic is {topic}, but devices name {}", others.join(", "));
    let hint = "set topic to the bundle id of the app; a second app needs a separate application";
    Some(Finding::failed("topic", about, detail).with_hint(hint))
}

/// Finds an environment that devices use and the key does not cover. A key may be restricted to one
/// environment, and devices of the other environment then receive nothing. `checked` is the result of the
/// server's test of the credentials.
fn check_environment(about: &str, ios: &IosDiagnostics, checked: &str) -> Option<Finding> {
    let (production, sandbox) = checked.split_once("; sandbox: ")?;
    let environments =
        [("production", production, ios.sampled - ios.sandbox), ("sandbox", sandbox, ios.sandbox)];
    let failing = environments
        .iter()
        .find(|(_, result, devices)| result.contains(OTHER_ENVIRONMENT) && *devices > 0);
    let (name, _, devices) = failing?;
    let detail = format!(
        "the key does not cover {name}, which {devices} of {} use",
        pluralize(ios.sampled, "device")
    );
    let hint = "create a key for both environments, or check the ios_env that the app registers";
    Some(Finding::failed("ios_env", about, detail).with_hint(hint))
}

/// Checks the VAPID subject, which is the contact address that the server sends to push services (RFC 8292,
/// section 2.1). Apple refuses an invalid address.
fn check_subject(app: &str, about: &str, subject: &str) -> Finding {
    let address = subject.strip_prefix("mailto:").filter(|address| address.contains('@'));
    let address = address.or_else(|| subject.strip_prefix("https://"));
    let is_placeholder = |address: &str| {
        let host = address.rsplit('@').next().unwrap_or_default();
        let host = host.split(['/', ':', '?']).next().unwrap_or_default();
        !host.contains('.')
            || host.ends_with(".local")
            || host.ends_with(".example")
            || ["example.com", "example.org", "example.net"].contains(&host)
    };
    match address {
        Some(address) if !is_placeholder(address) => Finding::passed("vapid", about, subject),
        Some(_) => {
            Finding::failed("vapid", about, format!("the subject {subject} is not a real address"))
                .with_hint(hints::for_credentials(ProviderKind::WebPush, app))
        }
        None => {
            Finding::failed("vapid", about, format!("the subject `{subject}` is not an address"))
                .with_hint(hints::for_credentials(ProviderKind::WebPush, app))
        }
    }
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::IdentifierCount;

    use super::*;

    fn ios(sandbox: u64, identifiers: &[(&str, u64)]) -> IosDiagnostics {
        let count = |(name, devices): &(&str, u64)| IdentifierCount {
            store_identifier: (*name).to_owned(),
            devices: *devices,
        };
        IosDiagnostics {
            topic: Some("com.shop.app".to_owned()),
            sampled: 10,
            sandbox,
            store_identifiers: identifiers.iter().map(count).collect(),
        }
    }

    #[test]
    fn a_topic_that_differs_from_the_devices_is_a_failure() {
        assert!(check_topic("a", &ios(0, &[("com.shop.app", 9)])).unwrap().is_ok());
        assert!(check_topic("a", &ios(0, &[])).unwrap().is_ok(), "no device reports its app");
        let wrong = check_topic("a", &ios(0, &[("com.shop.dev", 7), ("com.shop.app", 3)])).unwrap();
        assert!(!wrong.is_ok());
        let detail = "the topic is com.shop.app, but devices name com.shop.dev (7 of 10)";
        assert_eq!(wrong.detail(), detail);
        let unset = IosDiagnostics { topic: None, ..ios(0, &[("x", 1)]) };
        assert!(check_topic("a", &unset).is_none());
    }

    #[test]
    fn a_key_of_one_environment_fails_if_devices_use_the_other() {
        let good = "the credentials are accepted";
        let refused = "the credentials are refused: BadEnvironmentKeyIdInToken";
        let no_sandbox = format!("production: {good}; sandbox: {refused}");
        let no_production = format!("production: {refused}; sandbox: {good}");
        for (checked, sandbox, ok) in [
            (&no_sandbox, 0, true),
            (&no_sandbox, 4, false),
            (&no_production, 10, true),
            (&no_production, 4, false),
            (&good.to_owned(), 4, true),
        ] {
            let finding = check_environment("a", &ios(sandbox, &[]), checked);
            assert_eq!(finding.is_none(), ok, "{checked} {sandbox}");
        }
    }

    #[test]
    fn the_subject_must_be_a_real_address() {
        for (text, ok) in [
            ("mailto:push@shop.io", true),
            ("https://shop.io/contact", true),
            ("mailto:you@example.com", false),
            ("mailto:root@localhost", false),
            ("https://shop.example", false),
            ("mailto:shop.io", false),
            ("push@shop.io", false),
            ("", false),
        ] {
            assert_eq!(check_subject("Shop", "a", text).is_ok(), ok, "{text}");
        }
    }
}
