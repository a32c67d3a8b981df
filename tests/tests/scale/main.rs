//! Many devices: the cost of a fan-out to all of them, and its effect on other applications of the server. By
//! default the tests use up to 120,000 devices. `NOTIFY_SCALE_DEVICES=1000000` sets the number of the
//! published figures.

mod audience;
mod fan_out;
mod neighbours;
mod stage;

use std::time::Duration;

use notify_tests::WAIT_MAX;

/// A test may wait one `WAIT_MAX` for each of this many deliveries.
const DEVICES_A_WAIT: u64 = 10_000;

/// The number of devices of the largest audience, and whether the environment sets it.
fn devices(default: u64) -> (u64, bool) {
    let setting = std::env::var("NOTIFY_SCALE_DEVICES").ok();
    let setting = setting.map(|text| text.parse().expect("NOTIFY_SCALE_DEVICES is a number"));
    (setting.unwrap_or(default), setting.is_some())
}

/// The longest wait for this number of deliveries.
fn within(devices: u64) -> Duration {
    let waits = 1 + devices / DEVICES_A_WAIT;
    WAIT_MAX * u32::try_from(waits).expect("an audience that a machine can hold")
}
