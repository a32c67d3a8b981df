//! The audience of a notification, and the APNs host of each device.

use anyhow::Result;
use notify_core::{CreateNotification, IosEnv, Platform, SetTags, Tag};
use notify_sandbox::{Environment, ReceivedRequest, ScriptedResponse};
use notify_tests::{TestServer, android, ios, register};

use crate::{BOTH, send};

#[tokio::test]
async fn listed_devices_and_a_tag_select_the_audience() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let ok = ScriptedResponse::ok();
    register(&client, (1..=4).flat_map(|seed| [android(seed, &ok), ios(seed, &ok)])).await?;
    let mut push_disabled = android(5, &ok);
    push_disabled.push_disabled = Some(true);
    let mut without_token = ios(5, &ok);
    without_token.push_token = None;
    register(&client, [push_disabled, without_token]).await?;
    let vip = SetTags { tags: vec![Tag::new("vip", true)] };
    for id in ["a1", "i1", "i2", "a5"] {
        client.devices().set_tags(&device(id)?, &vip).await?;
    }
    let vip_is_false = SetTags { tags: vec![Tag::new("vip", false)] };
    client.devices().set_tags(&device("a2")?, &vip_is_false).await?;

    let tokens = |received: &[ReceivedRequest]| {
        let mut tokens: Vec<_> =
            received.iter().filter_map(|message| message.token.clone()).collect();
        tokens.sort();
        tokens
    };
    let expected = |devices: &[&str]| {
        let mut tokens: Vec<_> = devices.iter().map(|id| token(id)).collect();
        tokens.sort();
        tokens
    };
    let tagged = CreateNotification::to_platforms(BOTH, "t").tag("vip");
    let (record, received) = send(&server, &tagged).await?;
    assert_eq!(tokens(&received), expected(&["a1", "i1", "i2"]));
    assert_eq!((record.counts.targeted, record.counts.excluded), (3, 0));

    // With ids, the platforms are ignored. Duplicate ids count once, and unknown ids are counted separately.
    let mut named = CreateNotification::to_devices(
        ["a1", "a1", "a2", "a5", "ghost", "i1"],
        ["i1", "i3", "i5"],
        "t",
    )?;
    named.platforms = Some(vec!["web".into(), "toaster".into()]);
    let (record, received) = send(&server, &named).await?;
    assert_eq!(tokens(&received), expected(&["a1", "a2", "i1", "i3"]));
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.sent), (4, 4));
    assert_eq!(counts.unknown, 2, "`ghost`, and `i1`, which is not an Android device");
    assert_eq!(counts.excluded, 2, "`a5` is disabled, and `i5` has no token");

    let (record, received) = send(&server, &named.tag("vip")).await?;
    assert_eq!(tokens(&received), expected(&["a1", "i1"]));
    assert_eq!(record.counts.targeted, 2);
    assert_eq!(record.counts.excluded, 4, "`a2` and `i3` lack the tag, too");

    let unused_tag = CreateNotification::to_platforms([Platform::Ios], "t").tag("unused");
    let (record, received) = send(&server, &unused_tag).await?;
    assert_eq!((record.counts.targeted, received.len()), (0, 0));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_environment_of_a_device_selects_the_apns_host() -> Result<()> {
    let server = TestServer::start().await;
    let ok = ScriptedResponse::ok();
    let devices = [
        ios(1, &ok).ios_env(IosEnv::Sandbox),
        ios(2, &ok).ios_env(IosEnv::Production),
        ios(3, &ok),
    ];
    register(&server.client(), devices).await?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x");
    let (_, received) = send(&server, &notification).await?;
    let mut hosts: Vec<_> =
        received.iter().map(|message| (message.token.clone(), message.environment)).collect();
    hosts.sort_by(|left, right| left.0.cmp(&right.0));
    let expected = [
        (Some(token("i1")), Some(Environment::Sandbox)),
        (Some(token("i2")), Some(Environment::Production)),
        (Some(token("i3")), Some(Environment::Production)),
    ];
    assert_eq!(hosts, expected);
    server.stop().await;
    Ok(())
}

fn device(id: &str) -> Result<notify_core::DeviceId> {
    notify_core::DeviceId::new(id).map_err(anyhow::Error::msg)
}

/// The token of a reachable device of the kit.
fn token(id: &str) -> String {
    let seed = id[1..].parse().expect("devices are numbered");
    let device = if id.starts_with('a') {
        android(seed, &ScriptedResponse::ok())
    } else {
        ios(seed, &ScriptedResponse::ok())
    };
    device.push_token.expect("devices of the kit have tokens")
}
