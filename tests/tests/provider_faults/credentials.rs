//! T8: each of the five providers rejects its credentials. The deliveries are held, one delivery a minute
//! probes the provider, and when the credentials are fixed all deliveries are sent without intervention.

use std::time::Duration;

use anyhow::Result;
use notify_core::{CreateNotification, Platform, ProviderKind};
use notify_sandbox::{Provider, Sandbox};
use notify_tests::start_sandbox;
use serde_json::{Value, json};

use crate::manual_clock::{ALL, ManualServer};

/// The number of devices on each platform.
const DEVICES: u64 = 100;
/// The time for which the credentials stay wrong, in minutes.
const MINUTES: u64 = 10;
/// The requests with wrong credentials in addition to the probes: the messages in flight at the first
/// rejection, and for Web Push the five rejections in a row after which the server blames the credentials.
const FIRST_MAX: u64 = 110;

/// Makes the credentials wrong, so that each provider rejects them in its own way.
fn spoil(kind: ProviderKind, config: &mut Value, other_sandbox: &Sandbox) {
    match kind {
        ProviderKind::Apns => {
            config["private_key"] = other_sandbox.apns_config()["private_key"].clone()
        }
        ProviderKind::Fcm => config["service_account"]["private_key_id"] = json!("withdrawn"),
        // The browsers subscribed with the VAPID key of the sandbox.
        ProviderKind::WebPush => {
            config["vapid_private_key"] =
                other_sandbox.webpush_config()["vapid_private_key"].clone();
        }
        ProviderKind::Messenger => config["page_access_token"] = json!("EAAGrevoked"),
        ProviderKind::Telegram => config["bot_token"] = json!("1:revoked"),
    }
}

/// The number of requests that a provider refused. FCM's wrong credentials are refused by Google's token
/// endpoint.
fn refused(server: &ManualServer, provider: Provider) -> u64 {
    let asked = if provider == Provider::Fcm { Provider::Oauth } else { provider };
    let answers = server.sandbox().counts().answers;
    let refused = answers.iter().filter(|count| count.provider == asked && count.status >= 400);
    refused.map(|count| count.count).sum()
}

#[tokio::test]
async fn rejected_credentials_hold_each_provider_until_they_are_fixed() -> Result<()> {
    let other_sandbox = start_sandbox().await?;
    let web = ProviderKind::WebPush;
    let server = ManualServer::start_with(|kind, config| {
        if kind != web {
            spoil(kind, config, &other_sandbox);
        }
    })
    .await?;
    server.everybody(DEVICES).await?;
    let all = DEVICES * ALL.len() as u64;
    // The server counts a rejection against the credentials only if the web address accepted a message
    // before.
    let first = CreateNotification::to_platforms([Platform::Web], "first");
    let first = server.client.notifications().create(&first).await?.id;
    server.completed(&[first], Duration::from_secs(1)).await?;
    let mut config = server.config(web);
    spoil(web, &mut config, &other_sandbox);
    server.client.admin().put_provider(server.app_id, web, &config).await?;
    let spoiled_at = server.elapsed_s();
    let id = server.broadcast("x").await?;
    notify_tests::until("all are found", async || {
        let record = server.read(&id).await?;
        Ok((record.counts.targeted == all).then_some(()))
    })
    .await?;
    notify_tests::until("every provider refuses", async || {
        let refused = ALL.map(|(provider, _, _)| refused(&server, provider));
        Ok(refused.into_iter().all(|refused| refused > 0).then_some(()))
    })
    .await?;
    // After its first refusal, each provider is tried with one more delivery.
    server
        .advance_until("all are tried again", Duration::from_millis(100), async || {
            Ok((server.elapsed_s() >= spoiled_at + 2).then_some(()))
        })
        .await?;
    let first = ALL.map(|(provider, _, _)| refused(&server, provider));
    for ((provider, _, _), first) in ALL.into_iter().zip(first) {
        println!("{provider:?}: {first} before it was held");
        assert!((1..=FIRST_MAX).contains(&first), "{provider:?}: {first}");
    }
    for _ in 0..MINUTES * 60 {
        server.clock().advance(Duration::from_secs(1));
        server.settle().await;
    }
    for ((provider, _, _), first) in ALL.into_iter().zip(first) {
        let probes = refused(&server, provider) - first;
        println!("{provider:?}: {probes} probes in {MINUTES} minutes");
        assert!((MINUTES / 2..=MINUTES + 1).contains(&probes), "{provider:?}: {probes} probes");
    }
    let record = server.read(&id).await?;
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.pending), (all, all), "{record:?}");
    assert_eq!(server.sandbox().counts().accepted, DEVICES);

    for (_, kind, _) in ALL {
        let config = server.config(kind);
        server.client.admin().put_provider(server.app_id, kind, &config).await?;
    }
    let records = server.completed(&[id], Duration::from_secs(1)).await?;
    assert_eq!(records[0].counts.sent, all, "{:?}", records[0]);
    let counts = server.sandbox().counts();
    assert_eq!((counts.accepted, counts.accepted_tokens), (all + DEVICES, all), "each once");
    other_sandbox.stop().await;
    server.stop().await;
    Ok(())
}
