//! Checks of an application: whether its providers accept their credentials, and whether the credentials
//! are those of its devices' app.

use std::collections::HashMap;

use super::{Finding, Unavailable, channel, content, hints};
use crate::{
    AnonymousDevices, App, AppDiagnostics, IosDiagnostics, ProviderKind, ProviderTestResult,
    ProviderView, pluralize,
};

/// The beginning of the error codes with which APNs refuses a key of the other environment.
const OTHER_ENVIRONMENT: &str = "BadEnvironmentKey";

/// The name of an application, in findings and in commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppName {
    /// The name in findings. It includes the id if the name is ambiguous.
    pub label: String,
    /// The argument of `--app`: the name, quoted for a shell. It is the id if the name is ambiguous or
    /// contains a quote.
    pub argument: String,
}

impl AppName {
    /// The name of an application. `is_unique` states whether it is the only application of the server
    /// with this name.
    #[must_use]
    pub fn new(app: &App, is_unique: bool) -> Self {
        let App { id, name, .. } = app;
        if !is_unique {
            return Self { label: format!("{name} ({id})"), argument: id.to_string() };
        }
        let argument = if name.contains('\'') { id.to_string() } else { format!("'{name}'") };
        Self { label: name.clone(), argument }
    }

    /// The names of all applications of a server, in the same order.
    #[must_use]
    pub fn of_all(apps: &[App]) -> Vec<Self> {
        let mut counts = HashMap::<&str, usize>::new();
        for app in apps {
            *counts.entry(&app.name).or_default() += 1;
        }
        apps.iter().map(|app| Self::new(app, counts[app.name.as_str()] == 1)).collect()
    }
}

/// What is known about an application.
#[derive(Debug, Clone, PartialEq)]
pub struct AppFacts {
    /// The application.
    pub app: App,
    /// Its name in findings and commands.
    pub name: AppName,
    /// Its providers and the status of its deliveries.
    pub state: Result<AppState, Unavailable>,
}

/// The providers of an application and the status of its deliveries.
#[derive(Debug, Clone, PartialEq)]
pub struct AppState {
    /// Answer of `GET /admin/v1/apps/:id/devices/diagnostics`.
    pub diagnostics: AppDiagnostics,
    /// Each configured provider.
    pub providers: Vec<ProviderFacts>,
}

/// What is known about a configured provider.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderFacts {
    /// An entry of the answer of `GET /admin/v1/apps/:id/providers`.
    pub view: ProviderView,
    /// Answer of `POST /admin/v1/apps/:id/providers/:provider/test`.
    pub test: Result<ProviderTestResult, Unavailable>,
}

/// Checks whether the notifications of an application can be delivered, and its webhooks and feeds.
#[must_use]
pub fn check_app(facts: &AppFacts) -> Vec<Finding> {
    let AppFacts { app, name, state } = facts;
    let label = &name.label;
    let mut findings: Vec<Finding> = channel::check_status(app, label).into_iter().collect();
    let AppState { diagnostics, providers } = match state {
        Ok(state) => state,
        Err(unavailable) => {
            findings.push(Finding::unavailable("providers", label, unavailable));
            return findings;
        }
    };
    if providers.is_empty() {
        let hint = hints::for_missing_provider(&name.argument);
        findings
            .push(Finding::failed("providers", label, "no provider is configured").with_hint(hint));
    }
    for channel in &diagnostics.channels {
        findings.push(channel::check_channel(name, channel));
        findings.extend(channel::check_services(name, channel));
        findings.extend(channel::check_tokens(label, channel));
    }
    findings.extend(content::webhooks(label, &diagnostics.webhooks));
    findings.extend(content::feeds(label, &diagnostics.feeds));
    findings.extend(content::keys(name, &diagnostics.expiring_keys));
    findings
        .extend(diagnostics.anonymous_devices.and_then(|devices| check_anonymous(label, devices)));
    for provider in providers {
        findings.extend(check_provider(name, provider, &diagnostics.ios));
    }
    findings
}

/// A finding if the application has devices that anybody could have registered.
fn check_anonymous(
    label: &str,
    AnonymousDevices { devices, max }: AnonymousDevices,
) -> Option<Finding> {
    const CHECK: &str = "anonymous devices";
    if devices == 0 {
        return None;
    }
    let registered = format!(
        "{} registered without an API key and accepted no message yet",
        pluralize(devices, "device")
    );
    let Some(max) = max else { return Some(Finding::passed(CHECK, label, registered)) };
    if devices < max {
        let detail = format!("{registered}; the server keeps {max} of them");
        return Some(Finding::passed(CHECK, label, detail));
    }
    let detail = format!(
        "{registered}, which is the most that the server keeps: those that were not seen for the longest \
         time are removed"
    );
    let hint = "send them a message, or raise `--max-anonymous-devices`; if strangers registered them, lower \
        `--web-subscriptions-per-minute`";
    Some(Finding::warning(CHECK, label, detail).with_hint(hint))
}

fn check_provider(
    AppName { label, argument }: &AppName,
    ProviderFacts { view, test }: &ProviderFacts,
    ios: &IosDiagnostics,
) -> Vec<Finding> {
    let provider = view.provider;
    let about = format!("{label} {provider}");
    let ProviderTestResult { ok, detail, .. } = match test {
        Ok(test) => test,
        Err(unavailable) => {
            return vec![Finding::unavailable("credentials", &about, unavailable)];
        }
    };
    let mut findings = vec![if *ok {
        Finding::passed("credentials", &about, detail)
    } else {
        let hint = hints::for_failed_check(provider, detail, argument);
        Finding::failed("credentials", &about, detail).with_hint(hint)
    }];
    match provider {
        ProviderKind::Apns => {
            findings.extend(check_topic(&about, ios));
            findings.extend(check_environment(&about, ios, detail));
        }
        ProviderKind::WebPush => {
            let subject = view.config["subject"].as_str().unwrap_or_default();
            findings.push(check_subject(argument, &about, subject));
        }
        ProviderKind::Fcm | ProviderKind::Messenger | ProviderKind::Telegram => {}
    }
    findings
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
    use super::super::Status;
    use super::*;
    use crate::{AppStatus, IdentifierCount, OnCrash, Timestamp};

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

    const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";

    fn app(name: &str) -> App {
        App {
            id: ID.parse().unwrap(),
            name: name.to_owned(),
            language: "en".to_owned(),
            status: AppStatus::Active,
            on_crash: OnCrash::Repeat,
            created_at: Timestamp(1),
        }
    }

    #[test]
    fn an_ambiguous_name_is_replaced_by_the_id() {
        for (name, is_unique, label, argument) in [
            ("My shop", true, "My shop".to_owned(), "'My shop'"),
            ("Shop", false, format!("Shop ({ID})"), ID),
            ("Bob's", true, "Bob's".to_owned(), ID),
        ] {
            let named = AppName::new(&app(name), is_unique);
            assert_eq!((&*named.label, &*named.argument), (&*label, argument));
        }
        let arguments = AppName::of_all(&[app("Shop"), app("My shop"), app("Shop")]);
        let arguments: Vec<_> = arguments.iter().map(|name| name.argument.as_str()).collect();
        assert_eq!(arguments, [ID, "'My shop'", ID]);
    }

    #[test]
    fn devices_of_strangers_are_a_warning_at_their_limit() {
        let finding = |devices, max| {
            check_anonymous("Shop", AnonymousDevices { devices, max })
                .map(|finding| (finding.status(), finding.detail().to_owned()))
        };
        assert_eq!(finding(0, Some(10)), None);
        for (devices, max, status, detail) in [
            (1, None, Status::Ok, "1 device registered without an API key"),
            (
                9,
                Some(10),
                Status::Ok,
                "9 devices registered without an API key and accepted no \
                message yet; the server keeps 10 of them",
            ),
            (10, Some(10), Status::Warning, "which is the most that the server keeps"),
        ] {
            let (found, text) = finding(devices, max).unwrap();
            assert_eq!(found, status, "{devices}");
            assert!(text.contains(detail), "{text}");
        }
    }

    #[test]
    fn an_unknown_fact_is_a_failure_and_the_checks_that_need_it_are_left_out() {
        let provider = |provider, test| ProviderFacts {
            view: ProviderView {
                provider,
                config: serde_json::json!({"subject": "mailto:push@shop.io"}),
                updated_at: Timestamp(1),
                channel: None,
            },
            test,
        };
        let accepted =
            ProviderTestResult { ok: true, detail: "accepted".to_owned(), channel: None };
        let state = |providers| {
            let diagnostics = AppDiagnostics {
                ios: ios(0, &[]),
                channels: vec![],
                webhooks: vec![],
                feeds: vec![],
                expiring_keys: vec![],
                anonymous_devices: None,
            };
            Ok(AppState { diagnostics, providers })
        };
        let unavailable = || Unavailable::new("timeout");
        let unknown = |check: &'static str, about: &str| (check, about.to_owned(), Some("timeout"));
        let known = |check: &'static str, about: &str| (check, about.to_owned(), None);
        for (state, expected) in [
            (Err(unavailable()), vec![unknown("providers", "Shop")]),
            (state(vec![]), vec![known("providers", "Shop")]),
            (
                state(vec![
                    provider(ProviderKind::Apns, Err(unavailable())),
                    provider(ProviderKind::Fcm, Ok(accepted.clone())),
                    provider(ProviderKind::WebPush, Ok(accepted)),
                ]),
                vec![
                    unknown("credentials", "Shop apns"),
                    known("credentials", "Shop fcm"),
                    known("credentials", "Shop webpush"),
                    known("vapid", "Shop webpush"),
                ],
            ),
        ] {
            let app = app("Shop");
            let findings = check_app(&AppFacts { name: AppName::new(&app, true), app, state });
            let found = findings.iter().map(|finding| {
                let is_unknown = finding.hint() == Some("read the server's log");
                let detail = is_unknown.then(|| finding.detail());
                (finding.check(), finding.about().to_owned(), detail)
            });
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }
}
