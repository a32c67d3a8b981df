//! Registers a device and sends a notification to it. The sandbox, a fake FCM, shows the received message.

use anyhow::ensure;
use notify_client::Client;
use notify_client::notify_core::{CreateNotification, NotificationStatus, RegisterDevice};
use notify_tests::{TestServer, WAIT_MAX};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Your program uses the address of your server and the key that the server printed on its first start.
    let server = TestServer::start().await;
    let notify = Client::builder(server.origin()).api_key(server.api_key()).build()?;

    let phone = RegisterDevice::android("pixel-7", "fcm-token-of-pixel-7");
    notify.devices().register(&phone).await?;
    println!("registered the device pixel-7");

    let hello = CreateNotification::to_devices(["pixel-7"], [], "Hello from Notify")?
        .url("https://example.com/welcome");
    let id = notify.notifications().create(&hello).await?.id;
    println!("accepted the notification {id}");

    let arrived = server.sandbox().wait_for(1, WAIT_MAX).await;
    ensure!(arrived.len() == 1, "it did not arrive");
    println!("FCM took it as {}:", arrived[0].message_id.as_deref().unwrap_or_default());
    println!("{}", serde_json::to_string_pretty(&arrived[0].payload)?);
    let message = &arrived[0].payload["message"];
    ensure!(message["token"] == "fcm-token-of-pixel-7");
    ensure!(message["notification"]["body"] == "Hello from Notify");

    server.completed(&id).await?;
    let record = notify.notifications().get(&id).await?;
    println!(
        "{}: {} of {} sent",
        record.status.as_str(),
        record.counts.sent,
        record.counts.targeted
    );
    ensure!(record.status == NotificationStatus::Completed && record.counts.sent == 1);
    server.stop().await;
    Ok(())
}
