//! Databases with many devices, which are created once and copied for each use. The server creates the
//! file and the server's store fills it, so indexes and counters are as in production. All values of a
//! device are derived from its number.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use notify_core::{RegisterDevice, Request, Timestamp};
use notify_server::clock::{Clock, SystemClock};
use notify_server::store::sqlite::{self, SqliteOptions};
use notify_server::store::{AppNo, PageRequest, Store};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::paths::Paths;
use crate::servers::{Keys, Server};
use crate::table::print_line;

/// The number of concurrent registrations while seeding: enough for two full commits.
const SEEDING_AT_ONCE: usize = 512;
/// The number of days before now when the first device registered. The other devices follow at equal
/// intervals, because the statistics count registrations by the hour.
pub(crate) const DAYS: i64 = 30;
pub(crate) const DAY_MS: i64 = 86_400_000;

/// The time now.
pub(crate) fn now() -> Timestamp {
    SystemClock::start().now()
}

/// A pseudorandom number, which is the same for the same `number` in every run.
pub(crate) fn splitmix64(number: u64) -> u64 {
    let mut hash = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Whether the device with this number is an Android device. All other devices are iPhones.
pub(crate) fn is_android(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// The id of a device. The ids are in random order, as in production.
pub(crate) fn device_id(number: u64) -> String {
    format!("{:016x}{:016x}", splitmix64(number), splitmix64(number ^ u64::MAX))
}

/// The push token of a device: 64 hex digits on iOS, 142 characters on Android. No token has an ending that
/// makes the sandbox return an error, such as `…dead4100` for APNs and `…-429` for FCM.
pub(crate) fn push_token(number: u64) -> String {
    let [a, b, c, d] = [0_u64, 1, 2, 3].map(|part| splitmix64(number.wrapping_mul(8) + part));
    if is_android(number) {
        let random = format!("{a:016x}{b:016x}{c:016x}{d:016x}");
        format!("{}:APA91b{random}{}", &random[..22], &random[..49])
    } else {
        // The last eight digits begin with 0 and therefore not with `dead`.
        format!("{a:016x}{b:016x}{c:016x}{:08x}{:08x}", d >> 32, d & 0x0fff_ffff)
    }
}

/// The registration of a device, as its app would send it.
pub(crate) fn registration(number: u64, version: u64) -> RegisterDevice {
    let (id, token) = (device_id(number), push_token(number));
    let device = if is_android(number) {
        RegisterDevice::android(id, token)
    } else {
        RegisterDevice::ios(id, token)
    };
    let text = |text: &str| Some(text.to_owned());
    RegisterDevice {
        sdk_version: text("4.2.0"),
        app_version: Some(format!("1.{version}.{}", splitmix64(number) % 10)),
        os_version: text("34"),
        store_identifier: text("com.example.notify"),
        timezone: text("GMT+01:00"),
        country: text("DE"),
        language: text("de"),
        device_description: text("Example Phone 9 Pro"),
        ..device
    }
}

/// A seeded database.
#[derive(Debug, Clone)]
pub(crate) struct Seed {
    folder: PathBuf,
    pub(crate) keys: Keys,
}

impl Seed {
    /// Returns the database with this number of devices. Creates it if it does not exist.
    pub(crate) async fn with(paths: &Paths, devices: u64) -> anyhow::Result<Self> {
        let folder = paths.seeds.join(devices.to_string());
        let keys_file = folder.join("keys.json");
        if let Ok(keys) = std::fs::read(&keys_file) {
            return Ok(Self { folder, keys: serde_json::from_slice(&keys)? });
        }
        print_line(&format!("seeding {devices} devices"));
        std::fs::create_dir_all(&folder)?;
        let (server, keys) = Server::start(paths, &folder)?;
        let keys = keys.with_context(|| format!("{} is half seeded", folder.display()))?;
        server.stop()?;
        fill(&folder.join("notify.db"), devices).await?;
        // The file is written last: it marks the folder as complete.
        std::fs::write(&keys_file, serde_json::to_vec(&keys)?)?;
        Ok(Self { folder, keys })
    }

    /// Copies the database for one server.
    pub(crate) fn copy(&self, paths: &Paths) -> anyhow::Result<TempDir> {
        let copy = paths.folder()?;
        for name in ["notify.db", "master.key"] {
            std::fs::copy(self.folder.join(name), copy.path().join(name))?;
        }
        Ok(copy)
    }
}

/// Registers the devices, at equal intervals over the last [`DAYS`] days.
async fn fill(file: &Path, devices: u64) -> anyhow::Result<()> {
    let store = sqlite::open(file, SqliteOptions::default())?;
    let app = first_app(&store).await?;
    let first_at = now().plus_ms(-DAYS * DAY_MS);
    let interval_ms = DAYS * DAY_MS / i64::try_from(devices)?;
    let next_number = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..SEEDING_AT_ONCE {
        let (store, next_number) = (Arc::clone(&store), Arc::clone(&next_number));
        tasks.spawn(async move {
            loop {
                let number = next_number.fetch_add(1, Ordering::Relaxed);
                if number >= devices {
                    return anyhow::Ok(());
                }
                let at = first_at.plus_ms(interval_ms * i64::try_from(number)?);
                let valid = registration(number, 0).validate(at).map_err(|violations| {
                    anyhow::anyhow!("a generated registration is invalid: {violations:?}")
                })?;
                store.register_device(app, valid, at, None).await?;
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    store.close().await;
    checkpoint_log(file)
}

/// The application that the server creates on its first start.
pub(crate) async fn first_app(store: &Store) -> anyhow::Result<AppNo> {
    let apps = store.list_apps(PageRequest { limit: 1, cursor: None }).await?;
    let app = apps.rows.first().context("a first start makes an application")?;
    Ok(store.app(app.id).await?.0)
}

/// Sets the registration time of every device to now, because the server skips the write of an unchanged
/// registration only if the last registration is recent. The creation times do not change.
pub(crate) fn set_registered_now(folder: &Path) -> anyhow::Result<()> {
    let file = folder.join("notify.db");
    let connection = Connection::open(&file)?;
    connection.execute("update device_fields set registered_at = ?1", [now().as_ms()])?;
    drop(connection);
    checkpoint_log(&file)
}

/// Moves the write-ahead log into the database file. The file can then be copied without its log.
pub(crate) fn checkpoint_log(file: &Path) -> anyhow::Result<()> {
    let connection = Connection::open(file)?;
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    Ok(())
}

/// A notification of about 600 bytes, as a shop would send it.
pub(crate) fn notification(platforms: &[&str], send_at: Option<Timestamp>) -> Value {
    let mut body = json!({
        "text": "Your order 4711-0815 left our warehouse this morning and is on its way to you. \
                 Follow the parcel in the app, and tell the driver where to leave it when you are \
                 out.",
        "platforms": platforms,
        "url": "https://shop.example.com/orders/4711-0815/parcel?from=push&campaign=shipping",
        "image_url": "https://images.example.com/parcels/on-its-way-large.png",
        "custom_json_key": "order",
        "custom_json_value": {
            "id": "4711-0815", "carrier": "example", "pieces": 2, "eta": "2031-05-04"
        },
        "android_settings": { "title": "On its way", "sound": "parcel" },
        "ios_settings": { "badge": 1, "sound": "default" },
        "priority": "high",
    });
    if let Some(at) = send_at {
        body["send_at"] = at.as_ms().into();
    }
    body
}
