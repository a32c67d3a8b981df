//! An attempt never reaches a private address, whatever its host name resolves to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use notify_core::{Timestamp, WebhookMessageId, WebhookTested};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::*;
use crate::clock::ManualClock;
use crate::outbound::tests::TestResolver;
use crate::store::MessageNo;

const NOW: Timestamp = Timestamp(1_790_000_000_000);
/// The tests treat this loopback address as public.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A host that counts connections and closes them.
struct Host {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Host {
    async fn on(ip: IpAddr) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::default());
        let counted = Arc::<AtomicUsize>::clone(&connections);
        tokio::spawn(async move {
            while let Ok(connection) = listener.accept().await {
                // Counted before the connection is closed: when the client sees the end, the count
                // is complete.
                counted.fetch_add(1, Ordering::SeqCst);
                drop(connection);
            }
        });
        Self { address, connections }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn attempts(guard: Outbound) -> Attempts {
    let key = BASE64.encode([7; 32]).into();
    let master_key = Arc::new(MasterKey::from_base64(&key).unwrap());
    let http = Http1::to_users(&guard);
    Attempts { clock: ManualClock::at(NOW), guard, master_key, http }
}

fn message() -> ClaimedMessage {
    let webhook_id = WebhookId(Uuid::from_u128(2));
    ClaimedMessage {
        no: MessageNo(1),
        id: WebhookMessageId(Uuid::from_u128(3)),
        at: NOW,
        data: WebhookData::WebhookTest(WebhookTested { webhook_id }),
        attempts: 0,
        started_at: NOW,
    }
}

fn webhook(attempts: &Attempts, url: &str) -> ClaimedWebhook {
    let (app, id) = (AppId(Uuid::from_u128(1)), WebhookId(Uuid::from_u128(2)));
    ClaimedWebhook {
        app,
        id,
        url: url.to_owned(),
        sealed: make_secret(&attempts.master_key, app, id).sealed,
        previous_sealed: None,
        messages: Vec::new(),
    }
}

#[tokio::test]
async fn name_is_resolved_for_each_attempt_and_private_addresses_refused() {
    let (public, inside) = (Host::on(PUBLIC).await, Host::on(Ipv4Addr::LOCALHOST.into()).await);
    let names = Arc::new(TestResolver::default());
    names.answers("inside.example", &[inside.address]);
    names.answers("mixed.example", &[inside.address, public.address]);
    // Resolves to a public address once, and to a private address afterwards.
    names.answers("rebinds.example", &[public.address]);
    names.answers("rebinds.example", &[inside.address]);
    let attempts = attempts(Outbound::over_with(names, PUBLIC));
    // Url, number of connections to the public address, and the reason. A name with only private
    // addresses gives the same reason as an unknown name.
    for (url, reaches, reason) in [
        ("https://rebinds.example/hook", 1, None),
        ("https://rebinds.example/hook", 0, Some("connect_failed")),
        ("https://rebinds.example/hook", 0, Some("connect_failed")),
        ("https://mixed.example/hook", 1, None),
        ("https://inside.example/hook", 0, Some("connect_failed")),
        ("https://nobody.example/hook", 0, Some("connect_failed")),
        ("https://127.0.0.1/hook", 0, Some(ADDRESS_NOT_ALLOWED)),
        ("https://0x7f.1/hook", 0, Some(ADDRESS_NOT_ALLOWED)),
    ] {
        let before = public.connections();
        let ended = attempts.make(&webhook(&attempts, url), &message()).await;
        // The host does not speak TLS, so no attempt succeeds.
        assert_eq!((ended.step, ended.status), (MessageStep::Failed, None), "{url}");
        assert!(reason.is_none() || ended.reason == reason, "{url}: {ended:?}");
        assert_eq!(public.connections() - before, reaches, "{url}");
    }
    assert_eq!(inside.connections(), 0);
}

#[test]
fn signature_matches_the_published_vector() {
    let secret = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let body = br#"{"test": 2432232314}"#;
    let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    assert_eq!(signature_header([secret.as_slice()], id, 1_614_265_330, body), expected);
    let both = signature_header([secret.as_slice(), b"before"], id, 1_614_265_330, body);
    let (first, second) = both.split_once(' ').unwrap();
    assert_eq!(first, expected);
    assert!(second.starts_with("v1,") && second != expected);
}
