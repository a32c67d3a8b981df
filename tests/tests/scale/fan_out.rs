//! One notification to every device on every platform: each gets it once, in memory that does not
//! grow with the audience, and with a few bytes of disk per device.

use anyhow::Result;
use notify_core::{CreateNotification, NotificationStatus, Platform};
use notify_tests::completed;

use crate::audience::every_platform;
use crate::stage::Stage;
use crate::{devices, within};

const MIB: u64 = 1_048_576;
/// Devices that fill all that a fan-out holds in memory: 4,000 are read ahead for each of the five
/// platforms, and buffers of connections grow for as many again.
const FEW: u64 = 40_000;
/// Devices of the large audience by default.
const MANY: u64 = 120_000;
/// How much more memory a fan-out to more than those few may take: two of the same size differ by
/// 19 MiB, and 420 bytes kept for each of the others would be more than this.
const GROWTH_BYTES_MAX: u64 = 32 * MIB;
/// How much more memory than before it any fan-out may take, connections to every platform and
/// their TLS included.
const ABOVE_IDLE_BYTES_MAX: u64 = 128 * MIB;
/// Disk of a device that went well, in bytes.
const DEVICE_BYTES_MAX: u64 = 8;
/// Disk of a fan-out whatever its audience: database pages that are partly filled.
const BASE_BYTES_MAX: u64 = 256 * 1_024;

/// What one fan-out used, in bytes.
#[derive(Debug)]
struct Usage {
    /// Memory above the most before it.
    memory: u64,
    /// Growth of the database.
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
