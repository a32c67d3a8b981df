//! Webhooks, their messages, and the log of events behind them.

use notify_core::{
    Event, EventType, NewWebhook, NotificationId, NotificationStatus, Platform, PollVote,
    Timestamp, WebhookChange, WebhookData, WebhookEventType, WebhookId, WebhookMessageId,
    WebhookOutcome,
};
use uuid::Uuid;

use super::given::{self, NOW, id};
use super::{is_unknown, refusal};
use crate::store::{
    AppNo, AttemptOutcome, Checkpoint, ClaimedMessage, ClaimedWebhook, DeadAddress, EVENTS_KEPT_MS,
    EventTypes, MESSAGES_PENDING_MAX, MessageMade, MessageStep, ReadFrom, STREAM_WANTED_MS,
    SealedSecret, Settled, Store, Visitor, WEBHOOKS_MAX, WebhookClaim, WebhookNo,
};

const CLAIM: i64 = 77;
const URL: &str = "https://hook.example/x";

fn message_id() -> WebhookMessageId {
    WebhookMessageId(Uuid::now_v7())
}

async fn webhook(store: &dyn Store, app: AppNo, events: &[WebhookEventType]) -> WebhookId {
    let secret = SealedSecret { id: WebhookId(Uuid::now_v7()), sealed: vec![1] };
    let new = NewWebhook { url: URL.to_owned(), events: events.to_vec(), description: None };
    given::now(store.create_webhook(app, new, secret, NOW, None).await.unwrap()).id
}

/// Claims of the only webhook that has something to do.
async fn claimed(store: &dyn Store, now: Timestamp, limit: u32) -> ClaimedWebhook {
    let ready = store.webhook_work(now).await.unwrap().ready;
    let [only] = ready[..] else { panic!("one webhook has something to do: {ready:?}") };
    store.claim_messages(claim(only, now, limit)).await.unwrap().unwrap()
}

fn claim(webhook: WebhookNo, now: Timestamp, limit: u32) -> WebhookClaim {
    let ids = std::iter::repeat_with(message_id).take(100).collect();
    WebhookClaim { webhook, now, lease_until: now.plus_ms(40_000), claim: CLAIM, limit, ids }
}

fn outcome(webhook: WebhookNo, message: &ClaimedMessage, step: MessageStep) -> AttemptOutcome {
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
async fn opened(store: &dyn Store, app: AppNo, device: &str, kind: EventType) {
    let report = given::report("n-1");
    let _ = store.record_report(app, report, None).await;
    let event = Event {
        kind,
        notification_id: NotificationId::new("n-1").unwrap(),
        device_id: id(device),
        at: Some(Timestamp(5)),
    };
    given::now(store.record_events(app, vec![event], NOW, None).await.unwrap());
}

/// Makes a webhook that is told of an event of a device.
pub(super) async fn one_of_each(store: &dyn Store, app: AppNo, device: &str) {
    webhook(store, app, &[WebhookEventType::EngagementOpened]).await;
    opened(store, app, device, EventType::Opened).await;
    for ready in store.webhook_work(NOW).await.unwrap().ready {
        store.claim_messages(claim(ready, NOW, 10)).await.unwrap().unwrap();
    }
}

/// Whatever their applications.
pub async fn the_oldest_webhook_is_served_first(store: &dyn Store) {
    let (first, second) = (given::app(store).await, given::app(store).await);
    for app in [second, first] {
        given::devices(store, app, 1).await;
        webhook(store, app, &[WebhookEventType::EngagementOpened]).await;
        opened(store, app, "d000", EventType::Opened).await;
    }
    let ready = store.webhook_work(NOW).await.unwrap().ready;
    let apps: Vec<_> = ready.iter().map(|webhook| AppNo::leading(webhook.0)).collect();
    assert_eq!(apps, [second, first]);
}

pub async fn a_webhook_reads_back_as_it_was_made_and_changed(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    let id = webhook(store, app, &[WebhookEventType::PollAnswered]).await;
    let made = store.webhook(app, id, NOW).await.unwrap();
    assert_eq!((made.id, made.enabled, made.pending, made.dropped), (id, true, 0, 0));
    assert_eq!(made.events, [WebhookEventType::PollAnswered]);
    assert!(is_unknown(&store.webhook(other, id, NOW).await));
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
    let times = (NOW, NOW.plus_ms(10));
    given::now(store.rotate_webhook(app, secret, times, None).await.unwrap());
    let until = async |now| store.webhook(app, id, now).await.unwrap().previous_secret_until;
    assert_eq!(until(NOW).await, Some(NOW.plus_ms(10)));
    assert_eq!(until(NOW.plus_ms(10)).await, None);
    let listed = store.list_webhooks(app, given::page(10), NOW).await.unwrap();
    assert_eq!(listed.rows.len(), 1);
    store.delete_webhook(app, id).await.unwrap();
    assert!(is_unknown(&store.delete_webhook(app, id).await));
    assert!(is_unknown(&store.webhook(app, id, NOW).await));
}

pub async fn an_application_has_so_many_webhooks(store: &dyn Store) {
    let app = given::app(store).await;
    for _ in 0..WEBHOOKS_MAX {
        webhook(store, app, &[]).await;
    }
    let secret = SealedSecret { id: WebhookId(Uuid::now_v7()), sealed: vec![1] };
    let new = NewWebhook { url: "https://hook.example/".into(), events: vec![], description: None };
    let broken = refusal(store.create_webhook(app, new, secret, NOW, None).await);
    assert_eq!(broken, format!("url: an application has at most {WEBHOOKS_MAX} webhooks"));
}

pub async fn nothing_is_kept_where_nobody_listens(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    webhook(store, other, &[]).await;
    let quiet = webhook(store, app, &[WebhookEventType::PollAnswered]).await;
    given::devices(store, app, 1).await;
    opened(store, app, "d000", EventType::Opened).await;
    let slice = store.read_events(app, ReadFrom::End, EventTypes::EVERY).await.unwrap();
    assert!(slice.events.is_empty() && !slice.more);
    assert!(store.webhook_work(NOW).await.unwrap().ready.is_empty());
    let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
    store.change_webhook(app, quiet, change, NOW).await.unwrap();
    assert!(store.webhook_work(NOW).await.unwrap().ready.is_empty());
}

pub async fn what_happens_is_told_with_what_it_is_about(store: &dyn Store) {
    let app = given::app(store).await;
    webhook(store, app, &[]).await;
    given::devices(store, app, 2).await;
    opened(store, app, "d000", EventType::Opened).await;
    opened(store, app, "d000", EventType::Opened).await;
    opened(store, app, "d000", EventType::Received).await;
    opened(store, app, "d000", EventType::Clicked).await;
    // A poll, answered twice by a device, once by nobody, and twice by a visitor of its page.
    let mut poll = given::broadcast(&[Platform::Ios]);
    let draft = given::poll();
    poll.poll = Some(draft.clone());
    let poll = given::accepted(store, app, poll).await;
    for device in [Some("d001"), Some("d001"), None] {
        let vote = PollVote { device_id: device.map(id) };
        let answer = draft.answers[0];
        store.answer_poll(app, poll.clone(), answer, vote, (NOW, None)).await.unwrap();
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
            WebhookData::PollAnswered(told) => {
                assert_eq!(told.poll_id, poll);
                (told.answer_id, told.device_id.clone())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answers, [(first, Some(id("d001"))), (first, None), (second, None)]);
}

pub async fn an_end_is_told_by_what_it_came_to(store: &dyn Store) {
    let app = given::app(store).await;
    webhook(store, app, &[]).await;
    given::devices(store, app, 1).await;
    for settled in [Settled::Sent, Settled::Expired, Settled::Unregistered] {
        let dispatch = given::android_dispatch(store, app).await;
        let (keys, page) = given::whole_page(store, &dispatch).await;
        let last = Checkpoint {
            settled: vec![given::outcome(keys[0], settled, None)],
            finished: true,
            ..given::checkpoint(page, 1)
        };
        store.checkpoint(last).await.unwrap();
    }
    // Nobody to send to, and one that is canceled before it begins.
    given::accepted(store, app, given::broadcast(&[Platform::Web])).await;
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    let dispatch = store.dispatch(started[0]).await.unwrap();
    given::whole_page(store, &dispatch).await;
    let canceled = given::accepted(store, app, given::broadcast(&[Platform::Web])).await;
    store.cancel_notification(app, canceled, NOW).await.unwrap();
    let told: Vec<(String, NotificationStatus, u64)> = claimed(store, NOW, 10)
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
    assert_eq!(told, expected);
}

pub async fn a_dead_device_is_told_once(store: &dyn Store) {
    let app = given::app(store).await;
    webhook(store, app, &[WebhookEventType::DeviceUnregistered]).await;
    given::devices(store, app, 1).await;
    for _ in 0..2 {
        let dispatch = given::android_dispatch(store, app).await;
        let slice = store.read_slice(&dispatch, dispatch.cursor, 10).await.unwrap();
        let key = slice.devices[0].key;
        let (_, page) = given::whole_page(store, &dispatch).await;
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
        let last = Checkpoint { dead: vec![dead], finished: true, ..given::checkpoint(page, 1) };
        let _ = store.checkpoint(last).await;
    }
    let messages = claimed(store, NOW, 10).await.messages;
    let [message] = &messages[..] else { panic!("{messages:?}") };
    let WebhookData::DeviceUnregistered(dead) = &message.data else { panic!("{message:?}") };
    assert_eq!((dead.device_id.as_str(), dead.reason.as_str()), ("d000", "UNREGISTERED"));
    assert_eq!(dead.platform, Platform::Android);
}

pub async fn an_erased_device_is_in_no_message(store: &dyn Store) {
    let app = given::app(store).await;
    let hook = webhook(store, app, &[]).await;
    given::devices(store, app, 2).await;
    opened(store, app, "d000", EventType::Opened).await;
    opened(store, app, "d001", EventType::Opened).await;
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    let messages = claimed(store, NOW, 10).await.messages;
    assert_eq!(messages.len(), 1);
    let page = store.list_webhook_attempts(app, hook, given::page(10)).await.unwrap();
    let erased = page.rows.iter().find(|attempt| attempt.outcome == WebhookOutcome::Failed);
    assert_eq!(erased.unwrap().reason.as_deref(), Some("erased"));
}

pub async fn a_message_is_tried_by_one_until_it_is_over(store: &dyn Store) {
    let app = given::app(store).await;
    let hook = webhook(store, app, &[]).await;
    given::devices(store, app, 1).await;
    opened(store, app, "d000", EventType::Opened).await;
    let no = store.webhook_work(NOW).await.unwrap().ready[0];
    let first = store.claim_messages(claim(no, NOW, 5)).await.unwrap().unwrap().messages;
    let again = store.claim_messages(claim(no, NOW.plus_ms(1), 5)).await.unwrap().unwrap();
    assert_eq!((first.len(), again.messages.len()), (1, 0), "claimed by one");
    let work = store.webhook_work(NOW.plus_ms(1)).await.unwrap();
    assert_eq!((work.ready.len(), work.next_at), (0, Some(NOW.plus_ms(40_000))));
    // A start gives back what the process before it had.
    store.release_messages().await.unwrap();
    let first = store.claim_messages(claim(no, NOW, 5)).await.unwrap().unwrap().messages;
    assert_eq!(first.len(), 1);
    // Whose lease ran out has lost it, to who claims it then.
    let late = NOW.plus_ms(40_000);
    let other = WebhookClaim { claim: CLAIM + 1, ..claim(no, late, 5) };
    let taken = store.claim_messages(other).await.unwrap().unwrap().messages;
    assert_eq!(taken[0].id, first[0].id, "the same webhook-id");
    store.settle_message(outcome(no, &first[0], MessageStep::Delivered)).await.unwrap();
    let read = async || store.webhook_attempt(app, hook, first[0].id).await.unwrap();
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
    // Redelivered, it begins anew.
    let which = (hook, first[0].id);
    given::now(store.redeliver_message(app, which, NOW, None).await.unwrap());
    let broken = refusal(store.redeliver_message(app, which, NOW, None).await);
    assert_eq!(broken, "attempt_id: is still to be tried");
    assert_eq!(claimed(store, NOW, 5).await.messages[0].attempts, 0);
}

pub async fn a_webhook_is_judged_as_it_stands_when_an_attempt_ends(store: &dyn Store) {
    let app = given::app(store).await;
    let hook = webhook(store, app, &[]).await;
    given::devices(store, app, 6).await;
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
    // A success in between, which the attempts under way know nothing of, is the end of failing.
    store.settle_message(outcome(no, &messages[1], MessageStep::Delivered)).await.unwrap();
    assert_eq!(store.settle_message(failed(2, late)).await.unwrap(), None);
    let read = async || store.webhook(app, hook, NOW).await.unwrap();
    assert_eq!(read().await.failing_since, Some(late));
    // Another url has not failed, and is not gone because the one before is.
    let url = Some("https://hook.example/other".to_owned());
    let change = WebhookChange { url: url.clone(), ..WebhookChange::default() };
    store.change_webhook(app, hook, change, late).await.unwrap();
    let later = late.plus_ms(5_000);
    let gone = AttemptOutcome { is_gone: true, ..failed(3, later) };
    assert_eq!(store.settle_message(gone).await.unwrap(), None);
    let now = read().await;
    assert_eq!((now.enabled, now.failing_since), (true, None));
    let at_url = |outcome| AttemptOutcome { url: url.clone().unwrap(), ..outcome };
    assert_eq!(store.settle_message(at_url(failed(4, late))).await.unwrap(), None);
    let failing = store.settle_message(at_url(failed(5, later))).await.unwrap();
    assert_eq!((failing, read().await.enabled), (Some("failing"), false));
}

pub async fn a_disabled_webhook_ends_what_waits_and_begins_anew(store: &dyn Store) {
    let app = given::app(store).await;
    let hook = webhook(store, app, &[]).await;
    given::devices(store, app, 2).await;
    opened(store, app, "d000", EventType::Opened).await;
    let no = store.webhook_work(NOW).await.unwrap().ready[0];
    let messages = claimed(store, NOW, 5).await.messages;
    let gone = AttemptOutcome { is_gone: true, ..outcome(no, &messages[0], MessageStep::Failed) };
    assert_eq!(store.settle_message(gone).await.unwrap(), Some("gone"));
    let read = async || store.webhook(app, hook, NOW).await.unwrap();
    let disabled = read().await;
    assert_eq!((disabled.enabled, disabled.disabled_reason.as_deref()), (false, Some("gone")));
    // What happens meanwhile is not told later.
    opened(store, app, "d000", EventType::Clicked).await;
    let broken =
        refusal(store.test_webhook(app, hook, MessageMade { id: message_id() }, NOW, None).await);
    assert_eq!(broken, "id: names a webhook that is disabled");
    let change = WebhookChange { enabled: Some(true), ..WebhookChange::default() };
    store.change_webhook(app, hook, change, NOW).await.unwrap();
    let enabled = read().await;
    assert_eq!((enabled.enabled, enabled.disabled_reason), (true, None));
    assert!(store.webhook_work(NOW).await.unwrap().ready.is_empty());
    let made = MessageMade { id: message_id() };
    given::now(store.test_webhook(app, hook, made, NOW, None).await.unwrap());
    let messages = claimed(store, NOW, 5).await.messages;
    assert!(matches!(messages[0].data, WebhookData::WebhookTest(_)), "{messages:?}");
}

pub async fn what_waits_for_a_webhook_is_bounded_and_the_rest_is_counted(store: &dyn Store) {
    let app = given::app(store).await;
    let hook = webhook(store, app, &[]).await;
    let _ = store.record_report(app, given::report("n-1"), None).await;
    let count = usize::try_from(MESSAGES_PENDING_MAX).unwrap() + 100;
    given::devices(store, app, count).await;
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
    // The rest waits in the log, and is dropped and counted when that is over.
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

pub async fn a_stream_goes_on_where_it_was_and_says_where_it_cannot(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 3).await;
    let until = NOW.plus_ms(STREAM_WANTED_MS);
    store.want_events(app, until, NOW).await.unwrap();
    let read = async |from| store.read_events(app, from, EventTypes::EVERY).await.unwrap();
    let start = read(ReadFrom::End).await;
    assert!(start.events.is_empty() && !start.reset);
    for device in ["d000", "d001", "d002"] {
        opened(store, app, device, EventType::Opened).await;
    }
    let all = read(ReadFrom::After(start.cursor.clone())).await;
    assert_eq!((all.events.len(), all.reset, all.more), (3, false, false));
    let rest = read(ReadFrom::After(all.events[0].cursor.clone())).await;
    assert_eq!(rest.events, all.events[1..]);
    assert_eq!(rest.cursor, all.cursor);
    let clicked = EventTypes::of(&[WebhookEventType::EngagementClicked]);
    let none =
        store.read_events(app, ReadFrom::After(start.cursor.clone()), clicked).await.unwrap();
    assert_eq!((none.events.len(), &none.cursor), (0, &all.cursor), "passed over");
    let broken =
        refusal(store.read_events(app, ReadFrom::After("x".into()), EventTypes::EVERY).await);
    assert!(broken.starts_with("cursor: "), "{broken}");
    // Nobody read for too long: what was not kept is not passed over in silence.
    let later = until.plus_ms(1);
    store.want_events(app, later.plus_ms(STREAM_WANTED_MS), later).await.unwrap();
    assert!(read(ReadFrom::After(all.cursor.clone())).await.reset);
    store.trim_events(later).await.unwrap();
    let old = read(ReadFrom::After(start.cursor)).await;
    assert!(old.reset && old.events.is_empty());
}
