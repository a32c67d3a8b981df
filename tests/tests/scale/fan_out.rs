//! One notification to all devices on all platforms. Each device gets it once, the memory does not grow with
//! the audience, and a device takes only a few bytes on disk.

use anyhow::Result;
use notify_core::{CreateNotification, NotificationStatus, Platform};
use notify_tests::completed;

use crate::audience::every_platform;
use crate::stage::Stage;
use crate::{devices, within};

const MIB: u64 = 1_048_576;
/// The smallest audience with which a fan-out reaches its full memory. The server reads 4,000 devices ahead
/// for each of the five platforms, and buffers of connections grow during as many again.
const FEW: u64 = 40_000;
/// The default number of devices of the large audience.
const MANY: u64 = 120_000;
/// The most additional memory of a fan-out to the large audience, compared with the small one. Two runs of
/// the same size differ by up to 19 MiB. If the server kept 420 bytes for each further device, it would
/// exceed this limit.
const GROWTH_BYTES_MAX: u64 = 32 * MIB;
/// The most additional memory of any fan-out, including the connections to all platforms and their TLS.
const ABOVE_IDLE_BYTES_MAX: u64 = 128 * MIB;
/// The most bytes on disk for a device whose message was sent.
const DEVICE_BYTES_MAX: u64 = 8;
/// The bytes on disk of a fan-out of any size, for database pages that are partly filled.
const BASE_BYTES_MAX: u64 = 256 * 1_024;

/// The memory and disk that one fan-out used, in bytes.
#[derive(Debug)]
struct Usage {
    /// The growth of the peak memory.
    memory: u64,
    /// The growth of the database.
    disk: u64,
}

#[tokio::test]
async fn a_fan_out_over_all_platforms_reaches_each_device_once_in_bounded_memory() -> Result<()> {
    let (many, _) = devices(MANY);
    let few = fan_out(FEW).await?;
    let used = fan_out(many).await?;
    println!("{FEW} devices took {few:?}, {many} took {used:?} (bytes)");
    assert!(used.memory <= few.memory + GROWTH_BYTES_MAX, "{few:?}, then {used:?}");
    assert!(used.memory <= ABOVE_IDLE_BYTES_MAX, "{used:?}");
    assert!(used.disk <= many * DEVICE_BYTES_MAX + BASE_BYTES_MAX, "{used:?}");
    Ok(())
}

async fn fan_out(devices: u64) -> Result<Usage> {
    let stage = Stage::with(every_platform, devices).await?;
    let (memory, disk) = (stage.server.memory_peak()?, stage.bytes().await?);
    let platforms = Platform::ALL;
    let notification = CreateNotification::to_platforms(platforms, "Everybody");
    let id = stage.client.notifications().create(&notification).await?.id;
    stage.sandbox.wait_for(usize::try_from(devices)?, within(devices)).await;
    let record = completed(&stage.client, &id).await?;
    let counts = &record.counts;
    assert_eq!(record.status, NotificationStatus::Completed, "{record:?}");
    assert_eq!((counts.targeted, counts.sent), (devices, devices), "{record:?}");
    let seen = stage.sandbox.counts();
    assert_eq!((seen.accepted, seen.accepted_tokens), (devices, devices), "{seen:?}");
    let memory = stage.server.memory_peak()?.saturating_sub(memory);
    Ok(Usage { memory, disk: stage.bytes().await?.saturating_sub(disk) })
}
