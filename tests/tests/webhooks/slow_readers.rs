//! Clients that open the event stream and read nothing. The server disconnects each of them, other readers
//! are not delayed, and unread events use no memory.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use notify_tests::{Caller, Launch, ServerProcess, until};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::reader::{Endpoint, Reading, get, take};

/// The number of readers that read nothing: one less than the streams that an application may have.
const SLOW: usize = 9;
/// The reported events: every device opens and clicks every notification. The ids have the maximum length, so
/// that the events exceed the buffers of the sockets and the server.
const DEVICES: usize = 80;
const NOTIFICATIONS: usize = 100;
const EVENTS: usize = DEVICES * NOTIFICATIONS * 2;
const ID_CHARS: usize = 255;
/// The most additional memory of the server, in bytes. It is less than the size of the unread events, which is
/// about 90 MiB.
const MEMORY_BYTES_MAX: u64 = 80 * 1_024 * 1_024;
/// The receive buffer of a slow reader, in bytes.
const RECEIVE_BYTES: u32 = 4_096;

fn id(kind: &str, number: usize) -> String {
    format!("{kind}-{number:0>width$}", width = ID_CHARS - kind.len() - 1)
}

/// Opens a stream, reads its head, and then reads nothing.
async fn slow(server: &ServerProcess, key: &str) -> Result<TcpStream> {
    let address: SocketAddr = server.origin.trim_start_matches("http://").parse()?;
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BYTES)?;
    let mut stream = socket.connect(address).await?;
    // A response to HTTP/1.0 has a plain body that ends with the connection.
    let asked =
        format!("GET /v1/events/stream HTTP/1.0\r\nhost: {address}\r\nx-api-key: {key}\r\n\r\n");
    stream.write_all(asked.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(notify_tests::WAIT_MAX, stream.read_u8()).await??);
    }
    let head = String::from_utf8(head)?;
    ensure!(head.contains(" 200 "), "{head}");
    Ok(stream)
}

/// Reports all events.
async fn report(caller: &Caller) -> Result<()> {
    for number in 0..NOTIFICATIONS {
        let notification = id("own", number);
        let events: Vec<_> = (0..DEVICES)
            .flat_map(|device| [("opened", device), ("clicked", device)])
            .map(|(kind, device)| {
                json!({"type": kind, "notification_id": notification,
                    "device_id": id("phone", device)})
            })
            .collect();
        let answer = caller.post("/v1/events", &json!({"events": events})).await.ok();
        ensure!(answer["accepted"] == events.len(), "{answer}");
    }
    Ok(())
}

/// Resets the kernel's record of the peak memory. Returns the current memory of the server.
fn begin_peak(server: &ServerProcess) -> Result<u64> {
    // 5 resets the peak: proc_pid_clear_refs(5).
    std::fs::write(format!("/proc/{}/clear_refs", server.id()?), "5")?;
    server.memory_peak()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_disconnected_and_delays_no_others() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // Freed memory is returned at once, so that the peak is what the streams hold.
    let launch = Launch::on(folder.path()).variable("MIMALLOC_PURGE_DELAY", "0");
    let server = launch.start().await?;
    let key = server.api_key.clone().context("the first start shows a key")?;
    let (caller, at) =
        (Caller::app(&server.origin, &key), Endpoint { origin: &server.origin, key: &key });
    for number in 0..DEVICES {
        let phone = json!({"device_id": id("phone", number), "platform": "android",
            "sdk_type": "android_push"});
        caller.post("/v1/devices", &phone).await.ok();
    }
    for number in 0..NOTIFICATIONS {
        let own = json!({"id": id("own", number), "text": "t", "platforms": ["android"]});
        caller.post("/v1/notifications/notify", &own).await.ok();
    }
    let mut reading = Reading::open(at, "", None).await?;
    let mut slow = try_join_all((0..SLOW).map(|_| slow(&server, &key))).await?;
    assert_eq!(get(at, "", None).await?.status(), 429, "they take the places that there are");

    let before = begin_peak(&server)?;
    let read = async {
        let mut ids = Vec::new();
        while ids.len() < EVENTS {
            ids.push(reading.next().await?.context("an event")?.id);
        }
        anyhow::Ok(ids)
    };
    let ((), ids) = tokio::try_join!(report(&caller), read)?;
    // The fast reader got all events. The slow readers were disconnected.
    let mut others = Vec::new();
    for _ in 0..SLOW {
        let other = until("a slow reader is cut", async || {
            let other = get(at, "?types=device.unregistered", None).await?;
            Ok((other.status() == 200).then_some(other))
        });
        others.push(other.await?);
    }
    let memory = server.memory_peak()?.saturating_sub(before);
    println!("{SLOW} slow readers, {EVENTS} events: {} KiB more at the most", memory / 1_024);
    ensure!(memory <= MEMORY_BYTES_MAX, "{memory} bytes");
    drop((others, reading));

    // The bytes that a slow reader got end within a line. It connects again and misses no event.
    let mut rest = Vec::new();
    let whole = slow[0].read_to_end(&mut rest);
    timeout(notify_tests::WAIT_MAX, whole).await.context("the connection ends")??;
    let end = rest.iter().rposition(|byte| *byte == b'\n').context("an event")?;
    let mut text = String::from_utf8(rest[..=end].to_vec())?;
    let mut seen = Vec::new();
    while let Some(shown) = take(&mut text)? {
        seen.push(shown.id);
    }
    ensure!(!seen.is_empty() && seen.len() < EVENTS, "{} events were sent", seen.len());
    let mut again = until("there is a place", async || {
        Ok(Reading::open(at, "", seen.last().map(String::as_str)).await.ok())
    })
    .await?;
    while seen.len() < EVENTS {
        seen.push(again.next().await?.context("an event")?.id);
    }
    ensure!(seen == ids, "each came once and in order");
    server.kill().await
}
