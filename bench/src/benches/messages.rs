//! Samples of the server's requests. The bare clients send the same requests.

use anyhow::Context;
use serde_json::{Value, json};

use crate::bare::h2_client::{Parameters, TOKEN};
use crate::caller::Caller;
use crate::http_load::call;
use crate::seed::{device_id, notification, push_token};
use crate::servers::Sandbox;

/// The number of messages that the sampling sandbox keeps.
const SAMPLES_MAX: usize = 16;

/// A platform of seeded devices and its provider.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel {
    pub(crate) platform: &'static str,
    pub(crate) provider: &'static str,
    /// The number of the platform's first device. Every second device from there has the platform.
    pub(crate) first: u64,
}

/// The platforms of seeded devices.
pub(crate) const CHANNELS: [Channel; 2] = [
    Channel { platform: "android", provider: "fcm", first: 0 },
    Channel { platform: "ios", provider: "apns", first: 1 },
];
/// The providers of [`CHANNELS`].
pub(crate) const PROVIDERS: [&str; 2] = ["fcm", "apns"];

/// One message of each kind, as a sandbox received it.
pub(crate) struct SampleMessages(Vec<Value>);

impl SampleMessages {
    /// Lets the server send one message of each kind to a separate sandbox.
    pub(crate) async fn capture(caller: &Caller) -> anyhow::Result<Self> {
        let sandbox = Sandbox::start(SAMPLES_MAX)?;
        caller.configure_providers(&sandbox, &PROVIDERS).await?;
        for Channel { platform, first, .. } in CHANNELS {
            let mut body = notification(&[platform], None);
            body[format!("{platform}_device_ids")] = json!([device_id(first)]);
            caller.fan_out(&body, 1).await?;
        }
        received(&sandbox).await.map(Self)
    }

    /// The parameters with which a bare client sends the same request to `count` devices.
    pub(crate) async fn parameters(
        &self,
        channel: Channel,
        sandbox: &Sandbox,
        count: u64,
    ) -> anyhow::Result<Parameters> {
        let Channel { provider, first, .. } = channel;
        let config = sandbox.config(provider).await?;
        let message = self.0.iter().find(|message| message["provider"] == provider);
        let message = message.context("the server sent one message of each kind")?;
        let endpoint = config["endpoint"].as_str().context("an endpoint")?;
        let url = match config["service_account"]["project_id"].as_str() {
            Some(project) => format!("{endpoint}/v1/projects/{project}/messages:send"),
            None => format!("{endpoint}/3/device/{TOKEN}"),
        };
        let body = message["payload"].to_string().replace(&push_token(first), TOKEN);
        let has_id = message["headers"]["apns-id"].is_string();
        let headers = headers(message)?;
        let address = sandbox.address;
        Ok(Parameters { address, config, url, headers, has_id, body, first, count })
    }
}

/// The messages in the log of a sandbox.
pub(crate) async fn received(sandbox: &Sandbox) -> anyhow::Result<Vec<Value>> {
    let received = call(sandbox.address, "GET", "/sandbox/received", &[], None).await?;
    Ok(received["received"].as_array().context("a list")?.clone())
}

/// The headers of a message that are the same for every device.
pub(crate) fn headers(message: &Value) -> anyhow::Result<Vec<(String, String)>> {
    let varying = ["authorization", "apns-id", "content-length"];
    let headers = message["headers"].as_object().context("headers")?.iter();
    Ok(headers
        .filter(|(name, _)| !varying.contains(&name.as_str()))
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect())
}
