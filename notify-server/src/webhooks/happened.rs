//! Word of events: to the engine of each, to a stream of those of its application.

use crate::changes::{Changes, Heard};
use crate::store::{AppNo, Change, ChangeListener};

/// Places for word of applications. Those that share one wake each other's streams: a read more,
/// never an event less.
const PLACES: usize = 256;

/// Tells of events that were written, and of what webhooks and applications became.
#[derive(Debug)]
pub(crate) struct Happened {
    any: Changes,
    of_apps: Box<[Changes]>,
}

impl Default for Happened {
    fn default() -> Self {
        let of_apps = std::iter::repeat_with(Changes::default).take(PLACES).collect();
        Self { any: Changes::default(), of_apps }
    }
}

impl Happened {
    /// Hears of every application from now on.
    pub(super) fn subscribe_to_all(&self) -> Heard {
        self.any.subscribe()
    }

    /// Hears of an application from now on.
    pub(crate) fn subscribe(&self, app: AppNo) -> Heard {
        self.of(app).subscribe()
    }

    fn of(&self, app: AppNo) -> &Changes {
        &self.of_apps[usize::try_from(app.0.unsigned_abs()).unwrap_or(0) % PLACES]
    }
}

impl ChangeListener for Happened {
    fn changed(&self, change: Change) {
        match change {
            Change::EventsDue(app) | Change::AppChanged(app) => {
                self.any.tell();
                self.of(app).tell();
            }
            Change::Everything => {
                self.any.tell();
                self.of_apps.iter().for_each(Changes::tell);
            }
            Change::NotificationDue
            | Change::NotificationScheduled
            | Change::NotificationCanceled(_)
            | Change::DeviceChanged(_)
            | Change::CampaignChanged(_)
            | Change::FeedDue
            | Change::FeedChanged(_)
            | Change::ProviderChanged(..)
            | Change::PurgeStopped(..)
            | Change::BreakerChanged(..)
            | Change::KeyRevoked => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn streams_of_other_applications_are_not_woken() {
        let happened = Happened::default();
        let (mut all, mut own) = (happened.subscribe_to_all(), happened.subscribe(AppNo(1)));
        let mut other = happened.subscribe(AppNo(2));
        for change in [Change::EventsDue(AppNo(1)), Change::AppChanged(AppNo(1))] {
            happened.changed(change);
            assert!(all.changed().now_or_never().is_some(), "{change:?}");
            assert!(own.changed().now_or_never().is_some(), "{change:?}");
            assert!(other.changed().now_or_never().is_none(), "{change:?}");
        }
    }
}
