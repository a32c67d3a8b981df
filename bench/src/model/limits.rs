//! Where the first limit is: what of each thing there is one of, and how much of it is asked for.

use super::forecast::Forecast;
use super::units::Units;
use super::workload::Workload;

/// Something of which there is one, until somebody moves it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) name: &'static str,
    /// What is needed of what one gives.
    pub(super) used: f64,
    /// What gives more.
    pub(super) moved_by: &'static str,
}

/// All limits, the one that is reached first at the head.
pub(super) fn limits(load: &Workload, units: &Units, forecast: &Forecast) -> Vec<Limit> {
    let android_per_second = forecast.broadcast_per_second * load.android;
    let largest = load.android.max(load.ios).max(load.web);
    let lane_per_second = units.lane.value / (units.round_trip_ms.value / 1e3);
    let mut limits = vec![
        Limit {
            name: "FCM's quota of one project",
            used: android_per_second / units.fcm_per_second.value,
            moved_by: "a higher quota (Google grants it), an application and project per product, \
                       more minutes",
        },
        Limit {
            name: "one application and platform on one server",
            used: forecast.broadcast_per_second * largest / lane_per_second,
            moved_by: "servers nearer to the provider, more servers, a larger `--delivery-credit`",
        },
        Limit {
            name: "the cores of one server",
            used: forecast.cores / units.server_cores.value,
            moved_by: "more servers; they share nothing but the database",
        },
        Limit {
            name: "the one writer of a database",
            used: forecast.writer_busy / units.utilisation.value,
            moved_by: "faster commits, larger checkpoints; then a database for each group of \
                       applications: nothing is asked across applications",
        },
        Limit {
            name: "the disk of one database",
            used: forecast.postgres_bytes / units.database_bytes.value,
            moved_by: "fewer days of events and outcomes; then the same",
        },
    ];
    limits.sort_by(|one, other| other.used.total_cmp(&one.used));
    limits
}
