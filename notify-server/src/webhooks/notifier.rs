//! Notifies of new events: the engine of all, a stream of those of its application.

use crate::signal::{Signal, Waiter};
use crate::store::{AppNo, Change, ChangeListener};

/// Number of signals for applications. Applications that share one wake each other's streams: an additional
/// read, and never a missed event.
const PLACES: usize = 256;

/// Notifies of written events and of changed webhooks and applications.
#[derive(Debug)]
pub(crate) struct EventNotifier {
    any: Signal,
    of_apps: Box<[Signal]>,
}

impl Default for EventNotifier {
    fn default() -> Self {
        let of_apps = std::iter::repeat_with(Signal::default).take(PLACES).collect();
        Self { any: Signal::default(), of_apps }
    }
}

impl EventNotifier {
    /// Subscribes to the events of all applications.
    pub(super) fn subscribe_to_all(&self) -> Waiter {
        self.any.subscribe()
    }

    /// Subscribes to the events of an application.
    pub(crate) fn subscribe(&self, app: AppNo) -> Waiter {
        self.of(app).subscribe()
    }

    fn of(&self, app: AppNo) -> &Signal {
        &self.of_apps[usize::try_from(app.0.unsigned_abs()).unwrap_or(0) % PLACES]
    }
}

impl ChangeListener for EventNotifier {
    fn on_change(&self, change: Change) {
        match change {
            Change::Events(app) | Change::App(app) => {
                self.any.notify();
                self.of(app).notify();
            }
            Change::Resync => {
                self.any.notify();
                self.of_apps.iter().for_each(Signal::notify);
            }
            Change::Delivery(_) | Change::Enrichment(_) | Change::KeyRevoked => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn streams_of_other_applications_are_not_woken() {
        let notifier = EventNotifier::default();
        let (mut all, mut own) = (notifier.subscribe_to_all(), notifier.subscribe(AppNo(1)));
        let mut other = notifier.subscribe(AppNo(2));
        for change in [Change::Events(AppNo(1)), Change::App(AppNo(1))] {
            notifier.on_change(change);
            assert!(all.changed().now_or_never().is_some(), "{change:?}");
            assert!(own.changed().now_or_never().is_some(), "{change:?}");
            assert!(other.changed().now_or_never().is_none(), "{change:?}");
        }
    }
}
