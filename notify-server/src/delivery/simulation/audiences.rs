//! Users, and the conditions of audiences. What a device must meet is decided here again, apart from
//! the server.

use notify_core::Audience;

use super::devices::State;
use super::requests::TAG;

/// The users that devices are logged in as.
pub(super) const USERS: [&str; 4] = ["ada", "bob", "cleo", "dan"];
/// A user that no device is logged in as.
pub(super) const NOBODY: &str = "nobody";

/// The condition of an audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AudienceKind {
    NotTagged,
    LoggedIn,
    TaggedOrLoggedOut,
    TaggedAndLoggedIn,
}

impl AudienceKind {
    pub(super) fn random(rng: &mut fastrand::Rng) -> Self {
        match rng.u8(0..4) {
            0 => Self::NotTagged,
            1 => Self::LoggedIn,
            2 => Self::TaggedOrLoggedOut,
            _ => Self::TaggedAndLoggedIn,
        }
    }

    /// As a caller writes it.
    pub(super) fn audience(self) -> Audience {
        let tagged = Audience::tag(TAG);
        match self {
            Self::NotTagged => tagged.negate(),
            Self::LoggedIn => Audience::has_user(true),
            Self::TaggedOrLoggedOut => tagged.or(Audience::has_user(false)),
            Self::TaggedAndLoggedIn => tagged.and(Audience::has_user(true)),
        }
    }

    /// Whether a device meets it.
    pub(super) fn includes(self, device: &State) -> bool {
        let (is_tagged, is_logged_in) = (device.tag == Some(true), device.user.is_some());
        match self {
            Self::NotTagged => !is_tagged,
            Self::LoggedIn => is_logged_in,
            Self::TaggedOrLoggedOut => is_tagged || !is_logged_in,
            Self::TaggedAndLoggedIn => is_tagged && is_logged_in,
        }
    }
}
