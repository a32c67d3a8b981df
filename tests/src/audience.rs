//! Devices for tests, with tokens that select the sandbox's responses.

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use notify_client::Client;
use notify_core::{DeviceId, PushKeys, PushSubscription, RegisterDevice, Subscribe};
use notify_sandbox::{Sandbox, ScriptedResponse, apns_token, fcm_token};

/// The number of concurrent registrations.
const PARALLEL: usize = 64;

/// Registers devices, many at a time.
///
/// # Errors
/// When a registration fails.
pub async fn register(
    client: &Client,
    devices: impl IntoIterator<Item = RegisterDevice>,
) -> Result<()> {
    stream::iter(devices)
        .map(|device| async move { client.devices().register(&device).await.map(drop) })
        .buffer_unordered(PARALLEL)
        .try_collect::<()>()
        .await?;
    Ok(())
}

/// An Android device `a{seed}` whose token makes the sandbox respond with `answer`.
#[must_use]
pub fn android(seed: u64, answer: &ScriptedResponse) -> RegisterDevice {
    RegisterDevice::android(format!("a{seed}"), fcm_token(seed, answer))
}

/// An iOS device `i{seed}` whose token makes the sandbox respond with `answer`.
#[must_use]
pub fn ios(seed: u64, answer: &ScriptedResponse) -> RegisterDevice {
    RegisterDevice::ios(format!("i{seed}"), apns_token(seed, answer))
}

/// `count` reachable devices, half of them on Android and half on iOS.
pub fn crowd(count: u64) -> impl Iterator<Item = RegisterDevice> {
    let ok = ScriptedResponse::ok();
    (0..count).map(move |seed| if seed % 2 == 0 { android(seed, &ok) } else { ios(seed, &ok) })
}

/// Subscribes a browser at the sandbox, whose push service responds with `answer` to its messages. Registers
/// the browser as a device and returns the device id.
///
/// # Errors
/// When the sandbox or the server refuses.
pub async fn browser(
    client: &Client,
    sandbox: &Sandbox,
    device_id: &str,
    answer: &ScriptedResponse,
) -> Result<DeviceId> {
    let subscribe = subscription(sandbox, device_id, answer)?.1;
    Ok(client.subscriptions().create(&subscribe).await?.id)
}

/// Like [`browser`], but returns the browser's endpoint.
///
/// # Errors
/// When the sandbox or the server refuses.
pub async fn browser_endpoint(
    client: &Client,
    sandbox: &Sandbox,
    device_id: &str,
    answer: &ScriptedResponse,
) -> Result<String> {
    let (endpoint, subscribe) = subscription(sandbox, device_id, answer)?;
    client.subscriptions().create(&subscribe).await?;
    Ok(endpoint)
}

fn subscription(
    sandbox: &Sandbox,
    device_id: &str,
    answer: &ScriptedResponse,
) -> Result<(String, Subscribe)> {
    let made = sandbox.subscribe(None, answer)?;
    let subscription = PushSubscription {
        endpoint: made.endpoint.clone(),
        keys: PushKeys { p256dh: made.p256dh, auth: made.auth },
        ..PushSubscription::default()
    };
    let device_id = Some(device_id.to_owned());
    Ok((made.endpoint, Subscribe { device_id, ..Subscribe::web(subscription) }))
}
