//! The arithmetic by hand, with numbers that are easy to multiply.

use notify_server::delivery::EngineConfig;

use super::*;
use crate::model::units::Unit;

/// The same unit with another number.
fn at(unit: Unit, value: f64) -> Unit {
    Unit { value, ..unit }
}

fn units() -> Units {
    let seen = Units::SEEN;
    Units {
        device_bytes: at(seen.device_bytes, 500.0),
        outcome_bytes: at(seen.outcome_bytes, 2.0),
        event_bytes: at(seen.event_bytes, 100.0),
        postgres_factor: at(seen.postgres_factor, 2.0),
        push_cpu_us: at(seen.push_cpu_us, 10.0),
        web_push_cpu_us: at(seen.web_push_cpu_us, 100.0),
        unchanged_cpu_us: at(seen.unchanged_cpu_us, 20.0),
        changed_cpu_us: at(seen.changed_cpu_us, 40.0),
        server_bytes: at(seen.server_bytes, 1e8),
        server_cores: at(seen.server_cores, 2.0),
        message_bytes: at(seen.message_bytes, 1_000.0),
        database_bytes: at(seen.database_bytes, 1e10),
        page_devices: at(seen.page_devices, 1_000.0),
        page_writes: at(seen.page_writes, 5.0),
        credit: at(seen.credit, 400.0),
        lane: at(seen.lane, 100.0),
        streams: at(seen.streams, 100.0),
        round_trip_ms: at(seen.round_trip_ms, 100.0),
        fcm_per_second: at(seen.fcm_per_second, 1_000.0),
        write_ms: at(seen.write_ms, 1.0),
        commit_ms: at(seen.commit_ms, 10.0),
        group: at(seen.group, 10.0),
        utilisation: at(seen.utilisation, 0.5),
    }
}

fn load() -> Workload {
    Workload {
        devices: 864_000.0,
        android: 0.5,
        ios: 0.25,
        web: 0.25,
        told_a_day: 2.0,
        broadcast_minutes: 1.0,
        registered_a_day: 1.0,
        changed: 0.1,
        events: 0.5,
        peak: 10.0,
        outcome_days: 10.0,
        event_days: 1.0,
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "{found}, not {expected}");
}

#[test]
fn a_workload_is_multiplied_with_what_each_costs() {
    let forecast = Forecast::of(&load(), &units());
    close(forecast.broadcast_per_second, 14_400.0); // 864,000 in 60 s
    close(forecast.registrations_per_second, 100.0); // 864,000 in a day, ten times at the peak
    close(forecast.in_flight, 1_440.0); // for 0.1 s
    close(forecast.connections, 8.0); // half of them over 100 streams each
    // 14,400 × (0.75 × 10 + 0.25 × 100) µs, 10 × 40 µs and 90 × 20 µs, at half load.
    close(forecast.cores, (0.468 + 0.000_4 + 0.001_8) / 0.5);
    close(forecast.servers_by_flight, 4.0); // 1,440 of 400
    close(forecast.servers_by_lane, 8.0); // 720 of 100
    close(forecast.wire_per_second, 14_400_000.0);
    close(forecast.writes_per_second, 82.0); // 14.4 pages of 5, 10 changes
    close(forecast.writer_busy, 0.164); // 1 ms each, and 10 ms by tens
    close(forecast.devices_bytes, 432e6);
    // Two outcomes a day for ten days at 2 bytes, one event at 100.
    close(forecast.sqlite_bytes, 432e6 + 34.56e6 + 86.4e6);
    close(forecast.postgres_bytes, 2.0 * 552.96e6);
    close(forecast.fcm_seconds, 432.0);
}

#[test]
fn servers_are_as_many_as_the_scarcest_thing_asks_for() {
    let forecast = Forecast::of(&load(), &units());
    close(forecast.servers(2.0), 8.0);
    close(forecast.servers(0.05), 19.0); // 0.9404 cores
    let idle = Workload { devices: 1.0, ..load() };
    close(Forecast::of(&idle, &units()).servers(2.0), 1.0);
}

#[test]
fn the_first_limit_is_the_one_that_is_used_most() {
    let (load, units) = (load(), units());
    let found = limits(&load, &units, &Forecast::of(&load, &units));
    let used: Vec<_> = found.iter().map(|limit| (limit.name, limit.used)).collect();
    let expected = [
        ("FCM's quota of one project", 7.2),
        ("one application and platform on one server", 7.2),
        ("the cores of one server", 0.470_2),
        ("the one writer of a database", 0.328),
        ("the disk of one database", 0.110_592),
    ];
    assert_eq!(used.len(), expected.len());
    for ((name, used), (known, value)) in used.into_iter().zip(expected) {
        assert_eq!(name, known);
        close(used, value);
    }
}

#[test]
fn what_is_given_by_the_engine_is_what_it_has() {
    let (units, engine) = (Units::SEEN, EngineConfig::default());
    close(units.page_devices.value, f64::from(engine.page_rows));
    close(units.credit.value, engine.credit as f64);
    close(units.lane.value, engine.lane_streams_max as f64);
    let checkpoints = engine.page_rows as usize / engine.checkpoint_outcomes;
    close(units.page_writes.value, checkpoints as f64 + 1.0);
}

#[test]
fn shares_of_platforms_add_up_and_everything_measured_says_by_what() {
    let usual = Workload::usual(1.0);
    close(usual.android + usual.ios + usual.web, 1.0);
    for unit in Units::SEEN.all() {
        assert!(unit.value > 0.0, "{}: no number", unit.name);
    }
}

#[test]
fn numbers_are_shown_as_people_read_them() {
    for (value, expected) in
        [(0.0, "0"), (0.004_2, "0.004"), (0.42, "0.42"), (4.2, "4.2"), (4.0, "4"), (42.0, "42")]
    {
        assert_eq!(short(value), expected);
    }
    for (count, expected) in
        [(0.0, "0 B"), (999.0, "999 B"), (4.2e3, "4.2 kB"), (1.5e12, "1.5 TB"), (2e15, "2,000 TB")]
    {
        assert_eq!(bytes(count), expected);
    }
}
