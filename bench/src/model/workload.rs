//! What is asked of the servers: how many devices, how much they are told, and how fast.

/// One installation's day.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    /// Devices that are kept.
    pub(super) devices: f64,
    /// Share of them on Android, in an application that has them all.
    pub(super) android: f64,
    /// Share on iOS.
    pub(super) ios: f64,
    /// Share in browsers.
    pub(super) web: f64,
    /// Notifications of a device and day.
    pub(super) told_a_day: f64,
    /// Minutes in which one notification is to reach everybody.
    pub(super) broadcast_minutes: f64,
    /// Registrations of a device and day, as apps start.
    pub(super) registered_a_day: f64,
    /// Share of these that change something.
    pub(super) changed: f64,
    /// Events of a delivery: opened, clicked.
    pub(super) events: f64,
    /// The busiest second beside the average one.
    pub(super) peak: f64,
    /// Days that outcomes are kept.
    pub(super) outcome_days: f64,
    /// Days that events are kept.
    pub(super) event_days: f64,
}

impl Workload {
    /// A day as consumer apps have it, for so many devices.
    pub(super) const fn usual(devices: f64) -> Self {
        Self {
            devices,
            android: 0.5,
            ios: 0.4,
            web: 0.1,
            told_a_day: 3.0,
            broadcast_minutes: 60.0,
            registered_a_day: 1.0,
            changed: 0.02,
            events: 0.05,
            peak: 3.0,
            outcome_days: 30.0,
            event_days: 90.0,
        }
    }
}
