//! Why a TLS connection to another server failed, in words for people. The words are fixed: they contain no text
//! of the other server, so that they can be shown to users who chose it.

use std::error::Error;
use std::{fmt, io};

use rustls::CertificateError;

/// Why a TLS connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsProblem {
    UnknownIssuer,
    Expired,
    NotValidYet,
    WrongName,
    Revoked,
    BadCertificate,
    /// The peer sent something that is not TLS.
    NotTls,
    /// The peer refused, for example because there is no common version.
    Handshake,
}

/// The beginning of each reason, before the words.
const REASON: &str = "tls_failed: ";

impl TlsProblem {
    /// The reason of an attempt that failed: a code, and the problem in words.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::UnknownIssuer => "tls_failed: the issuer of the certificate is not trusted",
            Self::Expired => "tls_failed: the certificate has expired",
            Self::NotValidYet => "tls_failed: the certificate is not valid yet",
            Self::WrongName => "tls_failed: the certificate is for another name",
            Self::Revoked => "tls_failed: the certificate was revoked",
            Self::BadCertificate => "tls_failed: the certificate is not valid",
            Self::NotTls => "tls_failed: the server does not speak TLS at this port",
            Self::Handshake => "tls_failed: the TLS handshake failed",
        }
    }

    /// The problem that an error is or contains; `None` if the error has another cause.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = error;
        loop {
            if let Some(error) = tls_error(cause) {
                return Some(Self::from(error));
            }
            cause = cause.source()?;
        }
    }

    /// Whether another trusted certificate would help.
    pub(crate) fn is_untrusted(self) -> bool {
        self == Self::UnknownIssuer
    }
}

/// The words alone.
impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason().trim_start_matches(REASON))
    }
}

impl From<&rustls::Error> for TlsProblem {
    fn from(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(problem) => match problem {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Self::Expired
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotValidYet
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
                CertificateError::Revoked => Self::Revoked,
                // A bad signature appears if an authority was recreated with the same name, as the sandbox
                // does. `Other` is the error for a CA certificate that is used as a server certificate.
                CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::Other(_) => Self::UnknownIssuer,
                _ => Self::BadCertificate,
            },
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            _ => Self::Handshake,
        }
    }
}

/// The TLS error that `cause` is or contains. An I/O error does not return the error inside it as `source`,
/// but with `get_ref`.
fn tls_error<'e>(cause: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some(error);
    }
    let io_error = cause.downcast_ref::<io::Error>()?;
    tls_error(io_error.get_ref()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_problem_is_found_inside_other_errors() {
        let certificate = |problem| rustls::Error::InvalidCertificate(problem);
        for (error, expected) in [
            (certificate(CertificateError::UnknownIssuer), TlsProblem::UnknownIssuer),
            (certificate(CertificateError::BadSignature), TlsProblem::UnknownIssuer),
            (certificate(CertificateError::Expired), TlsProblem::Expired),
            (certificate(CertificateError::NotValidYet), TlsProblem::NotValidYet),
            (certificate(CertificateError::NotValidForName), TlsProblem::WrongName),
            (certificate(CertificateError::Revoked), TlsProblem::Revoked),
            (certificate(CertificateError::BadEncoding), TlsProblem::BadCertificate),
            (
                rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
                TlsProblem::NotTls,
            ),
            (
                rustls::Error::AlertReceived(rustls::AlertDescription::HandshakeFailure),
                TlsProblem::Handshake,
            ),
        ] {
            let wrapped = io::Error::other(io::Error::other(error));
            assert_eq!(TlsProblem::of(&wrapped), Some(expected));
        }
        assert_eq!(TlsProblem::of(&io::Error::other("refused")), None);
    }
}
