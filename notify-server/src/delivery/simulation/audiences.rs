//! Users, and the conditions of audiences. This model decides which devices meet a condition
//! independently of the server.

use notify_core::Audience;

use super::devices::State;
use super::requests::TAG;

/// The users that devices are logged in as.
pub(super) const USERS: [&str; 4] = ["ada", "bob", "cleo", "dan"];
/// The id of a user who does not exist.
pub(super) const UNKNOWN_USER: &str = "unknown";

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

    /// The condition as a caller writes it.
    pub(super) fn audience(self) -> Audience {
        let tagged = Audience::tag(TAG);
        match self {
            Self::NotTagged => tagged.negate(),
            Self::LoggedIn => Audience::has_user(true),
            Self::TaggedOrLoggedOut => tagged.or(Audience::has_user(false)),
            Self::TaggedAndLoggedIn => tagged.and(Audience::has_user(true)),
        }
    }

    /// Whether a device meets the condition.
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
