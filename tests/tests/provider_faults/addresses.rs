//! S4: a delivery to a private address fails at once, and its error reveals nothing about the address. The
//! tests of the guard (S1 to S3) show that the server never connects to such an address, in whichever
//! notation it is written.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use http::Method;
use notify_core::{CreateNotification, DeviceId, FailureCount, Platform};
use notify_sandbox::ScriptedResponse;
use notify_tests::{TestServer, browser};
use serde_json::json;
use tokio::net::TcpListener;

/// The browsers whose push service is on this machine.
const BROWSERS: u64 = 20;

#[tokio::test]
async fn a_delivery_to_a_private_address_fails_at_once_and_reveals_nothing() -> Result<()> {
    let mut server = TestServer::start().await;
    for seed in 0..BROWSERS {
        browser(&server.client(), server.sandbox(), &format!("w{seed}"), &ScriptedResponse::ok())
            .await?;
    }
    // From now on the guard treats this machine as private.
    server.restart_with(|config| config.allow_private_networks = false).await;
    server.sandbox().clear();
    let client = server.client();
    let notification = CreateNotification::to_platforms([Platform::Web], "x");
    let id = client.notifications().create(&notification).await?.id;
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.targeted, record.counts.failed), (BROWSERS, BROWSERS));
    let reason = "address_not_allowed".to_owned();
    let all = FailureCount { platform: Platform::Web, reason, count: BROWSERS };
    assert_eq!(record.failures, [all]);
    let counts = server.sandbox().counts();
    assert_eq!((counts.connections, counts.failed_handshakes, counts.received), (0, 0, 0));
    let device = DeviceId::new("w0").map_err(anyhow::Error::msg)?;
    let explanation = serde_json::to_string(&client.notifications().explain(&id, &device).await?)?;
    for secret in ["127.0.0.1", "refused", "timeout", "connect"] {
        assert!(!explanation.contains(secret), "{secret}: {explanation}");
    }
    assert!(client.devices().get(&device).await?.enabled, "the address is not dead");
    server.stop().await;
    Ok(())
}

/// The response does not reveal whether a port is open.
#[tokio::test]
async fn private_addresses_are_rejected_alike_whether_or_not_a_port_is_open() -> Result<()> {
    let server = TestServer::start_with(|config| config.allow_private_networks = false).await;
    let caller = server.caller();
    let canary = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let open = canary.local_addr()?.port();
    let closed = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        listener.local_addr()?.port()
    };
    let made = server.sandbox().subscribe(None, &ScriptedResponse::ok())?;
    let mut answers = Vec::new();
    for port in [open, closed] {
        for host in ["127.0.0.1", "localhost", "127.1", "2130706433", "[::1]", "[::ffff:7f00:1]"] {
            let subscription = json!({
                "endpoint": format!("https://{host}:{port}/push"),
                "keys": {"p256dh": made.p256dh, "auth": made.auth},
            });
            let body = json!({"platform": "web", "subscription": subscription}).to_string();
            let reply = caller.send(&Method::POST, "/v1/subscriptions", body).await?;
            assert_eq!(reply.status, 400, "{host}: {}", reply.text);
            answers.push(reply.errors().context("errors")?);
        }
    }
    let (listening, silent) = answers.split_at(answers.len() / 2);
    assert_eq!(listening, silent);
    let accepted = tokio::time::timeout(std::time::Duration::ZERO, canary.accept()).await;
    assert!(accepted.is_err(), "no connection was made");
    server.stop().await;
    Ok(())
}
