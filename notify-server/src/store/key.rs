//! Internal primary keys. Callers of the API never see them. A key begins with the number of its
//! application, so that a database that splits tables by key range keeps the rows of an application
//! together in every table.
//!
//! ```text
//! device     0 | application (20 bits) | platform (3 bits) | sequence (40 bits)
//! any other  0 | application (20 bits) | count (43 bits)
//! ```
//!
//! The count of a table is shared by all applications. It grows with each row and is never reused,
//! so it orders the rows of all applications by age. Rows that were written before keys had the
//! prefix have zeros in its place. `sql::Insert` assigns the keys. The counters are in the table
//! `numbers` in SQLite, and in sequences in PostgreSQL.

use notify_core::Platform;

/// Number of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppNo(pub i64);

impl AppNo {
    /// The prefix of the keys of all rows of the application.
    #[must_use]
    pub fn key_prefix(self) -> i64 {
        debug_assert!((0..=APPS_MAX).contains(&self.0));
        self.0 << SEQ_BITS
    }

    /// The application of a key.
    #[must_use]
    pub fn from_key(number: i64) -> Self {
        Self(number >> SEQ_BITS)
    }
}

/// Number of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NotificationNo(pub i64);

/// Number of a dispatch: one notification on one platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DispatchNo(pub i64);

/// Number of a page of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageNo(pub i64);

/// Number of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserNo(pub i64);

/// Number of a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RetryNo(pub i64);

/// The most applications of an installation, since the prefix has 20 bits.
pub const APPS_MAX: i64 = (1 << APP_BITS) - 1;
const APP_BITS: u32 = 20;
const PLATFORM_BITS: u32 = 3;
const SEQUENCE_BITS: u32 = 40;
/// The number of bits of a key below the prefix.
pub const SEQ_BITS: u32 = PLATFORM_BITS + SEQUENCE_BITS;
/// The largest count of a table: a thousand rows a second for 278 years. The schema refuses larger
/// counts, and applications beyond [`APPS_MAX`].
pub const SEQ_MAX: i64 = (1 << SEQ_BITS) - 1;
/// The largest device sequence of an application: a trillion devices.
pub const SEQUENCE_MAX: i64 = (1 << SEQUENCE_BITS) - 1;

/// The key of a device: application, platform and sequence in one integer. The devices of a
/// platform of an application have adjacent keys.
///
/// Each application has its own device sequence. It grows with each new device and is never reused.
/// A device that changes its platform gets a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKey(pub i64);

impl DeviceKey {
    /// The key of a device. Sequences begin at 1; 0 gives the position before the first device.
    #[must_use]
    pub fn new(app: AppNo, platform: Platform, sequence: i64) -> Self {
        debug_assert!((0..=SEQUENCE_MAX).contains(&sequence));
        Self(app.key_prefix() | (platform_code(platform) << SEQUENCE_BITS) | sequence)
    }

    /// The position before the first device of a platform.
    #[must_use]
    pub fn before_first(app: AppNo, platform: Platform) -> Self {
        Self::new(app, platform, 0)
    }

    /// The application's number.
    #[must_use]
    pub fn app(self) -> AppNo {
        AppNo::from_key(self.0)
    }

    /// The platform.
    #[must_use]
    pub fn platform(self) -> Platform {
        platform_of((self.0 >> SEQUENCE_BITS) & ((1 << PLATFORM_BITS) - 1))
    }

    /// The sequence within the application.
    #[must_use]
    pub fn sequence(self) -> i64 {
        self.0 & SEQUENCE_MAX
    }
}

/// The code of a platform in keys and tables. Codes never change.
#[must_use]
pub fn platform_code(platform: Platform) -> i64 {
    match platform {
        Platform::Android => 0,
        Platform::Ios => 1,
        Platform::Web => 2,
        Platform::FbMessenger => 3,
        Platform::ChatApp => 4,
    }
}

/// The platform of a code.
///
/// # Panics
/// On a code that [`platform_code`] never returns, which means that other software wrote to the
/// database.
#[must_use]
pub fn platform_of(code: i64) -> Platform {
    Platform::ALL
        .into_iter()
        .find(|platform| platform_code(*platform) == code)
        .expect("platform codes in the database come from platform_code")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_key_gives_back_its_parts() {
        for app in [1, 77, APPS_MAX] {
            for platform in Platform::ALL {
                for sequence in [0, 1, 1_000_000, SEQUENCE_MAX] {
                    let key = DeviceKey::new(AppNo(app), platform, sequence);
                    assert!(key.0 >= 0);
                    let parts = (key.app(), key.platform(), key.sequence());
                    assert_eq!(parts, (AppNo(app), platform, sequence));
                }
            }
        }
    }

    #[test]
    fn a_number_gives_back_its_application() {
        for app in [1, 77, APPS_MAX] {
            for count in [1, 1_000_000, SEQ_MAX] {
                let number = AppNo(app).key_prefix() | count;
                assert!(number > 0);
                assert_eq!((AppNo::from_key(number), number & SEQ_MAX), (AppNo(app), count));
            }
        }
        assert_eq!(SEQ_MAX, 8_796_093_022_207, "as the migrations have it");
    }

    #[test]
    fn devices_of_one_platform_lie_together() {
        let last_android = DeviceKey::new(AppNo(5), Platform::Android, SEQUENCE_MAX);
        assert!(last_android < DeviceKey::before_first(AppNo(5), Platform::Ios));
        let last_of_app = DeviceKey::new(AppNo(5), Platform::ChatApp, SEQUENCE_MAX);
        assert!(last_of_app < DeviceKey::before_first(AppNo(6), Platform::Android));
    }
}
