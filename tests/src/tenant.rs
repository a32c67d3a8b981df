//! An application with people on all five platforms, and the expected outcome of each.

use anyhow::{Context, Result};
use notify_client::Client;
use notify_core::{AppId, CreateApp, CreateKey, Subscribe};
use notify_sandbox::{Sandbox, ScriptedResponse, messenger_recipient, telegram_chat};

use crate::checker::{Expected, Member};
use crate::{android, browser_endpoint, configure_all, ios, register};

/// The number of seeds of each application. Application `n` uses the seeds from `n` times this number.
const SEEDS_PER_APP: u64 = 1_000;

/// The numbers of people of an application. There are three more devices: one Android and one iOS device
/// are unregistered, and FCM rejects the messages to another Android device.
#[derive(Debug, Clone, Copy)]
pub struct AudienceSize {
    /// The number of people on Android, and the same number on iOS.
    pub phones: u64,
    /// The number of people with a browser.
    pub browsers: u64,
    /// The number of people on Messenger, and the same number in the chat app.
    pub chats: u64,
}

/// An application with its people.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// The id of the application.
    pub id: AppId,
    /// The key of the application.
    pub api_key: String,
    /// The people of the application, except those in the chat app.
    pub members: Vec<Member>,
    /// The people in the chat app. Each accepts one message a second.
    pub chats: Vec<Member>,
}

impl Tenant {
    /// Creates the application with this number, configures it to send to the sandbox on all five platforms,
    /// and registers its people.
    ///
    /// # Errors
    /// When the server refuses a request.
    pub async fn make(
        client_of: impl Fn(&str) -> Result<Client>,
        sandbox: &Sandbox,
        number: u64,
        crowd: AudienceSize,
    ) -> Result<Self> {
        let admin = client_of("")?;
        let app = CreateApp { name: format!("tenant-{number}"), language: None };
        let id = admin.admin().create_app(&app).await?.id;
        let api_key = admin.admin().create_key(id, &CreateKey::default()).await?.api_key;
        let client = client_of(&api_key)?;
        configure_all(&admin, id, sandbox).await?;
        let first = number * SEEDS_PER_APP;
        let members = populate(&client, sandbox, first, crowd).await?;
        let chats = populate_chats(&client, first, crowd).await?;
        Ok(Self { id, api_key, members, chats })
    }
}

/// Registers people on all platforms except the chat app, and returns them.
async fn populate(
    client: &Client,
    sandbox: &Sandbox,
    first: u64,
    crowd: AudienceSize,
) -> Result<Vec<Member>> {
    let ok = ScriptedResponse::ok();
    let mut phones = Vec::new();
    for seed in first..first + crowd.phones {
        phones.push((android(seed, &ok), Expected::Delivered));
        phones.push((ios(seed, &ok), Expected::Delivered));
    }
    let next = first + crowd.phones;
    phones.push((android(next, &ScriptedResponse::reason("UNREGISTERED")), Expected::Unregistered));
    phones.push((ios(next, &ScriptedResponse::status(410)), Expected::Unregistered));
    phones.push((android(next + 1, &ScriptedResponse::reason("BAD_REQUEST")), Expected::Rejected));
    let mut members = Vec::new();
    for (phone, expected) in &phones {
        let addresses = vec![phone.push_token.clone().context("a phone has a token")?];
        members.push(Member { device: phone.device_id.clone(), addresses, expected: *expected });
    }
    register(client, phones.into_iter().map(|(phone, _)| phone)).await?;
    for seed in first..first + crowd.browsers {
        let device = format!("w{seed}");
        let endpoint = browser_endpoint(client, sandbox, &device, &ok).await?;
        // The sandbox logs the last segment of the endpoint as the browser's token.
        let id = endpoint.rsplit('/').next().context("an endpoint is a path")?;
        members.push(reachable_member(device, id.to_owned()));
    }
    for seed in first..first + crowd.chats {
        let (device, person) = (format!("m{seed}"), messenger_recipient(seed, &ok));
        subscribe(client, &device, Subscribe::messenger(person.clone())).await?;
        members.push(reachable_member(device, person));
    }
    Ok(members)
}

/// Registers people in the chat app and returns them.
async fn populate_chats(client: &Client, first: u64, crowd: AudienceSize) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for seed in first..first + crowd.chats {
        let (device, chat) = (format!("c{seed}"), telegram_chat(seed, &ScriptedResponse::ok()));
        subscribe(client, &device, Subscribe::chat(chat.clone())).await?;
        members.push(reachable_member(device, chat));
    }
    Ok(members)
}

fn reachable_member(device: String, address: String) -> Member {
    Member { device, addresses: vec![address], expected: Expected::Delivered }
}

async fn subscribe(client: &Client, device: &str, to: Subscribe) -> Result<()> {
    let subscribe = Subscribe { device_id: Some(device.to_owned()), ..to };
    client.subscriptions().create(&subscribe).await?;
    Ok(())
}
