//! Polls.

use futures_util::future::join_all;
use macro_rules_attribute::apply;
use notify_core::{AnswerId, AppChange, AppStatus, NotificationId, Platform, PollLayout, PollVote};
use uuid::Uuid;

use super::fixtures::{self, NOW, id};
use super::{is_unknown, refusal};
use crate::store::{AppNo, NewReport, PollDraft, RetentionCutoffs, Store, StoreError, Visitor};

async fn poll(store: &Store, app: AppNo) -> (NotificationId, PollDraft) {
    let draft = fixtures::poll();
    let mut new = fixtures::broadcast(&[Platform::Ios]);
    new.poll = Some(draft.clone());
    (fixtures::accepted(store, app, new).await, draft)
}

async fn vote(
    store: &Store,
    app: AppNo,
    poll: &NotificationId,
    answer: AnswerId,
    device: Option<&str>,
) -> Result<(), StoreError> {
    let vote = PollVote { device_id: device.map(id) };
    let done = store.answer_poll(app, poll.clone(), answer, vote, NOW, None).await?;
    assert!(fixtures::now(done).success);
    Ok(())
}

/// Reports a poll; a device and a visitor vote.
pub(super) async fn one_of_each(store: &Store, app: AppNo, device: &str) {
    let draft = fixtures::poll();
    let report = NewReport { poll: Some(draft.clone()), ..fixtures::report("poll") };
    let id = report.report.id.clone();
    store.record_report(app, report, None).await.unwrap();
    vote(store, app, &id, draft.answers[0], Some(device)).await.unwrap();
    let page = store.answer_public_poll(draft.public_id, draft.answers[1], visitor(1), NOW).await;
    page.unwrap();
}

#[apply(set_contract)]
async fn poll_reads_back_with_answers_in_order(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let (notification, draft) = poll(store, app).await;
    let row = store.poll(app, notification.clone()).await.unwrap();
    assert_eq!((&row.id, row.public_id), (&notification, draft.public_id));
    assert_eq!((row.text.as_str(), row.layout_id), ("Tea?", PollLayout::PollText));
    assert_eq!((row.lang.as_str(), row.created_at), ("en", NOW));
    let answers: Vec<_> =
        row.answers.iter().map(|answer| (answer.id, answer.text.as_str(), answer.clicks)).collect();
    assert_eq!(answers, [(draft.answers[0], "yes", 0), (draft.answers[1], "no", 0)]);
    assert!(is_unknown(&store.poll(other_app, notification).await));
    let message = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
    assert!(is_unknown(&store.poll(app, message).await), "a message is no poll");
}

#[apply(set_contract)]
async fn device_votes_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let (notification, draft) = poll(store, app).await;
    let [yes, no] = [draft.answers[0], draft.answers[1]];
    for (answer, device) in [
        (yes, Some("d000")),
        (yes, Some("d000")),
        (no, Some("d000")),
        (no, Some("d001")),
        (yes, None),
        (yes, None),
    ] {
        vote(store, app, &notification, answer, device).await.unwrap();
    }
    let row = store.poll(app, notification).await.unwrap();
    let clicks: Vec<_> = row.answers.iter().map(|answer| answer.clicks).collect();
    assert_eq!(clicks, [3, 1]);
}

#[apply(set_contract)]
async fn vote_requires_known_poll_answer_and_device(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, other_app, 1).await;
    let (notification, draft) = poll(store, app).await;
    let (_, second) = poll(store, app).await;
    let yes = draft.answers[0];
    let unknown_device = vote(store, app, &notification, yes, Some("d000")).await;
    assert!(refusal(unknown_device).starts_with("device_id: "));
    let missing = NotificationId::new("missing").unwrap();
    assert!(is_unknown(&vote(store, app, &missing, yes, None).await));
    assert!(is_unknown(&vote(store, other_app, &notification, yes, None).await));
    for answer in [AnswerId(Uuid::now_v7()), second.answers[0]] {
        assert!(is_unknown(&vote(store, app, &notification, answer, None).await));
    }
    let row = store.poll(app, notification).await.unwrap();
    assert!(row.answers.iter().all(|answer| answer.clicks == 0));
}

fn visitor(number: u16) -> Visitor {
    let mut half = [7; 16];
    half[..2].copy_from_slice(&number.to_be_bytes());
    Visitor(half)
}

async fn clicks(store: &Store, app: AppNo, poll: &NotificationId) -> Vec<u64> {
    let row = store.poll(app, poll.clone()).await.unwrap();
    row.answers.iter().map(|answer| answer.clicks).collect()
}

#[apply(set_contract)]
async fn visitor_votes_once(store: &Store) {
    let app = fixtures::app(store).await;
    let (notification, draft) = poll(store, app).await;
    let (_, other) = poll(store, app).await;
    let (page, [yes, no]) = (draft.public_id, [draft.answers[0], draft.answers[1]]);
    let (row, seen) = store.public_poll(page, Some(visitor(1))).await.unwrap();
    assert_eq!((row.id, seen), (notification.clone(), None));
    for (answer, by) in [(yes, 1), (no, 1), (yes, 1), (no, 2)] {
        store.answer_public_poll(page, answer, visitor(by), NOW).await.unwrap();
    }
    assert_eq!(clicks(store, app, &notification).await, [1, 1]);
    for (by, answer) in [(1, Some(yes)), (2, Some(no)), (3, None)] {
        let (row, seen) = store.public_poll(page, Some(visitor(by))).await.unwrap();
        assert_eq!((seen, row.answers[0].clicks), (answer, 1), "{by}");
    }
    let foreign = store.answer_public_poll(page, other.answers[0], visitor(3), NOW).await;
    assert!(refusal(foreign).starts_with("answer: "));
    let nowhere = store.answer_public_poll(Uuid::now_v7(), yes, visitor(3), NOW).await;
    assert!(is_unknown(&nowhere));
    assert!(is_unknown(&store.public_poll(Uuid::now_v7(), None).await));
    assert_eq!(clicks(store, app, &notification).await, [1, 1]);
}

#[apply(set_contract)]
async fn concurrent_visitors_count_once_each(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 5).await;
    let (notification, draft) = poll(store, app).await;
    let page = draft.public_id;
    // Every visitor votes five times concurrently, and so do devices.
    let on_the_page = (0..500).map(|vote: u16| {
        let answer = draft.answers[usize::from(vote % 2)];
        store.answer_public_poll(page, answer, visitor(vote % 100), NOW)
    });
    let by_devices = (0..25).map(|vote| {
        let device = format!("d{:03}", vote % 5);
        let notification = &notification;
        let answer = draft.answers[0];
        async move { self::vote(store, app, notification, answer, Some(&device)).await }
    });
    let (on_the_page, by_devices) =
        futures_util::future::join(join_all(on_the_page), join_all(by_devices)).await;
    assert!(on_the_page.into_iter().chain(by_devices).all(|vote| vote.is_ok()));
    assert_eq!(clicks(store, app, &notification).await.iter().sum::<u64>(), 105);
}

#[apply(set_contract)]
async fn poll_page_ends_with_its_application_and_notification(store: &Store) {
    let (id, app) = fixtures::named_app(store, "Shop").await;
    let draft = fixtures::poll();
    let report = NewReport { poll: Some(draft.clone()), ..fixtures::report("own-1") };
    fixtures::now(store.record_report(app, report, None).await.unwrap());
    let (page, yes) = (draft.public_id, draft.answers[0]);
    store.answer_public_poll(page, yes, visitor(1), NOW).await.unwrap();
    let set = async |status: AppStatus| {
        let change = AppChange { status: Some(status), ..AppChange::default() };
        store.change_app(id, change).await.unwrap();
    };
    set(AppStatus::Suspended).await;
    assert!(is_unknown(&store.public_poll(page, None).await));
    assert!(is_unknown(&store.answer_public_poll(page, yes, visitor(2), NOW).await));
    set(AppStatus::Active).await;
    store.answer_public_poll(page, yes, visitor(2), NOW).await.unwrap();
    let cutoffs = RetentionCutoffs {
        idempotency_before: notify_core::Timestamp(0),
        outcomes_before: None,
        events_before: None,
        notifications_before: Some(NOW.plus_ms(1)),
        anonymous_before: None,
        anonymous_surplus: None,
        audit_before: None,
        sessions: fixtures::NO_SESSIONS,
        at: NOW,
    };
    while store.delete_expired(cutoffs).await.unwrap().more {}
    assert!(is_unknown(&store.public_poll(page, None).await));
    store.delete_app(id).await.unwrap();
}
