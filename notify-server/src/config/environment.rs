//! The environment variables that belong to Notify. A variable with a misspelled name would otherwise be ignored
//! without a word.

use std::ffi::OsString;

use super::load::CONFIG_VARIABLE;
use super::{MASTER_KEY_VARIABLE, MOVE_TO_VARIABLE, SETTINGS};
use crate::misspelt::nearest_name;

/// The end of the name of a variable that names the file with a secret.
pub(super) const FILE_SUFFIX: &str = "_FILE";
/// The beginning of every variable of Notify.
const PREFIX: &str = "NOTIFY_";
/// Most warnings.
const WARNINGS_MAX: usize = 20;
/// Longest name that a warning repeats, in characters.
const NAME_CHARS_MAX: usize = 80;

/// Variables that are not settings: of subcommands and of the command `notify`, and the socket of systemd
/// (`sd_notify(3)`).
const OTHERS: [&str; 10] = [
    CONFIG_VARIABLE,
    MASTER_KEY_VARIABLE,
    MOVE_TO_VARIABLE,
    "NOTIFY_URL",
    "NOTIFY_API_KEY",
    "NOTIFY_ADMIN_KEY",
    "NOTIFY_PROFILE",
    "NOTIFY_WEBHOOK_SECRET",
    "NOTIFY_CA_CERTIFICATE",
    "NOTIFY_SOCKET",
];
/// The beginnings of variables of tests and of scripts.
const TESTS: [&str; 9] = [
    "TEST_",
    "WRITE_DOCS",
    "SIMULATION_",
    "CRASH_",
    "PAIR_",
    "SCALE_",
    "STORM_",
    "PLAN_",
    "DIES_AT",
];

/// A warning for each variable that begins with `NOTIFY_` and is not known, except the variables that Kubernetes
/// and Docker make for a service or container named `notify` or `notify-…`.
#[must_use]
pub fn unknown_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let known = known_names();
    let mut unknown: Vec<String> = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| {
            name.to_ascii_uppercase().starts_with(PREFIX)
                && !known.contains(name)
                && !is_of_tests(name)
                && !is_of_a_service(name, &value.to_string_lossy())
        })
        .map(|(name, _)| warning(&name, &known))
        .collect();
    unknown.sort_unstable();
    let more = unknown.len().saturating_sub(WARNINGS_MAX);
    unknown.truncate(WARNINGS_MAX);
    if more > 0 {
        unknown.push(format!("{more} more environment variables are not known and are ignored"));
    }
    unknown
}

fn warning(name: &str, known: &[String]) -> String {
    let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
    let wanted = name.to_ascii_uppercase();
    let hint = nearest_name(&wanted, known.iter().map(String::as_str))
        .map_or_else(String::new, |known_name| format!("; did you mean {known_name}?"));
    format!("the environment variable {shown} is not known and is ignored{hint}")
}

fn known_names() -> Vec<String> {
    let mut names: Vec<String> = OTHERS.iter().map(ToString::to_string).collect();
    names.push(format!("{MOVE_TO_VARIABLE}{FILE_SUFFIX}"));
    for setting in SETTINGS {
        let variable = setting.variable();
        if setting.is_secret {
            names.push(format!("{variable}{FILE_SUFFIX}"));
        }
        names.push(variable);
        names.extend(setting.variable_alias());
    }
    names
}

fn is_of_tests(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    TESTS.iter().any(|beginning| rest.starts_with(beginning)) || rest.ends_with("_RUNS")
}

/// Whether Kubernetes or Docker made a variable for a service: `…_SERVICE_HOST`, `…_SERVICE_PORT`,
/// `…_SERVICE_PORT_HTTP`, `…_PORT` with a url, `…_PORT_8080_TCP` and what begins with it.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let is_port = |rest: &str| {
        let mut parts = rest.split('_');
        let number = parts.next().unwrap_or_default();
        !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || (name.ends_with("_PORT") && value.contains("://"))
        || name.match_indices("_PORT_").any(|(at, found)| is_port(&name[at + found.len()..]))
}

#[cfg(test)]
mod tests {
    use super::unknown_variables;

    #[test]
    fn unknown_variables_are_named_with_the_nearest_known_one() {
        let rows = [
            ("NOTIFY_LISTN", "1", Some("; did you mean NOTIFY_LISTEN?")),
            ("notify_listen", "1", Some("; did you mean NOTIFY_LISTEN?")),
            ("Notify_Database_Url", "1", Some("; did you mean NOTIFY_DATABASE_URL?")),
            ("NOTIFY_DATABSE_URL_FILE", "1", Some("; did you mean NOTIFY_DATABASE_URL_FILE?")),
            ("NOTIFY_PORT", "8080", Some("")),
            ("NOTIFY_LISTEN_FILE", "/run/secrets/x", Some("")),
            ("NOTIFY_WHATEVER", "x", Some("")),
            ("NOTIFY_LISTEN", "1", None),
            ("NOTIFY_DATABASE_URL_FILE", "/x", None),
            ("NOTIFY_MOVE_TO_FILE", "/x", None),
            ("NOTIFY_DELIVERY_CREDIT", "1", None),
            ("NOTIFY_MASTER_KEY", "x", None),
            ("NOTIFY_MASTER_KEY_FILE", "x", None),
            ("NOTIFY_CONFIG", "x", None),
            ("NOTIFY_API_KEY", "x", None),
            ("NOTIFY_SOCKET", "/run/systemd/notify", None),
            ("NOTIFY_TEST_BACKEND", "postgres", None),
            ("NOTIFY_PORT", "tcp://10.0.0.7:80", None),
            ("NOTIFY_SERVER_PORT", "tcp://10.0.0.7:80", None),
            ("NOTIFY_SERVICE_HOST", "10.0.0.7", None),
            ("NOTIFY_SERVER_SERVICE_HOST", "10.0.0.7", None),
            ("NOTIFY_SERVICE_PORT", "80", None),
            ("NOTIFY_SERVICE_PORT_HTTP", "80", None),
            ("NOTIFY_PORT_8080_TCP", "tcp://10.0.0.7:8080", None),
            ("NOTIFY_PORT_8080_TCP_ADDR", "10.0.0.7", None),
            ("NOTIFY_SERVER_PORT_443_UDP_PROTO", "udp", None),
            ("OTHER_LISTN", "1", None),
        ];
        for (name, value, expected) in rows {
            let warnings = unknown_variables([(name.into(), value.into())].into_iter());
            let expected = expected.map(|end| {
                format!("the environment variable {name} is not known and is ignored{end}")
            });
            assert_eq!(warnings, Vec::from_iter(expected), "{name}={value}");
        }
    }
}
