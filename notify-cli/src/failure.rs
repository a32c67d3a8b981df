//! Why a command failed: its exit status and its lines on stderr. Never a stack trace.

use std::{
    fmt::Display,
    io,
    path::{Path, PathBuf},
};

use notify_client::{Error, KeyKind};

/// Exit status of a check that found something wrong.
const UNWELL: u8 = 1;
/// Exit status of wrong usage.
pub(crate) const USAGE: u8 = 2;
/// What was watched ended, and not as it was meant to.
const NOT_ALL_SENT: u8 = 1;
/// A question was not answered with yes.
const DECLINED: u8 = 1;
/// What was compared is not the same.
const DIFFERENT: u8 = 1;
const REJECTED: u8 = 3;
const NOT_AUTHORISED: u8 = 4;
const NOT_FOUND: u8 = 5;
const FAILED: u8 = 6;
/// What shells report for a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command was called in a way that cannot work.
    #[error("{0}")]
    Usage(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The server answered that an id names nothing.
    #[error("not found: {0}")]
    NotFound(String),
    /// The command itself found that an id or a name names nothing: the server was not asked, or it
    /// answered.
    #[error("not found: {0}")]
    Missing(String),
    /// Rows of an import were refused; the report says which.
    #[error("rows refused: {rows}{}", what_to_correct(report.as_deref(), command))]
    RowsRefused {
        /// How many.
        rows: u64,
        /// Where they are, if in a file.
        report: Option<PathBuf>,
        /// What takes that file.
        command: &'static str,
    },
    /// An import ended early.
    #[error("stopped after line {line}{}", how_to_go_on(*resumable))]
    Stopped {
        /// The last line up to which every row is settled.
        line: u64,
        /// Whether a state file says so too.
        resumable: bool,
        /// What stopped it; `None` when the user did.
        cause: Option<Box<Failure>>,
    },
    /// What was watched ended, and not as it was meant to.
    #[error("the notification ended with {failed} failed, {expired} expired, {canceled} canceled")]
    NotAllSent {
        /// Deliveries that failed.
        failed: u64,
        /// Deliveries whose time was over.
        expired: u64,
        /// Deliveries that were canceled.
        canceled: u64,
    },
    /// It was canceled before anything was sent.
    #[error("canceled before anything was sent")]
    CanceledBefore,
    /// A question was not answered with yes.
    #[error("nothing was changed")]
    Declined,
    /// What is to be made is there already.
    #[error("{0}")]
    Taken(String),
    /// Files and server differ, which the command was asked to report.
    #[error("campaigns that differ: {0}")]
    Differing(usize),
    /// A check found a problem; the result has the details.
    #[error("{0}")]
    Unwell(String),
    /// The address is not that of a server.
    #[error("{0}")]
    Address(String),
    /// Files, or what they are compared with, break rules; each line names its file.
    #[error("{}", .0.join("\n"))]
    Files(Vec<String>),
    /// The call failed.
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

    /// The exit status, as `docs/cli.md` lists them.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::File { .. } => USAGE,
            Self::NotFound(_) | Self::Missing(_) => NOT_FOUND,
            Self::Declined => DECLINED,
            Self::Differing(_) => DIFFERENT,
            Self::Taken(_) => REJECTED,
            Self::Unwell(_) => UNWELL,
            Self::Address(_) => FAILED,
            Self::RowsRefused { .. } | Self::Files(_) => REJECTED,
            Self::NotAllSent { .. } | Self::CanceledBefore => NOT_ALL_SENT,
            Self::Stopped { cause, .. } => cause.as_ref().map_or(INTERRUPTED, |it| it.status()),
            Self::Call(error) => call_status(error),
            // Whoever reads the result has read enough.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => FAILED,
        }
    }

    /// The failure of a call that takes one id: which one it is that names nothing, since the server
    /// says of it no more than that.
    pub(crate) fn of_id<E: Into<Self>, I: Display>(
        what: &str,
        id: &I,
    ) -> impl FnOnce(E) -> Self + use<E, I> {
        Self::when_not_found(format!("no {what} has the id `{id}`"))
    }

    /// Turns a 404 of a Notify server into `NotFound` with this text.
    pub(crate) fn when_not_found<E: Into<Self>>(unknown: String) -> impl FnOnce(E) -> Self {
        move |error| match error.into() {
            Self::Call(error @ Error::NotFound { .. }) if !is_foreign(&error) => {
                Self::NotFound(unknown)
            }
            other => other,
        }
    }

    /// What to say on stderr, one error a line; `server` is the address that was called.
    pub(crate) fn lines(&self, server: Option<&str>) -> Vec<String> {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Vec::new(),
            Self::Stopped { cause, .. } => {
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
            Self::Usage(_)
            | Self::Missing(_)
            | Self::File { .. }
            | Self::Declined
            | Self::Taken(_)
            | Self::Differing(_)
            | Self::RowsRefused { .. }
            | Self::NotAllSent { .. }
            | Self::CanceledBefore
            | Self::Unwell(_)
            | Self::Address(_)
            | Self::Output(_) => vec![self.to_string()],
        }
    }
}

fn how_to_go_on(resumable: bool) -> &'static str {
    if resumable { "; run the same command again to continue from there" } else { "" }
}

fn what_to_correct(report: Option<&Path>, command: &str) -> String {
    report.map_or_else(String::new, |report| {
        let report = report.display();
        format!("; correct them in {report}, then run `{command} {report}`")
    })
}

/// The status of a failed call. What the client finds wrong the server would reject likewise.
fn call_status(error: &Error) -> u8 {
    match error {
        error if is_foreign(error) => FAILED,
        Error::Config { .. } | Error::MissingKey(_) => USAGE,
        Error::Invalid(_) => REJECTED,
        Error::Rejected { status: 429, .. } => FAILED,
        Error::Rejected { .. } => REJECTED,
        Error::WrongKey(_) | Error::Unauthorized { .. } => NOT_AUTHORISED,
        Error::NotFound { .. } => NOT_FOUND,
        // The error is `non_exhaustive`: what is new is the network's or the server's.
        _ => FAILED,
    }
}

/// The rules that a request breaks, one a line; of other failures where, why, and what to do.
fn call_lines(error: &Error, server: &str) -> Vec<String> {
    if let Some(mut rules) = broken_rules(error) {
        if let (Some(last), true) = (rules.last_mut(), is_foreign(error)) {
            last.push_str(&is_it_notify(server));
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
            vec![format!("{error}: set NOTIFY_ADMIN_KEY, or that of the profile, to one")]
        }
        Error::WrongKey(KeyKind::Api) => {
            vec![format!("{error}: set NOTIFY_API_KEY, or that of the profile, to one")]
        }
        error if is_foreign(error) => vec![format!("{error}{}", is_it_notify(server))],
        Error::NotFound { call, .. } => {
            let why = match path_of(server) {
                Some(path) => format!("is `{path}` part of its address?"),
                None => "is it older than this command?".to_owned(),
            };
            vec![format!("not found: {server} does not know {call}; {why}")]
        }
        Error::Unauthorized { .. } => vec![format!(
            "{error}; does the key belong to {server} and its data folder, and is its application \
             active?"
        )],
        Error::Connect { .. } if speaks_no_tls(error) => {
            vec![format!("cannot connect to {server}: it speaks no TLS; does it serve http://?")]
        }
        Error::Connect { .. } => vec![format!(
            "{error}; is the server running? NOTIFY_URL, --server or a profile sets its address"
        )],
        Error::Timeout { .. } => vec![format!("{error}; --timeout SECONDS waits longer")],
        Error::Transport { .. } if speaks_no_http(error) => {
            vec![format!("{error}; does it serve https://?")]
        }
        Error::Decode { .. } => vec![format!("{error}{}", is_it_notify(server))],
        _ => vec![error.to_string()],
    }
}

/// Whether the answer is not one of a Notify server: each of those has a request id (B3).
fn is_foreign(error: &Error) -> bool {
    error.status().is_some() && error.request_id().is_none()
}

/// The path of an address, where it has one: most servers are reached without.
fn path_of(server: &str) -> Option<&str> {
    let (_, rest) = server.split_once("://")?;
    let path = &rest[rest.find('/')?..];
    Some(path.trim_end_matches('/')).filter(|path| !path.is_empty())
}

fn is_it_notify(server: &str) -> String {
    format!("; is {server} a Notify server?")
}

/// Whether what answered the TLS handshake is no TLS, but likely http.
fn speaks_no_tls(error: &Error) -> bool {
    // As rustls and as OpenSSL say it.
    let cause = root_cause(error);
    cause.contains("InvalidContentType") || cause.contains("wrong version number")
}

/// Whether what answered is no HTTP, but likely an alert of TLS.
fn speaks_no_http(error: &Error) -> bool {
    root_cause(error).contains("invalid HTTP version")
}

/// The rules that a request breaks, when that is why it failed.
pub(crate) fn broken_rules(error: &Error) -> Option<Vec<String>> {
    match error {
        Error::Invalid(violations) => Some(violations.as_slice().to_vec()),
        Error::Rejected { errors, .. } if !errors.is_empty() => Some(errors.clone()),
        _ => None,
    }
}

/// The last cause: what is before it says in which layer, which helps nobody.
fn root_cause(error: &dyn std::error::Error) -> String {
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
        let rows: [(Failure, u8); 21] = [
            (Failure::Declined, 1),
            (Failure::Differing(2), 1),
            (Failure::Taken(String::new()), 3),
            (Failure::NotAllSent { failed: 1, expired: 0, canceled: 0 }, 1),
            (Failure::CanceledBefore, 1),
            (Failure::Unwell(String::new()), 1),
            (Failure::Usage(String::new()), 2),
            (Failure::file("f")(io::Error::from(io::ErrorKind::NotFound)), 2),
            (Error::MissingKey(KeyKind::Api).into(), 2),
            (rejected(400).into(), 3),
            (rejected(409).into(), 3),
            (Failure::RowsRefused { rows: 1, report: None, command: "" }, 3),
            (Error::Unauthorized { errors: Vec::new(), request_id: id() }.into(), 4),
            (Error::WrongKey(KeyKind::Admin).into(), 4),
            (
                Error::NotFound { call: String::new(), errors: Vec::new(), request_id: id() }
                    .into(),
                5,
            ),
            // No server of ours: each of its answers has an id.
            (
                Error::NotFound { call: String::new(), errors: Vec::new(), request_id: None }
                    .into(),
                6,
            ),
            (Failure::Address(String::new()), 6),
            (rejected(429).into(), 6),
            (failed(503).into(), 6),
            (refused.into(), 6),
            (Failure::Output(io::Error::from(io::ErrorKind::BrokenPipe)), 0),
        ];
        for (failure, status) in rows {
            assert_eq!(failure.status(), status, "{failure:?}");
        }
    }
}
