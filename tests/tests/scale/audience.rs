//! Devices of all platforms. They are registered directly with the store before the server starts, which is
//! faster than the API.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use futures_util::{StreamExt, TryStreamExt, stream};
use notify_core::{
    DeviceId, Platform, PushKeys, PushSubscription, RegisterDevice, Request, Subscribe, Timestamp,
};
use notify_sandbox::{Sandbox, ScriptedResponse, messenger_recipient, telegram_chat};
use notify_server::clock::{Clock, SystemClock};
use notify_server::store::sqlite::{self, SqliteOptions};
use notify_server::store::{AppNo, PageRequest, Store};
use notify_tests::{android, ios};

/// The number of concurrent registrations: enough for two full commits.
const PARALLEL: usize = 512;

/// Returns the platform of the device with a number.
pub(crate) type Mix = fn(u64) -> Platform;

/// Half iOS, 30 % Android, 15 % browsers, 5 % chats of both kinds.
pub(crate) fn every_platform(number: u64) -> Platform {
    match number % 40 {
        0..20 => Platform::Ios,
        20..32 => Platform::Android,
        32..38 => Platform::Web,
        38 => Platform::FbMessenger,
        _ => Platform::ChatApp,
    }
}

/// Half Android, half iOS.
pub(crate) fn phones(number: u64) -> Platform {
    if number.is_multiple_of(2) { Platform::Android } else { Platform::Ios }
}

/// Registers devices 0 to `count` with the first application of a data folder.
pub(crate) async fn register(
    data_dir: &Path,
    sandbox: &Sandbox,
    mix: Mix,
    count: u64,
) -> Result<()> {
    let store = sqlite::open(&data_dir.join("notify.db"), SqliteOptions::default())?;
    let apps = store.list_apps(PageRequest { limit: 1, cursor: None }).await?;
    let app = apps.rows.first().context("the first start makes an application")?.id;
    let app = store.app(app).await?.0;
    let at = SystemClock::start().now();
    stream::iter(0..count)
        .map(|number| register_one(&store, app, sandbox, number, mix(number), at))
        .buffer_unordered(PARALLEL)
        .try_collect::<()>()
        .await?;
    store.close().await;
    Ok(())
}

async fn register_one(
    store: &Arc<Store>,
    app: AppNo,
    sandbox: &Sandbox,
    number: u64,
    platform: Platform,
    at: Timestamp,
) -> Result<()> {
    let ok = ScriptedResponse::ok();
    let subscribe = match platform {
        Platform::Android => return phone(store, app, android(number, &ok), at).await,
        Platform::Ios => return phone(store, app, ios(number, &ok), at).await,
        Platform::Web => {
            let made = sandbox.subscribe(None, &ok)?;
            let keys = PushKeys { p256dh: made.p256dh, auth: made.auth };
            let endpoint = made.endpoint;
            Subscribe::web(PushSubscription { endpoint, keys, ..PushSubscription::default() })
        }
        Platform::FbMessenger => Subscribe::messenger(messenger_recipient(number, &ok)),
        Platform::ChatApp => Subscribe::chat(telegram_chat(number, &ok)),
    };
    let made = DeviceId::new(format!("s{number}")).map_err(|rule| anyhow!("{rule:?}"))?;
    let valid = subscribe.validate(at).map_err(|broken| anyhow!("{broken:?}"))?;
    store.subscribe_device(app, valid, made, at, None).await?;
    Ok(())
}

async fn phone(
    store: &Arc<Store>,
    app: AppNo,
    device: RegisterDevice,
    at: Timestamp,
) -> Result<()> {
    let valid = device.validate(at).map_err(|broken| anyhow!("{broken:?}"))?;
    store.register_device(app, valid, at, None).await?;
    Ok(())
}
