//! Failures of commands: exit status and messages on stderr.

use std::{
    fmt::Display,
    io,
    path::{Path, PathBuf},
};

use notify_client::{Error, KeyKind, notify_core::ExpressionError};

// Exit statuses, as the help text lists them.

/// The command worked, but its result is negative: for example, a check failed.
const NEGATIVE: u8 = 1;
pub(crate) const USAGE: u8 = 2;
const REJECTED: u8 = 3;
const NOT_AUTHORISED: u8 = 4;
const NOT_FOUND: u8 = 5;
const FAILED: u8 = 6;
/// The HTTP status of a call for which the key lacks the scope.
const FORBIDDEN: u16 = 403;
/// The status that shells report for a command ended by SIGINT.
const INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments or the configuration are wrong.
    #[error("{0}")]
    Usage(String),
    /// A text is not a valid expression of an audience.
    #[error("{what}: {}", error.message)]
    Expression {
        /// The option or the file with the text.
        what: String,
        /// What is wrong, and where.
        error: ExpressionError,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The server responded that an id is unknown.
    #[error("not found: {0}")]
    NotFound(String),
    /// The command itself found that no resource has an id or a name.
    #[error("not found: {0}")]
    NoMatch(String),
    /// Rows of an import were refused.
    #[error("rows refused: {rows}{}", correction_hint(report.as_deref(), command))]
    RowsRefused {
        /// The number of refused rows.
        rows: u64,
        /// The file that contains the refused rows, if there is one.
        report: Option<PathBuf>,
        /// The command that imports the file of refused rows.
        command: String,
    },
    /// An import ended before the end of the file.
    #[error("stopped after line {line}{}", resume_hint(*resumable))]
    ImportStopped {
        /// The line up to which every row is finished.
        line: u64,
        /// Whether a state file contains that line.
        resumable: bool,
        /// The cause; `None` if the user interrupted the import.
        cause: Option<Box<Failure>>,
    },
    /// The watched notification ended with deliveries that were not sent.
    #[error("the notification ended with {failed} failed, {expired} expired, {canceled} canceled")]
    NotAllSent {
        /// Number of failed deliveries.
        failed: u64,
        /// Number of expired deliveries.
        expired: u64,
        /// Number of canceled deliveries.
        canceled: u64,
    },
    /// The watched notification was canceled before anything was sent.
    #[error("canceled before anything was sent")]
    CanceledUnsent,
    /// The watched notification has not ended within the time of `--wait`.
    #[error("{state}{why}; `notify watch {id}` continues to watch")]
    StillWaiting {
        /// The state of the notification.
        state: String,
        /// What it waits for, after a colon; empty if that is unknown.
        why: String,
        /// The id of the notification.
        id: String,
    },
    /// The canary of the watched notification failed. Has the id of the notification.
    #[error(
        "the canary failed, and the rest waits: `notify notifications resume {0}` sends it, and `notify \
         notifications cancel {0}` ends it"
    )]
    CanaryFailed(String),
    /// The user declined the confirmation.
    #[error("nothing was changed")]
    Declined,
    /// A resource with that name exists.
    #[error("{0}")]
    AlreadyExists(String),
    /// Campaigns of the files and of the server differ, and `--exit-code` was given. It has their number.
    #[error("campaigns that differ: {0}")]
    CampaignsDiffer(usize),
    /// A check failed.
    #[error("{0}")]
    CheckFailed(String),
    /// The address is not that of a Notify server.
    #[error("{0}")]
    ServerAddress(String),
    /// Errors in files, each with the name of its file.
    #[error("{}", .0.join("\n"))]
    Files(Vec<String>),
    /// A call failed.
    #[error("{0}")]
    Call(#[from] Error),
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// A file that cannot be read or written.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Expression { .. } | Self::File { .. } => USAGE,
            Self::NotFound(_) | Self::NoMatch(_) => NOT_FOUND,
            Self::Declined
            | Self::CampaignsDiffer(_)
            | Self::CheckFailed(_)
            | Self::NotAllSent { .. }
            | Self::CanceledUnsent
            | Self::StillWaiting { .. }
            | Self::CanaryFailed(_) => NEGATIVE,
            Self::AlreadyExists(_) | Self::RowsRefused { .. } | Self::Files(_) => REJECTED,
            Self::ServerAddress(_) => FAILED,
            Self::ImportStopped { cause, .. } => {
                cause.as_ref().map_or(INTERRUPTED, |cause| cause.status())
            }
            Self::Call(error) => call_status(error),
            // The program that reads the pipe has ended. That is not a failure of this command.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => FAILED,
        }
    }

    /// Converts the error of a call for one id. A 404 becomes `NotFound` with the id, because the response
    /// itself does not contain the id.
    pub(crate) fn unknown_id<E: Into<Self>, I: Display>(
        what: &str,
        id: &I,
    ) -> impl FnOnce(E) -> Self + use<E, I> {
        Self::not_found(format!("no {what} has the id `{id}`"))
    }

    /// Converts an error. A 404 from a Notify server becomes `NotFound` with this message.
    pub(crate) fn not_found<E: Into<Self>>(message: String) -> impl FnOnce(E) -> Self {
        move |error| match error.into() {
            Self::Call(error @ Error::NotFound { .. }) if !is_from_other_server(&error) => {
                Self::NotFound(message)
            }
            other => other,
        }
    }

    /// The messages for stderr, one for each error; `server` is the address that was called.
    pub(crate) fn lines(&self, server: Option<&str>) -> Vec<String> {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Vec::new(),
            Self::ImportStopped { cause, .. } => {
                let mut lines = cause.as_ref().map_or_else(Vec::new, |cause| cause.lines(server));
                lines.push(self.to_string());
                lines
            }
            Self::Files(lines) => lines.clone(),
            Self::Call(error) => call_lines(error, server.unwrap_or("the server")),
            Self::NotFound(_) => {
                let hint = server.and_then(path_of).map(|path| {
                    format!("; is `{path}` part of the server's address? --server changes it")
                });
                vec![format!("{self}{}", hint.unwrap_or_default())]
            }
            _ => vec![self.to_string()],
        }
    }
}

impl Failure {
    /// The lines below the message: the line of an expression, and a mark below the position of the error.
    pub(crate) fn place(&self) -> Vec<String> {
        let Self::Expression { error, .. } = self else { return Vec::new() };
        error.to_string().lines().take(2).map(|line| format!("  {line}")).collect()
    }
}

fn resume_hint(resumable: bool) -> &'static str {
    if resumable { "; run the same command again to continue from there" } else { "" }
}

fn correction_hint(report: Option<&Path>, command: &str) -> String {
    report.map_or_else(String::new, |report| {
        let argument = shell_quoted(report);
        format!("; correct them in {}, then run `{command} {argument}`", report.display())
    })
}

/// The path as an argument in a shell: in quotes if it needs them.
pub(crate) fn shell_quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:,@%".contains(letter);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

/// The exit status of a failed call. A request that the client refuses as invalid has the same status as
/// one that the server rejected.
fn call_status(error: &Error) -> u8 {
    match error {
        error if is_from_other_server(error) => FAILED,
        Error::Config { .. } | Error::MissingKey(_) => USAGE,
        Error::Invalid(_) => REJECTED,
        Error::Rejected { status: 429, .. } => FAILED,
        Error::Rejected { status: FORBIDDEN, .. } => NOT_AUTHORISED,
        Error::Rejected { .. } => REJECTED,
        Error::WrongKey(_) | Error::Unauthorized { .. } => NOT_AUTHORISED,
        Error::NotFound { .. } => NOT_FOUND,
        // Includes future variants: the enum is `non_exhaustive`.
        _ => FAILED,
    }
}

/// The messages of a failed call: the rules that the request breaks, or the error with a hint.
fn call_lines(error: &Error, server: &str) -> Vec<String> {
    if let Some(mut rules) = broken_rules(error) {
        if let (Some(last), true) = (rules.last_mut(), is_from_other_server(error)) {
            last.push_str(&not_notify_hint(server));
        }
        return rules;
    }
    match error {
        Error::MissingKey(KeyKind::Admin) => {
            vec!["no admin key: set NOTIFY_ADMIN_KEY or store one in a profile".to_owned()]
        }
        Error::MissingKey(KeyKind::Api) => {
            vec!["no API key: set NOTIFY_API_KEY or store one in a profile".to_owned()]
        }
        Error::WrongKey(KeyKind::Admin) => {
            vec![format!("{error}: set NOTIFY_ADMIN_KEY or the admin key of the profile")]
        }
        Error::WrongKey(KeyKind::Api) => {
            vec![format!("{error}: set NOTIFY_API_KEY or the API key of the profile")]
        }
        error if is_from_other_server(error) => vec![format!("{error}{}", not_notify_hint(server))],
        Error::NotFound { call, .. } => {
            let hint = match path_of(server) {
                Some(path) => format!("is `{path}` part of its address?"),
                None if call.contains("/admin/") => {
                    "does it have an address of its own for the admin API (--admin-listen)?"
                        .to_owned()
                }
                None => "is it older than this command?".to_owned(),
            };
            vec![format!("not found: {server} has no endpoint {call}; {hint}")]
        }
        Error::Unauthorized { errors, .. } if errors.iter().any(|text| says_why(text)) => {
            vec![error.to_string()]
        }
        Error::Unauthorized { .. } => vec![format!(
            "{error}; does the key belong to {server} and its data folder, and is its application \
             active?"
        )],
        Error::Connect { .. } if is_plain_http_response(error) => {
            vec![format!(
                "cannot connect to {server}: the server does not use TLS; does it serve http://?"
            )]
        }
        Error::Connect { .. } => {
            let proxy = notify_client::proxy_of(server);
            let through = proxy
                .as_ref()
                .map_or_else(String::new, |proxy| format!(" (through the proxy {proxy})"));
            vec![match (tls_problem(&root_cause(error)), proxy) {
                (Some(problem), _) => format!("cannot connect to {server}{through}: {problem}"),
                (None, Some(_)) => format!(
                    "{error}; HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names the proxy, and NO_PROXY lists the \
                     hosts that are reached without it"
                ),
                (None, None) => format!(
                    "{error}; is the server running? NOTIFY_URL, --server or a profile sets its address"
                ),
            }]
        }
        Error::Timeout { .. } => vec![format!("{error}; --timeout SECONDS waits longer")],
        Error::Transport { .. } if is_tls_response(error) => {
            vec![format!("{error}; does it serve https://?")]
        }
        Error::Decode { .. } => vec![format!("{error}{}", not_notify_hint(server))],
        _ => vec![error.to_string()],
    }
}

/// Whether the text of a 401 says more than that the key is not valid.
fn says_why(text: &str) -> bool {
    !text.starts_with("missing or invalid") || text.contains(": ")
}

/// Whether the error is a response of a server that is not a Notify server. All responses of a Notify server
/// have a request id.
fn is_from_other_server(error: &Error) -> bool {
    error.status().is_some() && error.request_id().is_none()
}

/// The path of an address, if it has one.
fn path_of(server: &str) -> Option<&str> {
    let (_, rest) = server.split_once("://")?;
    let path = &rest[rest.find('/')?..];
    Some(path.trim_end_matches('/')).filter(|path| !path.is_empty())
}

fn not_notify_hint(server: &str) -> String {
    match notify_client::proxy_of(server) {
        Some(proxy) => format!(
            "; did the proxy {proxy} answer (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY), or is {server} no Notify server?"
        ),
        None => format!("; is {server} a Notify server?"),
    }
}

/// Whether the response to a TLS handshake is not TLS. The server then probably serves plain http.
fn is_plain_http_response(error: &Error) -> bool {
    // The messages of rustls and of OpenSSL.
    let cause = root_cause(error);
    cause.contains("InvalidContentType") || cause.contains("wrong version number")
}

/// What is wrong with TLS, in words, for the innermost cause of a connection that failed. The causes of rustls
/// contain the names of its errors.
fn tls_problem(cause: &str) -> Option<&'static str> {
    const PROBLEMS: [(&[&str], &str); 8] = [
        (
            &["CaUsedAsEndEntity"],
            "its TLS certificate is that of an authority, which a server cannot use: create a \
             certificate for the server that this authority signs",
        ),
        (
            &["UnknownIssuer", "SelfSigned", "self-signed", "unable to get local issuer"],
            "no authority that this machine trusts has signed its TLS certificate; --ca-certificate FILE \
             or NOTIFY_CA_CERTIFICATE names an authority to trust",
        ),
        (
            &["NotValidForName", "not valid for name"],
            "its TLS certificate is for another name: use the name in the certificate as the address",
        ),
        (
            &["NotValidYet", "not valid yet", "not yet valid"],
            "its TLS certificate is not valid yet; is the clock of this machine right?",
        ),
        (
            &["Expired", "certificate expired", "has expired"],
            "its TLS certificate has expired; is the clock of this machine right?",
        ),
        (&["invalid peer certificate"], "its TLS certificate is not valid"),
        (
            &["HandshakeFailure", "ProtocolVersion", "PeerIncompatible", "peer is incompatible"],
            "the server and this command have no version or cipher of TLS in common",
        ),
        (
            &["handshake eof"],
            "the server ended the connection instead of using TLS; does it serve http://?",
        ),
    ];
    let is_in_cause = |(texts, _): &&(&[&str], &str)| texts.iter().any(|text| cause.contains(text));
    PROBLEMS.iter().find(is_in_cause).map(|(_, problem)| *problem)
}

/// Whether the response to a plain http request is not HTTP. The response is then probably a TLS alert.
fn is_tls_response(error: &Error) -> bool {
    root_cause(error).contains("invalid HTTP version")
}

/// The rules that a request breaks, if that is why it failed.
pub(crate) fn broken_rules(error: &Error) -> Option<Vec<String>> {
    match error {
        Error::Invalid(violations) => Some(violations.as_slice().to_vec()),
        Error::Rejected { errors, .. } if !errors.is_empty() => Some(errors.clone()),
        _ => None,
    }
}

/// The innermost cause. The outer causes only name layers.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.last().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_exit_status() {
        let rejected = |status| Error::Rejected {
            status,
            errors: Vec::new(),
            request_id: Some("request".to_owned()),
            retry_after: None,
        };
        let id = || Some("request".to_owned());
        let failed = |status| Error::Server {
            status,
            errors: Vec::new(),
            request_id: id(),
            retry_after: None,
        };
        let refused = Error::Connect { origin: "http://a".to_owned(), source: "refused".into() };
        let rows: [(Failure, u8); 22] = [
            (Failure::Declined, 1),
            (Failure::CampaignsDiffer(2), 1),
            (Failure::AlreadyExists(String::new()), 3),
            (Failure::NotAllSent { failed: 1, expired: 0, canceled: 0 }, 1),
            (Failure::CanceledUnsent, 1),
            (Failure::CanaryFailed(String::new()), 1),
            (Failure::CheckFailed(String::new()), 1),
            (Failure::Usage(String::new()), 2),
            (Failure::file("f")(io::Error::from(io::ErrorKind::NotFound)), 2),
            (Error::MissingKey(KeyKind::Api).into(), 2),
            (rejected(400).into(), 3),
            (rejected(409).into(), 3),
            (Failure::RowsRefused { rows: 1, report: None, command: String::new() }, 3),
            (Error::Unauthorized { errors: Vec::new(), request_id: id() }.into(), 4),
            (Error::WrongKey(KeyKind::Admin).into(), 4),
            (
                Error::NotFound { call: String::new(), errors: Vec::new(), request_id: id() }
                    .into(),
                5,
            ),
            // Not from a Notify server, whose responses all have a request id.
            (
                Error::NotFound { call: String::new(), errors: Vec::new(), request_id: None }
                    .into(),
                6,
            ),
            (Failure::ServerAddress(String::new()), 6),
            (rejected(429).into(), 6),
            (failed(503).into(), 6),
            (refused.into(), 6),
            (Failure::Output(io::Error::from(io::ErrorKind::BrokenPipe)), 0),
        ];
        for (failure, status) in rows {
            assert_eq!(failure.status(), status, "{failure:?}");
        }
    }

    /// The causes are texts of rustls.
    #[test]
    fn tls_errors_are_told_in_words() {
        for (cause, words) in [
            ("invalid peer certificate: UnknownIssuer", "no authority that this machine trusts"),
            (
                "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))",
                "is that of an authority, which a server cannot use",
            ),
            (
                "invalid peer certificate: certificate not valid for name \"a\"; certificate is only valid \
                 for DnsName(\"b\")",
                "is for another name",
            ),
            ("invalid peer certificate: NotValidForName", "is for another name"),
            (
                "invalid peer certificate: certificate not valid yet: verification time 1 (UNIX), but \
                 certificate is not valid before 2",
                "is not valid yet",
            ),
            (
                "invalid peer certificate: certificate expired: verification time 2 (UNIX), but \
                 certificate is not valid after 1",
                "has expired",
            ),
            ("invalid peer certificate: BadSignature", "is not valid"),
            ("received fatal alert: HandshakeFailure", "no version or cipher of TLS in common"),
            ("tls handshake eof", "does it serve http://?"),
        ] {
            let problem = tls_problem(cause).unwrap();
            assert!(problem.contains(words), "{cause}: {problem}");
            let source = io::Error::other(cause).into();
            let error = Error::Connect { origin: "https://localhost".to_owned(), source };
            let line = format!("cannot connect to https://localhost: {problem}");
            assert_eq!(Failure::from(error).lines(Some("https://localhost")), [line]);
        }
        assert_eq!(tls_problem("Connection refused (os error 111)"), None);
    }

    #[test]
    fn a_path_is_quoted_for_the_shell_if_necessary() {
        for (path, expected) in [
            ("devices.csv", "devices.csv"),
            ("/a/b-1_2.csv.gz", "/a/b-1_2.csv.gz"),
            ("my devices.csv", "'my devices.csv'"),
            ("~/a.csv", "'~/a.csv'"),
            ("$(a);b", "'$(a);b'"),
            ("Ada's.csv", "'Ada'\\''s.csv'"),
            ("", "''"),
        ] {
            assert_eq!(shell_quoted(Path::new(path)), expected);
        }
    }
}
