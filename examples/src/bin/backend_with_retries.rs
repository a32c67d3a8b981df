//! A shop's backend that confirms orders by push, over a network that loses responses. Calls are
//! retried. The `Idempotency-Key` ensures that a retry does not notify the customer again.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use notify_client::Client;
use notify_client::notify_core::json::JsonObject;
use notify_client::notify_core::{
    CreateNotification, ListNotifications, NotificationId, RegisterDevice,
};
use notify_tests::{TestServer, WAIT_MAX};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// The part of the backend that notifies customers of their orders.
struct Orders {
    notify: Client,
}

impl Orders {
    /// Notifies a customer that an order was placed. The call can be repeated, even after a crash. The
    /// key is derived from the order, and for a known key the server repeats its first response.
    async fn confirm(
        &self,
        order: u32,
        device: &str,
    ) -> Result<NotificationId, notify_client::Error> {
        let details = JsonObject::from_serialize(&serde_json::json!({ "number": order }))
            .expect("it is an object");
        let text = format!("We are packing your order {order}");
        let notification = CreateNotification::to_devices([device], [], text)
            .expect("a device is named")
            .url(format!("shop://orders/{order}"))
            .extra("order", details);
        let notifications = self.notify.notifications();
        let once = notifications.idempotency_key(format!("order-{order}-confirmed"));
        Ok(once.create(&notification).await?.id)
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = TestServer::start().await;
    server.client().devices().register(&RegisterDevice::android("ada", "fcm-token-of-ada")).await?;

    let flaky = lose_answers(server.origin(), 2).await?;
    let notify = Client::builder(&format!("http://{flaky}"))
        .api_key(server.api_key())
        .timeout(Duration::from_secs(10))
        .retries(4)
        .build()?;
    let shop = Orders { notify };

    let first = shop.confirm(1042, "ada").await?;
    println!("two answers were lost, the third came: notification {first}");

    let again = shop.confirm(1042, "ada").await?;
    println!("the backend restarts and confirms again:  {again}");
    ensure!(first == again, "the key did not hold");

    server.completed(&first).await?;
    let list = server.client().notifications().list(&ListNotifications::default()).await?;
    let arrived = server.sandbox().wait_for(1, WAIT_MAX).await;
    println!("notifications made: {}, pushes sent: {}", list.notifications.len(), arrived.len());
    ensure!(list.notifications.len() == 1 && arrived.len() == 1);
    server.stop().await;
    Ok(())
}

/// A network that forwards every request but loses the first `lost` responses. The server has processed such
/// a request, but the caller cannot know this.
async fn lose_answers(origin: &str, lost: usize) -> anyhow::Result<SocketAddr> {
    let server = origin.strip_prefix("http://").context("the server speaks http")?.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let mut connections = 0;
        while let Ok((client, _)) = listener.accept().await {
            connections += 1;
            let loses = connections <= lost;
            tokio::spawn(hand_on(client, server.clone(), loses));
        }
    });
    Ok(address)
}

async fn hand_on(mut client: TcpStream, server: String, loses: bool) -> anyhow::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    if !loses {
        copy_bidirectional(&mut client, &mut server).await?;
        return Ok(());
    }
    let mut request = [0; 4_096];
    loop {
        let mut answer = [0; 1];
        tokio::select! {
            read = client.read(&mut request) => server.write_all(&request[..read?]).await?,
            read = server.read(&mut answer) => {
                read?;
                println!("(an answer is lost)");
                return Ok(());
            }
        }
    }
}
