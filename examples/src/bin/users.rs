//! Logs two people in, gives one of them an attribute, and sends to a person and to a segment. After the log-out
//! a phone gets nothing for the person who used it before.

use anyhow::ensure;
use notify_client::Client;
use notify_client::notify_core::{
    Audience, CreateNotification, DeviceId, PatchAttributes, PatchUser, Platform, PreviewSegment,
    PutSegment, RegisterDevice, SegmentName, UserId,
};
use notify_tests::{TestServer, WAIT_MAX};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = TestServer::start().await;
    let notify = Client::builder(server.origin()).api_key(server.api_key()).build()?;
    let (ada, bob): (UserId, UserId) = ("ada".parse()?, "bob".parse()?);
    let pixel: DeviceId = "pixel-7".parse()?;
    let paying: SegmentName = "paying".parse()?;

    // The backend logs a device in when a person signs in to the app on it.
    for (device, user) in [("pixel-7", &ada), ("tablet", &ada), ("fairphone", &bob)] {
        let token = format!("fcm-token-of-{device}");
        notify.devices().register(&RegisterDevice::android(device, token)).await?;
        notify.devices().log_in(&device.parse()?, user).await?;
    }

    // A person is reached on every device that they use.
    let shipped = CreateNotification::to_users(["ada"], "Your order is on its way")?;
    notify.notifications().create(&shipped).await?;
    let arrived = server.sandbox().wait_for(2, WAIT_MAX).await;
    println!("the message to ada arrived at {} devices", arrived.len());
    ensure!(arrived.len() == 2);

    // A segment is an audience with a name. Attributes of a user count for all of the user's devices.
    let plan = PatchAttributes::default().set("plan", "pro");
    notify.users().update(&bob, &PatchUser { attributes: Some(plan) }).await?;
    let condition =
        Audience::attribute("plan").is("pro").and(Audience::platform().is(Platform::Android));
    println!("the segment {paying}: {condition}");
    let size = notify.segments().preview(&PreviewSegment::new(condition.clone())).await?;
    ensure!(size.platforms.iter().map(|platform| platform.devices).sum::<u64>() == 1);
    notify.segments().put(&paying, &PutSegment::new(condition)).await?;
    let thanks =
        CreateNotification::to_platforms([Platform::Android], "Thank you for your support")
            .audience(Audience::segment("paying"));
    notify.notifications().create(&thanks).await?;
    let arrived = server.sandbox().wait_for(3, WAIT_MAX).await;
    println!("the message to the segment arrived at {} device", arrived.len() - 2);
    ensure!(arrived[2].token.as_deref() == Some("fcm-token-of-fairphone"));

    // After a log-out, nothing for ada starts to that phone.
    notify.devices().log_out(&pixel).await?;
    notify.notifications().create(&shipped).await?;
    let arrived = server.sandbox().wait_for(4, WAIT_MAX).await;
    ensure!(arrived[3].token.as_deref() == Some("fcm-token-of-tablet"));
    println!("after the log-out of {pixel}, ada is reached on the tablet alone");
    server.stop().await;
    Ok(())
}
