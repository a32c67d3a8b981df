//! How near the end of a certificate is.

use notify_core::Timestamp;

/// How long before its end a certificate is warned about, in milliseconds: 14 days. Renewals by ACME
/// come 30 days before the end or earlier, so that one is overdue by then.
const WARNED_BEFORE_MS: i64 = 14 * 86_400_000;

/// The state of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    /// Its end is far, or unknown.
    Far,
    /// It ends within [`WARNED_BEFORE_MS`].
    Near,
    /// It has ended.
    Expired,
}

impl Expiry {
    pub(super) fn at(wall: Timestamp, not_after: Option<Timestamp>) -> Self {
        match not_after.map(|not_after| not_after.ms_since(wall)) {
            Some(left) if left < 0 => Self::Expired,
            Some(left) if left < WARNED_BEFORE_MS => Self::Near,
            Some(_) | None => Self::Far,
        }
    }
}

/// Warns about a certificate that ends soon or has ended.
pub(super) fn warn(wall: Timestamp, not_after: Option<Timestamp>) {
    let instant = not_after.and_then(|at| jiff::Timestamp::from_millisecond(at.0).ok());
    let not_after_text = instant.map(|at| at.to_string()).unwrap_or_default();
    match Expiry::at(wall, not_after) {
        Expiry::Far => {}
        Expiry::Near => tracing::warn!(
            not_after = not_after_text,
            "the TLS certificate expires within 14 days: renew it"
        ),
        Expiry::Expired => tracing::error!(
            not_after = not_after_text,
            "the TLS certificate has expired: clients refuse to connect"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_expiry_warns_from_14_days_before() {
        let wall = Timestamp(1_795_219_200_000);
        for (left, expected) in [
            (i64::MAX - wall.0, Expiry::Far),
            (WARNED_BEFORE_MS, Expiry::Far),
            (WARNED_BEFORE_MS - 1, Expiry::Near),
            (0, Expiry::Near),
            (-1, Expiry::Expired),
        ] {
            assert_eq!(Expiry::at(wall, Some(wall.plus_ms(left))), expected, "{left}");
        }
        assert_eq!(Expiry::at(wall, None), Expiry::Far);
    }
}
