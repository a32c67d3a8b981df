//! Messages of webhooks from the first attempt to the end, and the event log.

use macro_rules_attribute::apply;
use notify_core::{
    Event, EventType, NotificationId, Timestamp, WebhookChange, WebhookData, WebhookEventType,
    WebhookOutcome, WebhookRecovered,
};

use super::fixtures::{self, NOW, id};
use super::refusal;
use super::webhooks::{CLAIM, claim, claimed, message_id, opened, outcome, webhook};
use crate::store::page::CursorCodec;
use crate::store::{
    AttemptOutcome, EVENTS_KEPT_MS, EventCursor, EventTypes, MESSAGES_PENDING_MAX, MessageMade,
    MessageStep, STREAM_WANTED_MS, Store, WebhookClaim,
};

#[apply(contract)]
async fn message_is_claimed_once_until_it_ends(store: &Store) {
    let app = fixtures::app(store).await;
    let hook = webhook(store, app, &[]).await;
    fixtures::devices(store, app, 1).await;
    opened(store, app, "d000", EventType::Opened).await;
    let no = store.webhook_work(NOW).await.unwrap().ready[0];
    let first = store.claim_messages(claim(no, NOW, 5)).await.unwrap().unwrap().messages;
    let again = store.claim_messages(claim(no, NOW.plus_ms(1), 5)).await.unwrap().unwrap();
    assert_eq!((first.len(), again.messages.len()), (1, 0), "claimed by one");
    let work = store.webhook_work(NOW.plus_ms(1)).await.unwrap();
    assert_eq!((work.ready.len(), work.next_at), (0, Some(NOW.plus_ms(40_000))));
    // A start releases the claims of the previous process.
    store.release_messages().await.unwrap();
    let first = store.claim_messages(claim(no, NOW, 5)).await.unwrap().unwrap().messages;
    assert_eq!(first.len(), 1);
    // After the end of the lease, another claim takes the message.
    let late = NOW.plus_ms(40_000);
    let other = WebhookClaim { claim: CLAIM + 1, ..claim(no, late, 5) };
    let claimed_late = store.claim_messages(other).await.unwrap().unwrap().messages;
    assert_eq!(claimed_late[0].id, first[0].id, "the same webhook-id");
    store.settle_message(outcome(no, &first[0], MessageStep::Delivered)).await.unwrap();
    let read = async || store.webhook_message(app, hook, first[0].id).await.unwrap();
    assert_eq!(read().await.outcome, WebhookOutcome::Pending, "the lost claim stored nothing");
    let due_at = late.plus_ms(5_000);
    let failed = AttemptOutcome {
        claim: CLAIM + 1,
        ..outcome(no, &first[0], MessageStep::Again { due_at })
    };
    store.settle_message(failed).await.unwrap();
    let attempt = read().await;
    assert_eq!((attempt.attempts, attempt.status), (1, Some(500)));
    assert_eq!((attempt.next_attempt_at, attempt.latency_ms), (Some(due_at), Some(12)));
    assert_eq!(store.webhook(app, hook, NOW).await.unwrap().failing_since, Some(NOW));
    let messages = claimed(store, due_at, 5).await.messages;
    assert_eq!(messages[0].attempts, 1);
    store.settle_message(outcome(no, &messages[0], MessageStep::Delivered)).await.unwrap();
    let attempt = read().await;
    assert_eq!((attempt.outcome, attempt.attempts), (WebhookOutcome::Delivered, 2));
    assert_eq!(store.webhook(app, hook, NOW).await.unwrap().failing_since, None);
    // Redelivery restarts it.
    fixtures::now(store.redeliver_message(app, hook, first[0].id, NOW, None).await.unwrap());
    assert_eq!(claimed(store, NOW, 5).await.messages[0].attempts, 0);
}

/// A message that waits for hours is due at once after a redelivery. A redelivery does nothing
/// while an attempt is running.
#[apply(contract)]
async fn pending_message_is_redelivered_at_once(store: &Store) {
    let app = fixtures::app(store).await;
    let hook = webhook(store, app, &[]).await;
    fixtures::devices(store, app, 1).await;
    opened(store, app, "d000", EventType::Opened).await;
    let no = store.webhook_work(NOW).await.unwrap().ready[0];
    let message = claimed(store, NOW, 5).await.messages.remove(0);
    fixtures::now(store.redeliver_message(app, hook, message.id, NOW, None).await.unwrap());
    let work = store.webhook_work(NOW).await.unwrap();
    assert_eq!(work.ready, [], "the attempt under way is the one");
    let again = MessageStep::Again { due_at: NOW.plus_ms(27_300_000) };
    store.settle_message(outcome(no, &message, again)).await.unwrap();
    let later = NOW.plus_ms(60_000);
    assert_eq!(store.webhook_work(later).await.unwrap().ready, []);
    fixtures::now(store.redeliver_message(app, hook, message.id, later, None).await.unwrap());
    let again = claimed(store, later, 5).await.messages.remove(0);
    assert_eq!((again.id, again.attempts, again.started_at), (message.id, 0, later));
}

/// A recovery restarts all messages that failed since the given time, and no others.
#[apply(contract)]
async fn failed_messages_are_recovered(store: &Store) {
    let app = fixtures::app(store).await;
    let hook = webhook(store, app, &[]).await;
    fixtures::devices(store, app, 5).await;
    let read = async |id| store.webhook_message(app, hook, id).await.unwrap();
    let mut made = Vec::new();
    let mut number = None;
    for device in 0..5 {
        opened(store, app, &format!("d00{device}"), EventType::Opened).await;
        let at = NOW.plus_ms(device * 1_000);
        let ready = store.webhook_work(at).await.unwrap().ready;
        let no = *number.get_or_insert(ready[0]);
        let message = store.claim_messages(claim(no, at, 5)).await.unwrap().unwrap().messages;
        let step = match device {
            2 => MessageStep::Delivered,
            3 => MessageStep::Again { due_at: NOW.plus_ms(9_000_000) },
            _ => MessageStep::Failed,
        };
        store.settle_message(outcome(no, &message[0], step)).await.unwrap();
        made.push(message[0].id);
    }
    let test = MessageMade { id: message_id() };
    let at = NOW.plus_ms(5_000);
    fixtures::now(store.test_webhook(app, hook, test, at, None).await.unwrap());
    let tested = claimed(store, at, 5).await.messages.remove(0);
    let no = number.unwrap();
    store.settle_message(outcome(no, &tested, MessageStep::Failed)).await.unwrap();
    store.delete_device(app, id("d004"), at).await.unwrap();

    let since = NOW.plus_ms(1_000);
    let done = store.recover_messages(app, hook, since, at, None).await.unwrap();
    let found = fixtures::now(done);
    let outcomes = async || {
        let mut outcomes = Vec::new();
        for id in made.iter().copied() {
            outcomes.push(read(id).await.outcome);
        }
        outcomes
    };
    let (failed, pending) = (WebhookOutcome::Failed, WebhookOutcome::Pending);
    // The fourth message is about a device that was erased later. A claim detects that.
    assert_eq!(found, WebhookRecovered { recovered: 3, more: false });
    let expected = [failed, pending, WebhookOutcome::Delivered, pending, pending];
    assert_eq!(outcomes().await, expected);
    let claimed: Vec<_> =
        claimed(store, at, 10).await.messages.into_iter().map(|message| message.id).collect();
    assert_eq!(claimed.len(), 2);
    assert!(claimed.contains(&made[1]) && claimed.contains(&made[3]), "{claimed:?}");
    let again = fixtures::now(store.recover_messages(app, hook, since, at, None).await.unwrap());
    assert_eq!(again, WebhookRecovered { recovered: 0, more: false }, "erased, or being tried");
    let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
    store.change_webhook(app, hook, change, at).await.unwrap();
    let broken = refusal(store.recover_messages(app, hook, since, at, None).await);
    assert_eq!(broken, "id: the webhook is disabled");
    let missing = notify_core::WebhookId(uuid::Uuid::nil());
    let unknown = store.recover_messages(app, missing, since, at, None).await;
    assert!(super::is_unknown(&unknown));
}

#[apply(contract)]
async fn attempt_result_applies_to_the_current_webhook(store: &Store) {
    let app = fixtures::app(store).await;
    let hook = webhook(store, app, &[]).await;
    fixtures::devices(store, app, 6).await;
    for device in 0..6 {
        opened(store, app, &format!("d00{device}"), EventType::Opened).await;
    }
    let no = store.webhook_work(NOW).await.unwrap().ready[0];
    let messages = claimed(store, NOW, 6).await.messages;
    let failed = |place: usize, at: Timestamp| AttemptOutcome {
        at,
        failing_before: at.plus_ms(-1_000),
        ..outcome(no, &messages[place], MessageStep::Failed)
    };
    let late = NOW.plus_ms(1_000);
    assert_eq!(store.settle_message(failed(0, NOW)).await.unwrap(), None);
    // A success in between ends the failing state, although running attempts do not know of it.
    store.settle_message(outcome(no, &messages[1], MessageStep::Delivered)).await.unwrap();
    assert_eq!(store.settle_message(failed(2, late)).await.unwrap(), None);
    let read = async || store.webhook(app, hook, NOW).await.unwrap();
    assert_eq!(read().await.failing_since, Some(late));
    // A new URL has no failures, and a 410 of the old URL does not disable the webhook.
    let url = Some("https://hook.example/other".to_owned());
    let change = WebhookChange { url: url.clone(), ..WebhookChange::default() };
    store.change_webhook(app, hook, change, late).await.unwrap();
    let later = late.plus_ms(5_000);
    let gone_endpoint = AttemptOutcome { is_gone: true, ..failed(3, later) };
    assert_eq!(store.settle_message(gone_endpoint).await.unwrap(), None);
    let now = read().await;
    assert_eq!((now.enabled, now.failing_since), (true, None));
    let at_url = |outcome| AttemptOutcome { url: url.clone().unwrap(), ..outcome };
    assert_eq!(store.settle_message(at_url(failed(4, late))).await.unwrap(), None);
    let failing = store.settle_message(at_url(failed(5, later))).await.unwrap();
    assert_eq!((failing, read().await.enabled), (Some("failing"), false));
}

#[apply(contract)]
async fn disabling_a_webhook_ends_its_messages(store: &Store) {
    let app = fixtures::app(store).await;
    let hook = webhook(store, app, &[]).await;
    fixtures::devices(store, app, 2).await;
    opened(store, app, "d000", EventType::Opened).await;
    let no = store.webhook_work(NOW).await.unwrap().ready[0];
    let messages = claimed(store, NOW, 5).await.messages;
    let gone_endpoint =
        AttemptOutcome { is_gone: true, ..outcome(no, &messages[0], MessageStep::Failed) };
    assert_eq!(store.settle_message(gone_endpoint).await.unwrap(), Some("gone"));
    let read = async || store.webhook(app, hook, NOW).await.unwrap();
    let disabled = read().await;
    assert_eq!((disabled.enabled, disabled.disabled_reason.as_deref()), (false, Some("gone")));
    // Events in between are not delivered later.
    opened(store, app, "d000", EventType::Clicked).await;
    let broken =
        refusal(store.test_webhook(app, hook, MessageMade { id: message_id() }, NOW, None).await);
    assert_eq!(broken, "id: the webhook is disabled");
    let change = WebhookChange { enabled: Some(true), ..WebhookChange::default() };
    store.change_webhook(app, hook, change, NOW).await.unwrap();
    let enabled = read().await;
    assert_eq!((enabled.enabled, enabled.disabled_reason), (true, None));
    assert!(store.webhook_work(NOW).await.unwrap().ready.is_empty());
    let made = MessageMade { id: message_id() };
    fixtures::now(store.test_webhook(app, hook, made, NOW, None).await.unwrap());
    let messages = claimed(store, NOW, 5).await.messages;
    assert!(matches!(messages[0].data, WebhookData::WebhookTest(_)), "{messages:?}");
}

#[apply(contract)]
async fn pending_messages_are_bounded_and_dropped_events_counted(store: &Store) {
    let app = fixtures::app(store).await;
    let hook = webhook(store, app, &[]).await;
    let _ = store.record_report(app, fixtures::report("n-1"), None).await;
    let count = usize::try_from(MESSAGES_PENDING_MAX).unwrap() + 100;
    fixtures::devices(store, app, count).await;
    let event = |n: usize| Event {
        kind: EventType::Opened,
        notification_id: NotificationId::new("n-1").unwrap(),
        device_id: id(&format!("d{n:03}")),
        at: None,
    };
    let all: Vec<Event> = (0..count).map(event).collect();
    for part in all.chunks(500) {
        store.record_events(app, part.to_vec(), NOW, None).await.unwrap();
    }
    let no = store.webhook_work(NOW).await.unwrap().ready[0];
    for _ in 0..12 {
        store.claim_messages(claim(no, NOW, 0)).await.unwrap();
    }
    let pending = store.webhook(app, hook, NOW).await.unwrap().pending;
    assert_eq!(pending, MESSAGES_PENDING_MAX.unsigned_abs());
    // The rest waits in the log until it is dropped and counted.
    let later = NOW.plus_ms(EVENTS_KEPT_MS + 1);
    let mut dropped = 0;
    loop {
        let trimmed = store.trim_events(later).await.unwrap();
        dropped += trimmed.dropped;
        if !trimmed.more {
            break;
        }
    }
    assert_eq!(dropped, 100);
    assert_eq!(store.webhook(app, hook, NOW).await.unwrap().dropped, 100);
}

#[apply(contract)]
async fn event_stream_resumes_or_reports_a_reset(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let until = NOW.plus_ms(STREAM_WANTED_MS);
    store.keep_events_until(app, until, NOW).await.unwrap();
    let read = async |from| store.read_events(app, from, EventTypes::EVERY).await.unwrap();
    let start = read(EventCursor::End).await;
    assert!(start.events.is_empty() && !start.reset);
    for device in ["d000", "d001", "d002"] {
        opened(store, app, device, EventType::Opened).await;
    }
    let all = read(EventCursor::After(start.cursor.clone())).await;
    assert_eq!((all.events.len(), all.reset, all.more), (3, false, false));
    let rest = read(EventCursor::After(all.events[0].cursor.clone())).await;
    assert_eq!(rest.events, all.events[1..]);
    assert_eq!(rest.cursor, all.cursor);
    let clicked = EventTypes::of(&[WebhookEventType::EngagementClicked]);
    let none =
        store.read_events(app, EventCursor::After(start.cursor.clone()), clicked).await.unwrap();
    assert_eq!((none.events.len(), &none.cursor), (0, &all.cursor), "passed over");
    let codec = |list, owner| CursorCodec { list, owner };
    for unknown in [
        String::new(),
        "x".to_owned(),
        codec("events", app.0 + 1).encode_number(1),
        codec("devices", app.0).encode_number(1),
        codec("events", app.0).encode_number(i64::MAX),
        codec("events", app.0).encode_number(-1),
    ] {
        let page = read(EventCursor::After(unknown.clone())).await;
        assert_eq!(
            (page.reset, &page.cursor, page.events.len()),
            (true, &all.cursor, 3),
            "{unknown}"
        );
    }
    // After a long pause the gap is reported.
    let later = until.plus_ms(1);
    store.keep_events_until(app, later.plus_ms(STREAM_WANTED_MS), later).await.unwrap();
    assert!(read(EventCursor::After(all.cursor.clone())).await.reset);
    store.trim_events(later).await.unwrap();
    let old = read(EventCursor::After(start.cursor)).await;
    assert!(old.reset && old.events.is_empty());
}
