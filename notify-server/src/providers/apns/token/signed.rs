//! A token that was signed, and for how long it does.

use http::HeaderValue;
use notify_core::Timestamp;
use secrecy::ExposeSecret;

use super::{CLOCK_SET_MS_MAX, KEPT_AGE_MS_MAX, REFRESH_AGE_MS, REFRESH_AGE_MS_MIN};
use crate::clock::Reading;
use crate::providers::SignedToken;

/// A token that was signed.
pub(super) struct Signed {
    pub(super) bearer: HeaderValue,
    pub(super) at: Timestamp,
    /// How far the wall clock, which it bears the time of, was ahead of the servers'.
    wall_ahead_ms: i64,
}

impl Signed {
    /// `None` where the text is no token: it was kept by nobody of ours.
    pub(super) fn of(token: &SignedToken) -> Option<Self> {
        let mut bearer =
            HeaderValue::try_from(format!("bearer {}", token.text.expose_secret())).ok()?;
        bearer.set_sensitive(true);
        Some(Self { bearer, at: token.at, wall_ahead_ms: token.wall_ahead_ms })
    }

    /// Whether it is the one to send.
    pub(super) fn lasts(&self, at: Reading, is_frozen: bool) -> bool {
        let age_ms = at.now.ms_since(self.at);
        match is_frozen {
            true => age_ms < KEPT_AGE_MS_MAX,
            false => age_ms < REFRESH_AGE_MS && self.is_of_this_clock(at),
        }
    }

    /// Whether the wall clock goes as it did where and when it was signed.
    pub(super) fn is_of_this_clock(&self, at: Reading) -> bool {
        let clock_set_ms = at.wall.ms_since(at.now) - self.wall_ahead_ms;
        clock_set_ms.abs() <= CLOCK_SET_MS_MAX
    }

    /// Whether it is taken from another server in place of `own`. Behind one's own it comes only
    /// while it lasts long enough: Apple counts the changes of each connection.
    pub(super) fn fits(&self, at: Reading, own: Option<&Self>, is_frozen: bool) -> bool {
        let age_ms = at.now.ms_since(self.at);
        let age_ms_max = match (own, is_frozen) {
            (Some(_), _) => REFRESH_AGE_MS - REFRESH_AGE_MS_MIN,
            (None, true) => KEPT_AGE_MS_MAX,
            (None, false) => REFRESH_AGE_MS,
        };
        // One of the future was signed by a clock that was wrong.
        (-CLOCK_SET_MS_MAX..age_ms_max).contains(&age_ms)
            && self.is_of_this_clock(at)
            && own.is_none_or(|own| own.bearer != self.bearer)
    }
}
