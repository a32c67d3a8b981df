//! Values of a provider's configuration that name places: base URLs, the contact of a VAPID token, and
//! extra trusted roots.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::{Host, Url};

use super::pasted_key::certificates_pem;

/// An origin with an optional path prefix. It comes from an administrator, so it may be `http` and
/// private.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BaseUrl {
    /// Whether the connection uses TLS.
    pub tls: bool,
    /// Host to resolve and to verify, without the brackets of an IPv6 address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `host` or `host:port`, as requests contain it.
    pub authority: String,
    /// Prefix of every path. It is empty, or begins with `/` and does not end with `/`.
    pub prefix: String,
}

impl BaseUrl {
    /// Parses a base URL.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const RULE: &str = "must be an http or https origin with an optional path";
        let url = Url::parse(text).map_err(|_| RULE)?;
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(RULE),
        };
        let has_other_parts = url.query().is_some()
            || url.fragment().is_some()
            || !url.username().is_empty()
            || url.password().is_some();
        if has_other_parts {
            return Err("must not have a query, a fragment or credentials");
        }
        let host = match url.host().ok_or(RULE)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self {
            tls,
            host,
            port: url.port_or_known_default().ok_or(RULE)?,
            authority: url.authority().to_owned(),
            prefix: url.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Scheme and authority, as in `https://host:port`, without the prefix.
    #[must_use]
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority)
    }

    /// `http` or `https`.
    #[must_use]
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.origin(), self.prefix)
    }
}

// The `sub` of a VAPID token (RFC 8292 section 2.1), which names a contact. Apple's push service is the
// strictest: if the contact cannot be real, it refuses the token and with it every message.

/// Longest subject, in bytes. It is part of every token.
const SUBJECT_BYTES_MAX: usize = 255;
/// Longest label of a domain, in bytes (RFC 1035 section 2.3.4).
const LABEL_BYTES_MAX: usize = 63;
/// Top-level names that cannot be registered (RFC 2606, RFC 6761, RFC 6762).
const RESERVED_NAMES: [&str; 7] =
    ["localhost", "local", "localdomain", "internal", "invalid", "test", "example"];

const FORM_RULE: &str =
    "must be a mailto: address or an https: url, such as mailto:push@your-domain.com";
const DOMAIN_RULE: &str =
    "must name a real domain: Apple refuses localhost, reserved names and addresses";

/// Checks a subject.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn check_subject(text: &str) -> Result<(), &'static str> {
    if text.len() > SUBJECT_BYTES_MAX {
        return Err("must be at most 255 bytes");
    }
    if let Some(address) = text.strip_prefix("mailto:") {
        let (local, domain) = address.rsplit_once('@').ok_or(FORM_RULE)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
        if local.is_empty() || !local.chars().all(is_plain) {
            return Err(FORM_RULE);
        }
        return if can_be_registered(domain) { Ok(()) } else { Err(DOMAIN_RULE) };
    }
    if !text.starts_with("https://") || text.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(FORM_RULE);
    }
    let url = Url::parse(text).map_err(|_| FORM_RULE)?;
    match url.host() {
        Some(Host::Domain(domain)) if can_be_registered(domain) => Ok(()),
        Some(Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_)) => Err(DOMAIN_RULE),
        None => Err(FORM_RULE),
    }
}

/// Whether a domain can be registered.
fn can_be_registered(domain: &str) -> bool {
    let labels: Vec<&str> = domain.split('.').collect();
    let is_label = |label: &&str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let Some(top) = labels.last().map(|top| top.to_ascii_lowercase()) else { return false };
    labels.len() >= 2
        && labels.iter().all(is_label)
        && top.bytes().any(|byte| byte.is_ascii_alphabetic())
        && !RESERVED_NAMES.contains(&top.as_str())
}

// `ca_certificate`: roots that are trusted in addition to those of the system, for all connections of one
// provider.

/// Certificates that were checked to be usable as roots. Two values are equal if their texts are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExtraRoots {
    pem: Arc<str>,
}

impl ExtraRoots {
    /// Parses certificates in PEM form.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const RULE: &str = "must be certificates in PEM form";
        let pem =
            certificates_pem(text).map_err(|looks| format!("{RULE}; this looks like {looks}"))?;
        let roots = Self { pem: pem.into() };
        roots.add_to(&mut RootCertStore::empty()).map_err(|()| RULE)?;
        Ok(roots)
    }

    /// Adds the certificates to a store. Fails if the text is not PEM or a certificate cannot be a root.
    pub(crate) fn add_to(&self, store: &mut RootCertStore) -> Result<(), ()> {
        for certificate in CertificateDer::pem_slice_iter(self.pem.as_bytes()) {
            store.add(certificate.map_err(drop)?).map_err(drop)?;
        }
        Ok(())
    }

    /// The certificates. They are not secret.
    #[must_use]
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

impl std::fmt::Debug for ExtraRoots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtraRoots").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{DOMAIN_RULE, FORM_RULE, check_subject};

    #[test]
    fn vapid_subject_must_be_a_plausible_contact() {
        let rows = [
            ("mailto:push@shop.com", Ok(())),
            ("mailto:push+web@mail.shop.co.uk", Ok(())),
            ("mailto:push@xn--mnchen-3ya.de", Ok(())),
            ("mailto:admin@example.com", Ok(())),
            ("https://shop.com", Ok(())),
            ("https://shop.com/contact?about=push", Ok(())),
            ("https://shop.com:8443/contact", Ok(())),
            ("push@shop.com", Err(FORM_RULE)),
            ("MAILTO:push@shop.com", Err(FORM_RULE)),
            ("mailto:", Err(FORM_RULE)),
            ("mailto:shop.com", Err(FORM_RULE)),
            ("mailto: push@shop.com", Err(FORM_RULE)),
            ("mailto:@shop.com", Err(FORM_RULE)),
            ("mailto:<push@shop.com>", Err(FORM_RULE)),
            ("mailto:a@shop.com,b@shop.com", Err(FORM_RULE)),
            ("mailto:mailto:push@shop.com", Err(FORM_RULE)),
            ("mailto:push@shop.com\n", Err(DOMAIN_RULE)),
            ("mailto:push@shop.com?subject=x", Err(DOMAIN_RULE)),
            ("mailto:push@localhost", Err(DOMAIN_RULE)),
            ("mailto:push@host.local", Err(DOMAIN_RULE)),
            ("mailto:push@host.LOCAL", Err(DOMAIN_RULE)),
            ("mailto:push@shop.invalid", Err(DOMAIN_RULE)),
            ("mailto:push@shop.test", Err(DOMAIN_RULE)),
            ("mailto:push@shop.example", Err(DOMAIN_RULE)),
            ("mailto:push@shop", Err(DOMAIN_RULE)),
            ("mailto:push@.com", Err(DOMAIN_RULE)),
            ("mailto:push@shop..com", Err(DOMAIN_RULE)),
            ("mailto:push@shop.com.", Err(DOMAIN_RULE)),
            ("mailto:push@10.0.0.1", Err(DOMAIN_RULE)),
            ("mailto:push@[10.0.0.1]", Err(DOMAIN_RULE)),
            ("mailto:push@münchen.de", Err(DOMAIN_RULE)),
            ("https://localhost", Err(DOMAIN_RULE)),
            ("https://localhost:8080/x", Err(DOMAIN_RULE)),
            ("https://127.0.0.1/", Err(DOMAIN_RULE)),
            ("https://[::1]/", Err(DOMAIN_RULE)),
            ("https://shop", Err(DOMAIN_RULE)),
            ("https://", Err(FORM_RULE)),
            ("https:shop.com", Err(FORM_RULE)),
            ("https://shop.com/ x", Err(FORM_RULE)),
            ("http://shop.com", Err(FORM_RULE)),
            ("tel:+431", Err(FORM_RULE)),
            ("shop.com", Err(FORM_RULE)),
        ];
        for (subject, expected) in rows {
            assert_eq!(check_subject(subject), expected, "{subject}");
        }
        let long = format!("https://shop.com/{}", "x".repeat(300));
        assert_eq!(check_subject(&long), Err("must be at most 255 bytes"));
    }
}
