//! What a write changes. This decides which writes of several servers exclude each other.
//!
//! SQLite has one writer, so nothing has to be excluded there. On PostgreSQL, a row-by-row write to
//! the whole installation runs alone. A row-by-row write to an application runs alone in the
//! application. The sets of all servers run concurrently, even in the same application.

use crate::store::AppNo;

/// The number of locks of applications. It bounds the locks of a transaction, since a set can change
/// as many applications as it has rows. Applications with the same lock wait for each other.
const APP_LOCKS: u32 = u64::BITS;

/// What a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum WriteScope {
    /// Anything.
    Installation,
    /// Only rows of applications that have these locks.
    Apps(AppLocks),
}

/// Locks of applications, as a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct AppLocks(u64);

impl WriteScope {
    /// One application.
    pub(in crate::store) fn app(app: AppNo) -> Self {
        Self::Apps(AppLocks(1 << (app.0.unsigned_abs() % u64::from(APP_LOCKS))))
    }

    /// The application of a row with this key.
    pub(in crate::store) fn key(key: i64) -> Self {
        match AppNo::from_key(key) {
            // An old key without the number of its application.
            AppNo(0) => Self::Installation,
            app => Self::app(app),
        }
    }

    /// The union of scopes.
    pub(in crate::store) fn all(scopes: impl IntoIterator<Item = Self>) -> Self {
        scopes.into_iter().fold(Self::Apps(AppLocks(0)), |all, scope| match (all, scope) {
            (Self::Apps(all), Self::Apps(one)) => Self::Apps(AppLocks(all.0 | one.0)),
            (Self::Installation, _) | (_, Self::Installation) => Self::Installation,
        })
    }

    /// The locks of the applications: all locks for the whole installation.
    pub(in crate::store) fn app_locks(self) -> AppLocks {
        match self {
            Self::Installation => AppLocks(u64::MAX),
            Self::Apps(locks) => locks,
        }
    }
}

impl AppLocks {
    /// The numbers of the locks, from 0, in the order in which every transaction takes them.
    pub(in crate::store) fn numbers(self) -> impl Iterator<Item = i64> {
        (0..APP_LOCKS).filter(move |number| self.0 & (1 << number) != 0).map(i64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(scope: WriteScope) -> Vec<i64> {
        scope.app_locks().numbers().collect()
    }

    #[test]
    fn each_application_has_one_of_64_locks() {
        assert_eq!(numbers(WriteScope::app(AppNo(1))), [1]);
        assert_eq!(numbers(WriteScope::app(AppNo(64))), [0]);
        assert_eq!(numbers(WriteScope::app(AppNo(130))), [2]);
        assert_eq!(numbers(WriteScope::key(AppNo(130).key_prefix() | 7)), [2]);
    }

    #[test]
    fn a_key_without_an_application_means_the_whole_installation() {
        assert_eq!(WriteScope::key(7), WriteScope::Installation);
        assert_eq!(numbers(WriteScope::Installation), (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn several_writes_have_the_union_of_their_scopes() {
        let apps = [9, 3, 9].map(|app| WriteScope::app(AppNo(app)));
        assert_eq!(numbers(WriteScope::all(apps)), [3, 9]);
        let all = WriteScope::all(apps.into_iter().chain([WriteScope::Installation]));
        assert_eq!(all, WriteScope::Installation);
        assert_eq!(numbers(WriteScope::all([])), [0_i64; 0]);
    }
}
