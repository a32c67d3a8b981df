//! `sub` of a VAPID token (RFC 8292 §2.1), as strictly as the strictest push service reads it:
//! Apple's refuses the token of a contact that cannot be real, and with it every message.

use url::{Host, Url};

/// Longest subject, in bytes: it is part of every token.
const SUBJECT_BYTES_MAX: usize = 255;
/// Longest label of a domain (RFC 1035 §2.3.4).
const LABEL_BYTES_MAX: usize = 63;
/// Top-level names that nobody can own (RFC 2606, RFC 6761, RFC 6762).
const NOT_REAL: [&str; 7] =
    ["localhost", "local", "localdomain", "internal", "invalid", "test", "example"];

const FORM: &str =
    "must be a mailto: address or an https: url, such as mailto:push@your-domain.com";
const DOMAIN: &str =
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
        let (local, domain) = address.rsplit_once('@').ok_or(FORM)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
        if local.is_empty() || !local.chars().all(is_plain) {
            return Err(FORM);
        }
        return if is_real(domain) { Ok(()) } else { Err(DOMAIN) };
    }
    if !text.starts_with("https://") || text.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(FORM);
    }
    let url = Url::parse(text).map_err(|_| FORM)?;
    match url.host() {
        Some(Host::Domain(domain)) if is_real(domain) => Ok(()),
        Some(Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_)) => Err(DOMAIN),
        None => Err(FORM),
    }
}

/// Whether a domain can be somebody's.
fn is_real(domain: &str) -> bool {
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
        && !NOT_REAL.contains(&top.as_str())
}

#[cfg(test)]
mod tests {
    use super::{DOMAIN, FORM, check_subject};

    #[test]
    fn a_subject_is_a_contact_that_can_be_real() {
        let rows = [
            ("mailto:push@shop.com", Ok(())),
            ("mailto:push+web@mail.shop.co.uk", Ok(())),
            ("mailto:push@xn--mnchen-3ya.de", Ok(())),
            ("mailto:admin@example.com", Ok(())),
            ("https://shop.com", Ok(())),
            ("https://shop.com/contact?about=push", Ok(())),
            ("https://shop.com:8443/contact", Ok(())),
            ("push@shop.com", Err(FORM)),
            ("MAILTO:push@shop.com", Err(FORM)),
            ("mailto:", Err(FORM)),
            ("mailto:shop.com", Err(FORM)),
            ("mailto: push@shop.com", Err(FORM)),
            ("mailto:@shop.com", Err(FORM)),
            ("mailto:<push@shop.com>", Err(FORM)),
            ("mailto:a@shop.com,b@shop.com", Err(FORM)),
            ("mailto:mailto:push@shop.com", Err(FORM)),
            ("mailto:push@shop.com\n", Err(DOMAIN)),
            ("mailto:push@shop.com?subject=x", Err(DOMAIN)),
            ("mailto:push@localhost", Err(DOMAIN)),
            ("mailto:push@host.local", Err(DOMAIN)),
            ("mailto:push@host.LOCAL", Err(DOMAIN)),
            ("mailto:push@shop.invalid", Err(DOMAIN)),
            ("mailto:push@shop.test", Err(DOMAIN)),
            ("mailto:push@shop.example", Err(DOMAIN)),
            ("mailto:push@shop", Err(DOMAIN)),
            ("mailto:push@.com", Err(DOMAIN)),
            ("mailto:push@shop..com", Err(DOMAIN)),
            ("mailto:push@shop.com.", Err(DOMAIN)),
            ("mailto:push@10.0.0.1", Err(DOMAIN)),
            ("mailto:push@[10.0.0.1]", Err(DOMAIN)),
            ("mailto:push@münchen.de", Err(DOMAIN)),
            ("https://localhost", Err(DOMAIN)),
            ("https://localhost:8080/x", Err(DOMAIN)),
            ("https://127.0.0.1/", Err(DOMAIN)),
            ("https://[::1]/", Err(DOMAIN)),
            ("https://shop", Err(DOMAIN)),
            ("https://", Err(FORM)),
            ("https:shop.com", Err(FORM)),
            ("https://shop.com/ x", Err(FORM)),
            ("http://shop.com", Err(FORM)),
            ("tel:+431", Err(FORM)),
            ("shop.com", Err(FORM)),
        ];
        for (subject, expected) in rows {
            assert_eq!(check_subject(subject), expected, "{subject}");
        }
        let long = format!("https://shop.com/{}", "x".repeat(300));
        assert_eq!(check_subject(&long), Err("must be at most 255 bytes"));
    }
}
