//! Every provider against the sandbox, over real TLS and HTTP/2, with each response that it can give.

mod chat;
mod credentials;
mod malicious;
pub(super) mod results;
mod token_renewal;
mod web_push;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use notify_core::json::JsonObject;
use notify_core::{Content, IosEnv, Message, NotificationId, Priority, ProviderKind, Timestamp};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    Address, MESSAGE_ID_BYTES_MAX, Providers, RenderedMessage, Scope, SendResult, SharedProvider,
    message_id,
};
use crate::clock::ManualClock;
use crate::outbound::Outbound;
use crate::payload::RenderContext;
use crate::provider_config::ProviderConfig;
use notify_sandbox::{
    ApnsReason, Fault, Provider, Rule, Sandbox, SandboxConfig, ScriptedResponse, apns_token,
    fcm_token,
};

const NOW: Timestamp = Timestamp(1_790_000_000_000);
const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[test]
fn only_short_and_visible_message_ids_are_kept() {
    let longest = "x".repeat(MESSAGE_ID_BYTES_MAX);
    for (id, is_kept) in [
        ("projects/p/messages/0:1500415314455276%31bd1c9631bd1c96", true),
        (&*longest, true),
        (&*format!("{longest}x"), false),
        ("", false),
        ("a b", false),
        ("a\0b", false),
        ("é", false),
    ] {
        assert_eq!(message_id(id).as_deref(), Some(id).filter(|_| is_kept), "{id}");
    }
}

struct Fixture {
    sandbox: Sandbox,
    sandbox_clock: Arc<ManualClock>,
    clock: Arc<ManualClock>,
    providers: Providers,
}

async fn fixture() -> Fixture {
    let sandbox_clock = ManualClock::at(NOW);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = SandboxConfig {
        clock: notify_sandbox::Clock::manual(sandbox_clock.watch()),
        ..SandboxConfig::default()
    };
    let sandbox = Sandbox::start(listener, config).await.unwrap();
    let clock = ManualClock::at(NOW);
    let providers = Providers::new(clock.clone(), Outbound::new(true));
    Fixture { sandbox, sandbox_clock, clock, providers }
}

impl Fixture {
    fn apns(&self) -> SharedProvider {
        self.build(ProviderKind::Apns, &self.sandbox.apns_config())
    }

    fn fcm(&self) -> SharedProvider {
        self.build(ProviderKind::Fcm, &self.sandbox.fcm_config())
    }

    fn web_push(&self) -> SharedProvider {
        self.build(ProviderKind::WebPush, &self.sandbox.webpush_config())
    }

    fn build(&self, kind: ProviderKind, config: &Value) -> SharedProvider {
        self.providers.build(&ProviderConfig::parse(kind, config).unwrap())
    }

    /// Advances the clocks of server and sandbox.
    fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.sandbox_clock.advance(by);
    }
}

fn prepare(provider: &SharedProvider) -> RenderedMessage {
    prepare_message(
        provider,
        Message {
            text: "Hello".to_owned(),
            url: Some("shop://order/1".to_owned()),
            extra: Some(notify_core::Extra {
                key: "order".to_owned(),
                value: JsonObject::new(r#"{"id":7}"#).unwrap(),
            }),
            ..Message::default()
        },
    )
}

fn prepare_message(provider: &SharedProvider, message: Message) -> RenderedMessage {
    let content = Content::Message(Box::new(message));
    let outgoing = RenderContext {
        id: &NotificationId::new(ID).unwrap(),
        app_name: "Shop",
        content: &content,
        poll_url: None,
        poll_answers: &[],
        priority: Priority::High,
        collapse_key: None,
        expires_at: Some(NOW.plus_ms(3_600_000)),
        ttl_seconds: 3_600,
    };
    provider.render(&outgoing).unwrap()
}

fn to_apns(token: &str) -> Address {
    Address::Apns { token: token.into(), env: IosEnv::Production }
}

fn to_fcm(token: &str) -> Address {
    Address::Fcm { token: token.into() }
}

/// Makes one attempt at an address to which the sandbox gives the answer `wanted`.
async fn attempt(
    provider: &SharedProvider,
    kind: ProviderKind,
    wanted: &ScriptedResponse,
) -> SendResult {
    let prepared = prepare(provider);
    let address = match kind {
        ProviderKind::Apns => to_apns(&apns_token(1, wanted)),
        _ => to_fcm(&fcm_token(1, wanted)),
    };
    provider.attempt(&prepared, &address).await
}

/// The parts of a result that the tables compare: its kind, its reason and further details.
fn describe(answer: &SendResult) -> String {
    match answer {
        SendResult::Delivered { .. } => "delivered".to_owned(),
        SendResult::Unregistered { reason, ambiguous, since } => {
            let since = if since.is_some() { " since" } else { "" };
            let ambiguous = if *ambiguous { " ambiguous" } else { "" };
            format!("dead {reason}{ambiguous}{since}")
        }
        SendResult::Retry { reason, outcome, .. } => format!("retry {reason} {outcome:?}"),
        SendResult::Throttle { reason, scope, .. } => format!("throttle {reason} {scope:?}"),
        SendResult::AuthRejected { reason } => format!("config {reason}"),
        SendResult::ServiceRefused { reason } => format!("service refused {reason}"),
        SendResult::AddressChanged { to } => format!("moved to {to}"),
        SendResult::InvalidMessage { reason } => format!("bad {reason}"),
        SendResult::NotPermitted { reason } => format!("policy {reason}"),
        SendResult::Unknown { reason } => format!("unknown {reason}"),
    }
}

#[tokio::test]
async fn apns_requests_are_valid_on_both_hosts() {
    let fixture = fixture().await;
    let apns = fixture.apns();
    let prepared = prepare(&apns);
    let token = "AB".repeat(32);
    for env in [IosEnv::Production, IosEnv::Sandbox] {
        let address = Address::Apns { token: token.clone().into(), env };
        let answer = apns.attempt(&prepared, &address).await;
        assert!(matches!(answer, SendResult::Delivered { message_id: Some(_) }), "{answer:?}");
    }
    let journal = fixture.sandbox.received();
    assert_eq!(journal.len(), 2);
    for (received, environment) in journal.iter().zip(["production", "sandbox"]) {
        assert_eq!(json!(received.environment), environment);
        assert_eq!(received.token.as_deref(), Some("ab".repeat(32).as_str()));
        assert_eq!(received.headers["apns-topic"], "com.example.notify");
        assert_eq!(received.headers["apns-push-type"], "alert");
        assert_eq!(received.headers["apns-priority"], "10");
        assert_eq!(received.headers["apns-collapse-id"], ID);
        assert_eq!(
            received.payload,
            json!({
                "aps": {"alert": {"title": "Shop", "body": "Hello"}, "sound": "default"},
                "notification_id": ID,
                "url": "shop://order/1",
                "order": {"id": 7},
            })
        );
    }
    assert_eq!(journal[0].headers["apns-id"], journal[1].headers["apns-id"], "stable on a retry");
    assert_ne!(journal[0].headers["apns-id"], ID, "and the device's own");
}

#[tokio::test]
async fn every_reason_of_apns_is_classified() {
    let fixture = fixture().await;
    let apns = fixture.apns();
    for reason in ApnsReason::ALL {
        let name = reason.name;
        let expected = match (reason.status, name) {
            (400, "BadDeviceToken") => format!("dead {name} ambiguous"),
            (410, _) => format!("dead {name} since"),
            (400, "MissingTopic" | "BadTopic" | "TopicDisallowed") | (403, _) => {
                format!("config {name}")
            }
            (400, "IdleTimeout") | (500 | 503, _) => format!("retry {name} Failed"),
            (429, "TooManyRequests") => format!("throttle {name} Address"),
            (429, _) => format!("throttle {name} Provider"),
            _ => format!("bad {name}"),
        };
        let answer = attempt(&apns, ProviderKind::Apns, &ScriptedResponse::reason(name)).await;
        assert_eq!(describe(&answer), expected);
    }
}

#[tokio::test]
async fn every_error_of_fcm_is_classified() {
    let fixture = fixture().await;
    let fcm = fixture.fcm();
    let rows = [
        ("UNREGISTERED", "dead UNREGISTERED"),
        ("NOT_FOUND", "config NOT_FOUND"),
        ("INVALID_ARGUMENT", "dead INVALID_ARGUMENT ambiguous"),
        ("BAD_REQUEST", "bad INVALID_ARGUMENT"),
        ("SENDER_ID_MISMATCH", "bad SENDER_ID_MISMATCH"),
        ("PERMISSION_DENIED", "config PERMISSION_DENIED"),
        ("UNAUTHENTICATED", "config UNAUTHENTICATED"),
        ("THIRD_PARTY_AUTH_ERROR", "config THIRD_PARTY_AUTH_ERROR"),
        ("QUOTA_EXCEEDED", "throttle QUOTA_EXCEEDED Provider"),
        ("INTERNAL", "retry INTERNAL Failed"),
        ("UNAVAILABLE", "retry UNAVAILABLE Failed"),
        ("UNSPECIFIED_ERROR", "unknown UNSPECIFIED_ERROR"),
        ("EMPTY", "retry http_503 Failed"),
    ];
    for (reason, expected) in rows {
        let answer = attempt(&fcm, ProviderKind::Fcm, &ScriptedResponse::reason(reason)).await;
        assert_eq!(describe(&answer), expected, "{reason}");
    }
    let rule = Rule::on(Provider::Fcm, ScriptedResponse::reason("DEVICE_QUOTA_EXCEEDED"));
    fixture.sandbox.add_rule(rule).unwrap();
    let answer = attempt(&fcm, ProviderKind::Fcm, &ScriptedResponse::ok()).await;
    assert!(matches!(answer, SendResult::Throttle { scope: Scope::Address, .. }), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn connection_faults_report_what_may_have_been_processed() {
    // After each failure the next connection waits a second. The test advances the clock past that.
    let fixture = fixture().await;
    for (kind, provider) in
        [(ProviderKind::Apns, fixture.apns()), (ProviderKind::Fcm, fixture.fcm())]
    {
        let always = |action| ScriptedResponse::fault(action);
        let once =
            |action| ScriptedResponse { attempts: Some(1), ..ScriptedResponse::fault(action) };
        let rows = [
            (always(Fault::Reset), "retry reset: INTERNAL_ERROR Unknown"),
            (always(Fault::Cut), "retry connection_cut Unknown"),
            (always(Fault::Refuse), "retry refused_stream NotProcessed"),
            (always(Fault::Goaway), "retry goaway NotProcessed"),
            (once(Fault::Refuse), "delivered"),
            (once(Fault::Goaway), "delivered"),
        ];
        for (wanted, expected) in rows {
            let answer = attempt(&provider, kind, &wanted).await;
            assert_eq!(describe(&answer), expected, "{kind} {wanted:?}");
        }
    }
}

#[tokio::test]
async fn fcm_requests_are_valid_over_http2_and_http1() {
    let fixture = fixture().await;
    let mut plain = fixture.sandbox.fcm_config();
    let endpoint = plain["endpoint"].as_str().unwrap().replace("https://", "http://");
    plain["endpoint"] = json!(endpoint);
    for fcm in [fixture.fcm(), fixture.build(ProviderKind::Fcm, &plain)] {
        let answer = fcm.attempt(&prepare(&fcm), &to_fcm("phone:1")).await;
        let SendResult::Delivered { message_id: Some(name) } = answer else {
            panic!("not delivered: {answer:?}");
        };
        assert!(name.starts_with("projects/"), "{name}");
    }
    let journal = fixture.sandbox.received();
    assert_eq!(journal.len(), 2);
    for received in journal {
        assert_eq!(
            received.payload,
            json!({"message": {
                "token": "phone:1",
                "notification": {"title": "Shop", "body": "Hello"},
                "data": {
                    "notification_id": ID,
                    "url": "shop://order/1",
                    "order": "{\"id\":7}",
                },
                "android": {"priority": "HIGH", "ttl": "3600s", "notification": {"tag": ID}},
            }})
        );
    }
}

#[tokio::test]
async fn a_thousand_messages_share_few_connections_and_one_access_token() {
    let fixture = fixture().await;
    let (apns, fcm) = (fixture.apns(), fixture.fcm());
    let (to_ios, to_android) = (prepare(&apns), prepare(&fcm));
    assert_eq!(
        (apns.max_concurrency(), fcm.max_concurrency()),
        (100, 100),
        "assumed before the first connection"
    );
    let sends = (0..500).map(|seed| {
        let (apns, fcm, to_ios, to_android) = (&apns, &fcm, &to_ios, &to_android);
        async move {
            let ios = to_apns(&apns_token(seed, &ScriptedResponse::ok()));
            let android = to_fcm(&fcm_token(seed, &ScriptedResponse::ok()));
            tokio::join!(apns.attempt(to_ios, &ios), fcm.attempt(to_android, &android))
        }
    });
    for (ios, android) in join_all(sends).await {
        assert!(matches!(ios, SendResult::Delivered { .. }), "{ios:?}");
        assert!(matches!(android, SendResult::Delivered { .. }), "{android:?}");
    }
    let counts = fixture.sandbox.counts();
    assert_eq!((counts.accepted, counts.refused_streams), (1_000, 0));
    assert!(counts.connections <= 4, "{} connections", counts.connections);
    let exchanges = counts.answers.iter().filter(|count| count.provider == Provider::Oauth);
    assert_eq!(exchanges.map(|count| count.count).sum::<u64>(), 1, "single flight");
    assert_eq!((apns.max_concurrency(), fcm.max_concurrency()), (1_000, 1_000));
}

#[tokio::test]
async fn address_of_another_provider_is_refused_without_a_request() {
    let fixture = fixture().await;
    let apns = fixture.apns();
    let answer = apns.attempt(&prepare(&apns), &to_fcm("a")).await;
    assert_eq!(describe(&answer), "bad address_of_another_provider");
    let fcm = fixture.fcm();
    let answer = fcm.attempt(&prepare(&fcm), &to_apns("aa")).await;
    assert_eq!(describe(&answer), "bad address_of_another_provider");
}
