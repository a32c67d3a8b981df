//! The integers that rows are known by inside; none of them is ever shown to a caller. The application
//! leads each of them, so that an engine which splits tables by ranges of their keys has the rows of an
//! application together, in every table.
//!
//! ```text
//! device     0 | application (20 bits) | platform (3 bits) | sequence (40 bits)
//! any other  0 | application (20 bits) | count (43 bits)
//! ```
//!
//! The count is the table's, over all applications: it grows with each row and is never given twice, so
//! that it tells which of two rows is older, whoever owns them. Rows from before the application led have
//! zeros in its place. `sql::Insert` gives a row its number; `numbers` in the schema of SQLite, and the
//! sequences of PostgreSQL, hold the counts.

use notify_core::Platform;

/// Number of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppNo(pub i64);

impl AppNo {
    /// What every key and number of its rows begins with.
    #[must_use]
    pub fn lead(self) -> i64 {
        debug_assert!((0..=APPS_MAX).contains(&self.0));
        self.0 << COUNT_BITS
    }

    /// The application that leads a key or number.
    #[must_use]
    pub fn leading(number: i64) -> Self {
        Self(number >> COUNT_BITS)
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

/// Number of a delivery that is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RetryNo(pub i64);

/// Most applications of one installation: their number has 20 bits.
pub const APPS_MAX: i64 = (1 << APP_BITS) - 1;
const APP_BITS: u32 = 20;
const PLATFORM_BITS: u32 = 3;
const SEQUENCE_BITS: u32 = 40;
/// Bits of a key or number below its application's.
pub const COUNT_BITS: u32 = PLATFORM_BITS + SEQUENCE_BITS;
/// Last count of a table: a thousand rows a second for 278 years. The schema refuses a later one, and
/// an application whose number has more than its bits.
pub const COUNT_MAX: i64 = (1 << COUNT_BITS) - 1;
/// Last sequence number of a device: a trillion registrations of new devices an application.
pub const SEQUENCE_MAX: i64 = (1 << SEQUENCE_BITS) - 1;

/// Key of a device: application, platform and sequence in one integer, in that order, so that the
/// devices of one platform of one application lie together.
///
/// The sequence is the application's: it grows with each device made and is never given twice. A
/// device that changes its platform takes a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKey(pub i64);

impl DeviceKey {
    /// The key of that device. `sequence` is 1 or more; 0 gives the place before the first one.
    #[must_use]
    pub fn new(app: AppNo, platform: Platform, sequence: i64) -> Self {
        debug_assert!((0..=SEQUENCE_MAX).contains(&sequence));
        Self(app.lead() | (platform_code(platform) << SEQUENCE_BITS) | sequence)
    }

    /// The place before the first device of a platform.
    #[must_use]
    pub fn before_first(app: AppNo, platform: Platform) -> Self {
        Self::new(app, platform, 0)
    }

    /// The application's number.
    #[must_use]
    pub fn app(self) -> AppNo {
        AppNo::leading(self.0)
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

/// How a platform is written in keys and tables. Never renumbered.
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

/// The platform of that code.
///
/// # Panics
/// On a code that [`platform_code`] never gave: the database was written by something else.
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
            for count in [1, 1_000_000, COUNT_MAX] {
                let number = AppNo(app).lead() | count;
                assert!(number > 0);
                assert_eq!((AppNo::leading(number), number & COUNT_MAX), (AppNo(app), count));
            }
        }
        assert_eq!(COUNT_MAX, 8_796_093_022_207, "as the migrations have it");
    }

    #[test]
    fn devices_of_one_platform_lie_together() {
        let last_android = DeviceKey::new(AppNo(5), Platform::Android, SEQUENCE_MAX);
        assert!(last_android < DeviceKey::before_first(AppNo(5), Platform::Ios));
        let last_of_app = DeviceKey::new(AppNo(5), Platform::ChatApp, SEQUENCE_MAX);
        assert!(last_of_app < DeviceKey::before_first(AppNo(6), Platform::Android));
    }
}
