//! Arithmetic alone: what a workload comes to at given unit costs.

use super::units::Units;
use super::workload::Workload;

const DAY_S: f64 = 86_400.0;
const US: f64 = 1e-6;
const MS: f64 = 1e-3;

/// What a workload needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forecast {
    /// Deliveries a second while one notification goes to everybody.
    pub(super) broadcast_per_second: f64,
    /// Registrations in the busiest second.
    pub(super) registrations_per_second: f64,
    /// Messages in flight during the broadcast.
    pub(super) in_flight: f64,
    /// Connections to one provider that carries the largest platform.
    pub(super) connections: f64,
    /// Cores of servers, at the planned load: the broadcast beside the busiest registrations.
    pub(super) cores: f64,
    /// Servers that the messages in flight ask for.
    pub(super) servers_by_flight: f64,
    /// Servers that the largest platform of one application asks for.
    pub(super) servers_by_lane: f64,
    /// Bytes a second between servers and providers during the broadcast.
    pub(super) wire_per_second: f64,
    /// Writes a second: pages of the broadcast, and changes of devices in the busiest second.
    pub(super) writes_per_second: f64,
    /// Share of the time that these keep the writer of one PostgreSQL busy.
    pub(super) writer_busy: f64,
    /// Bytes of devices in SQLite.
    pub(super) devices_bytes: f64,
    /// Bytes of everything in SQLite.
    pub(super) sqlite_bytes: f64,
    /// Bytes of everything in PostgreSQL.
    pub(super) postgres_bytes: f64,
    /// Seconds that FCM's quota makes of one notification to everybody on Android.
    pub(super) fcm_seconds: f64,
}

impl Forecast {
    pub(super) fn of(load: &Workload, units: &Units) -> Self {
        let broadcast_per_second = load.devices / (load.broadcast_minutes * 60.0);
        let registrations_per_second = load.devices * load.registered_a_day / DAY_S * load.peak;
        let changed = registrations_per_second * load.changed;
        let in_flight = broadcast_per_second * units.round_trip_ms.value * MS;
        let largest = load.android.max(load.ios).max(load.web);

        let push_us = (load.android + load.ios) * units.push_cpu_us.value
            + load.web * units.web_push_cpu_us.value;
        let busy = broadcast_per_second * push_us * US
            + changed * units.changed_cpu_us.value * US
            + (registrations_per_second - changed) * units.unchanged_cpu_us.value * US;

        let pages = broadcast_per_second / units.page_devices.value;
        let writes_per_second = pages * units.page_writes.value + changed;
        let write_ms = units.write_ms.value + units.commit_ms.value / units.group.value;

        let devices_bytes = load.devices * units.device_bytes.value;
        let told = load.devices * load.told_a_day;
        let outcomes = told * load.outcome_days * units.outcome_bytes.value;
        let events = told * load.events * load.event_days * units.event_bytes.value;
        let sqlite_bytes = devices_bytes + outcomes + events;
        Self {
            broadcast_per_second,
            registrations_per_second,
            in_flight,
            connections: (in_flight * largest / units.streams.value).ceil(),
            cores: busy / units.utilisation.value,
            servers_by_flight: (in_flight / units.credit.value).ceil(),
            servers_by_lane: (in_flight * largest / units.lane.value).ceil(),
            wire_per_second: broadcast_per_second * units.message_bytes.value,
            writes_per_second,
            writer_busy: writes_per_second * write_ms * MS,
            devices_bytes,
            sqlite_bytes,
            postgres_bytes: sqlite_bytes * units.postgres_factor.value,
            fcm_seconds: load.devices * load.android / units.fcm_per_second.value,
        }
    }

    /// Servers of so many cores that the workload asks for.
    pub(super) fn servers(&self, cores: f64) -> f64 {
        let by_cores = (self.cores / cores).ceil();
        by_cores.max(self.servers_by_flight).max(self.servers_by_lane).max(1.0)
    }
}
