//! Webhooks and the contents of their messages.

use macro_rules_attribute::apply;
use notify_core::{
    Event, EventType, NewWebhook, NotificationId, NotificationStatus, Platform, PollVote,
    Timestamp, WebhookChange, WebhookData, WebhookEventType, WebhookId, WebhookMessageId,
    WebhookOutcome,
};
use uuid::Uuid;

use super::fixtures::{self, NOW, id};
use super::{is_unknown, refusal};
use crate::store::{
    AppNo, AttemptOutcome, Checkpoint, ClaimedMessage, ClaimedWebhook, DeadAddress, EventCursor,
    EventTypes, MessageStep, Outcome, SealedSecret, SecretRotation, Store, Visitor, WEBHOOKS_MAX,
    WebhookClaim, WebhookNo,
};

pub(super) const CLAIM: i64 = 77;
const URL: &str = "https://hook.example/x";

pub(super) fn message_id() -> WebhookMessageId {
    WebhookMessageId(Uuid::now_v7())
}

pub(super) async fn webhook(store: &Store, app: AppNo, events: &[WebhookEventType]) -> WebhookId {
    let secret = SealedSecret { id: WebhookId(Uuid::now_v7()), sealed: vec![1] };
    let new = NewWebhook { url: URL.to_owned(), events: events.to_vec(), description: None };
    fixtures::now(store.create_webhook(app, new, secret, NOW, None).await.unwrap()).id
}

/// Claims messages of the only webhook with work.
pub(super) async fn claimed(store: &Store, now: Timestamp, limit: u32) -> ClaimedWebhook {
    let ready = store.webhook_work(now).await.unwrap().ready;
    let [only] = ready[..] else { panic!("one webhook has something to do: {ready:?}") };
    store.claim_messages(claim(only, now, limit)).await.unwrap().unwrap()
}

pub(super) fn claim(webhook: WebhookNo, now: Timestamp, limit: u32) -> WebhookClaim {
    let ids = std::iter::repeat_with(message_id).take(100).collect();
    WebhookClaim { webhook, now, lease_until: now.plus_ms(40_000), claim: CLAIM, limit, ids }
}

pub(super) fn outcome(
    webhook: WebhookNo,
    message: &ClaimedMessage,
    step: MessageStep,
) -> AttemptOutcome {
    AttemptOutcome {
        webhook,
        message: message.no,
        claim: CLAIM,
        step,
        status: Some(500),
        reason: (step != MessageStep::Delivered).then_some("status"),
        latency_ms: 12,
        at: NOW,
        url: URL.to_owned(),
        is_gone: false,
        failing_before: NOW.plus_ms(-1),
    }
}

/// A notification, reported, and a device; an event about both.
pub(super) async fn opened(store: &Store, app: AppNo, device: &str, kind: EventType) {
    let report = fixtures::report("n-1");
    let _ = store.record_report(app, report, None).await;
    let event = Event {
        kind,
        notification_id: NotificationId::new("n-1").unwrap(),
        device_id: id(device),
        at: Some(Timestamp(5)),
    };
    fixtures::now(store.record_events(app, vec![event], NOW, None).await.unwrap());
}

/// Creates a webhook and an event of a device for it.
pub(super) async fn one_of_each(store: &Store, app: AppNo, device: &str) {
    webhook(store, app, &[WebhookEventType::EngagementOpened]).await;
    opened(store, app, device, EventType::Opened).await;
    for ready in store.webhook_work(NOW).await.unwrap().ready {
        store.claim_messages(claim(ready, NOW, 10)).await.unwrap().unwrap();
    }
}

/// Independent of the application.
#[apply(contract)]
async fn oldest_webhook_is_served_first(store: &Store) {
    let (first, second) = (fixtures::app(store).await, fixtures::app(store).await);
    for app in [second, first] {
        fixtures::devices(store, app, 1).await;
        webhook(store, app, &[WebhookEventType::EngagementOpened]).await;
        opened(store, app, "d000", EventType::Opened).await;
    }
    let ready = store.webhook_work(NOW).await.unwrap().ready;
    let apps: Vec<_> = ready.iter().map(|webhook| AppNo::from_key(webhook.0)).collect();
    assert_eq!(apps, [second, first]);
}

#[apply(contract)]
async fn webhook_reads_back_after_creation_and_change(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let id = webhook(store, app, &[WebhookEventType::PollAnswered]).await;
    let made = store.webhook(app, id, NOW).await.unwrap();
    assert_eq!((made.id, made.enabled, made.pending, made.dropped), (id, true, 0, 0));
    assert_eq!(made.events, [WebhookEventType::PollAnswered]);
    assert!(is_unknown(&store.webhook(other_app, id, NOW).await));
    let change = WebhookChange {
        events: Some(Vec::new()),
        description: Some("shop".into()),
        enabled: Some(false),
        url: None,
    };
    store.change_webhook(app, id, change, NOW.plus_ms(1)).await.unwrap();
    let changed = store.webhook(app, id, NOW).await.unwrap();
    assert_eq!((changed.events.len(), changed.enabled), (0, false));
    assert_eq!(changed.description.as_deref(), Some("shop"));
    assert_eq!((changed.url, changed.updated_at), (made.url, NOW.plus_ms(1)));
    let secret = SealedSecret { id, sealed: vec![2] };
    let rotation = SecretRotation { secret, at: NOW, previous_until: NOW.plus_ms(10) };
    fixtures::now(store.rotate_webhook(app, rotation, None).await.unwrap());
    let until = async |now| store.webhook(app, id, now).await.unwrap().previous_secret_until;
    assert_eq!(until(NOW).await, Some(NOW.plus_ms(10)));
    assert_eq!(until(NOW.plus_ms(10)).await, None);
    let listed = store.list_webhooks(app, fixtures::page(10), NOW).await.unwrap();
    assert_eq!(listed.rows.len(), 1);
    store.delete_webhook(app, id).await.unwrap();
    assert!(is_unknown(&store.delete_webhook(app, id).await));
    assert!(is_unknown(&store.webhook(app, id, NOW).await));
}

#[apply(contract)]
async fn webhooks_per_application_are_limited(store: &Store) {
    let app = fixtures::app(store).await;
    for _ in 0..WEBHOOKS_MAX {
        webhook(store, app, &[]).await;
    }
    let secret = SealedSecret { id: WebhookId(Uuid::now_v7()), sealed: vec![1] };
    let new = NewWebhook { url: "https://hook.example/".into(), events: vec![], description: None };
    let broken = refusal(store.create_webhook(app, new, secret, NOW, None).await);
    assert_eq!(broken, format!("url: an application has at most {WEBHOOKS_MAX} webhooks"));
}

#[apply(contract)]
async fn events_without_subscribers_are_not_stored(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    webhook(store, other_app, &[]).await;
    let quiet = webhook(store, app, &[WebhookEventType::PollAnswered]).await;
    fixtures::devices(store, app, 1).await;
    opened(store, app, "d000", EventType::Opened).await;
    let slice = store.read_events(app, EventCursor::End, EventTypes::EVERY).await.unwrap();
    assert!(slice.events.is_empty() && !slice.more);
    assert!(store.webhook_work(NOW).await.unwrap().ready.is_empty());
    let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
    store.change_webhook(app, quiet, change, NOW).await.unwrap();
    assert!(store.webhook_work(NOW).await.unwrap().ready.is_empty());
}

#[apply(contract)]
async fn events_contain_their_references(store: &Store) {
    let app = fixtures::app(store).await;
    webhook(store, app, &[]).await;
    fixtures::devices(store, app, 2).await;
    opened(store, app, "d000", EventType::Opened).await;
    opened(store, app, "d000", EventType::Opened).await;
    opened(store, app, "d000", EventType::Received).await;
    opened(store, app, "d000", EventType::Clicked).await;
    // A poll with two votes of a device, one without a device, and two of a visitor.
    let mut poll = fixtures::broadcast(&[Platform::Ios]);
    let draft = fixtures::poll();
    poll.poll = Some(draft.clone());
    let poll = fixtures::accepted(store, app, poll).await;
    for device in [Some("d001"), Some("d001"), None] {
        let vote = PollVote { device_id: device.map(id) };
        let answer = draft.answers[0];
        store.answer_poll(app, poll.clone(), answer, vote, NOW, None).await.unwrap();
    }
    let [first, second] = [draft.answers[0], draft.answers[1]];
    for answer in [second, first] {
        let visitor = Visitor([9; 16]);
        store.answer_public_poll(draft.public_id, answer, visitor, NOW).await.unwrap();
    }
    let messages = claimed(store, NOW, 10).await.messages;
    let (engaged, answered) = messages.split_at(2);
    let kinds: Vec<_> = engaged.iter().map(|message| message.data.kind()).collect();
    assert_eq!(kinds, ["engagement.opened", "engagement.clicked"]);
    let answers: Vec<_> = answered
        .iter()
        .map(|message| match &message.data {
            WebhookData::PollAnswered(answered) => {
                assert_eq!(answered.poll_id, poll);
                (answered.answer_id, answered.device_id.clone())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answers, [(first, Some(id("d001"))), (first, None), (second, None)]);
}

#[apply(contract)]
async fn completion_event_depends_on_the_result(store: &Store) {
    let app = fixtures::app(store).await;
    webhook(store, app, &[]).await;
    fixtures::devices(store, app, 1).await;
    for settled in [Outcome::Sent, Outcome::Expired, Outcome::Unregistered] {
        let dispatch = fixtures::android_dispatch(store, app).await;
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        let last = Checkpoint {
            settled: vec![fixtures::outcome(keys[0], settled, None)],
            finished: true,
            ..fixtures::checkpoint(page, 1)
        };
        store.checkpoint(last).await.unwrap();
    }
    // One without devices, and one that is canceled before it starts.
    fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Web])).await;
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    let dispatch = store.dispatch(started[0]).await.unwrap();
    fixtures::whole_page(store, &dispatch).await;
    let canceled = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Web])).await;
    store.cancel_notification(app, canceled, NOW).await.unwrap();
    let ended: Vec<(String, NotificationStatus, u64)> = claimed(store, NOW, 10)
        .await
        .messages
        .into_iter()
        .map(|message| match message.data {
            WebhookData::NotificationCompleted(ended) => {
                ("completed".to_owned(), ended.status, ended.counts.targeted)
            }
            WebhookData::NotificationFailed(ended) => {
                ("failed".to_owned(), ended.status, ended.counts.targeted)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let completed = NotificationStatus::Completed;
    let expected = [
        ("completed".to_owned(), completed, 1),
        ("failed".to_owned(), completed, 1),
        ("failed".to_owned(), completed, 1),
        ("completed".to_owned(), completed, 0),
        ("completed".to_owned(), NotificationStatus::Canceled, 0),
    ];
    assert_eq!(ended, expected);
}

#[apply(contract)]
async fn unregistered_device_is_reported_once(store: &Store) {
    let app = fixtures::app(store).await;
    webhook(store, app, &[WebhookEventType::DeviceUnregistered]).await;
    fixtures::devices(store, app, 1).await;
    for _ in 0..2 {
        let dispatch = fixtures::android_dispatch(store, app).await;
        let slice = store.read_batch(&dispatch, dispatch.cursor, 10).await.unwrap();
        let key = slice.devices[0].key;
        let (_, page) = fixtures::whole_page(store, &dispatch).await;
        if page.from == page.to {
            continue;
        }
        let dead = DeadAddress {
            key,
            address: "token-d000".into(),
            ios_env: notify_core::IosEnv::default(),
            reason: "UNREGISTERED".into(),
            since: None,
            at: NOW,
            ambiguous: None,
        };
        let last = Checkpoint { dead: vec![dead], finished: true, ..fixtures::checkpoint(page, 1) };
        let _ = store.checkpoint(last).await;
    }
    let messages = claimed(store, NOW, 10).await.messages;
    let [message] = &messages[..] else { panic!("{messages:?}") };
    let WebhookData::DeviceUnregistered(dead) = &message.data else { panic!("{message:?}") };
    assert_eq!((dead.device_id.as_str(), dead.reason.as_str()), ("d000", "UNREGISTERED"));
    assert_eq!(dead.platform, Platform::Android);
}

#[apply(contract)]
async fn messages_do_not_contain_erased_devices(store: &Store) {
    let app = fixtures::app(store).await;
    let hook = webhook(store, app, &[]).await;
    fixtures::devices(store, app, 2).await;
    opened(store, app, "d000", EventType::Opened).await;
    opened(store, app, "d001", EventType::Opened).await;
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    let messages = claimed(store, NOW, 10).await.messages;
    assert_eq!(messages.len(), 1);
    let page = store.list_webhook_messages(app, hook, fixtures::page(10)).await.unwrap();
    let erased = page.rows.iter().find(|attempt| attempt.outcome == WebhookOutcome::Failed);
    assert_eq!(erased.unwrap().reason.as_deref(), Some("erased"));
}
