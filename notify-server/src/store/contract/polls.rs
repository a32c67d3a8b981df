//! Polls (B14, B32).

use notify_core::{AnswerId, NotificationId, Platform, PollLayout, PollVote};
use uuid::Uuid;

use super::given::{self, NOW, id};
use super::{is_unknown, refusal};
use crate::store::{AppNo, PollDraft, Store, StoreError};

async fn poll(store: &dyn Store, app: AppNo) -> (NotificationId, PollDraft) {
    let draft = given::poll();
    let mut new = given::broadcast(&[Platform::Ios]);
    new.poll = Some(draft.clone());
    (given::accepted(store, app, new).await, draft)
}

async fn vote(
    store: &dyn Store,
    app: AppNo,
    (poll, answer): (&NotificationId, AnswerId),
    device: Option<&str>,
) -> Result<(), StoreError> {
    let vote = PollVote { device_id: device.map(id) };
    let done = store.answer_poll(app, poll.clone(), answer, vote, (NOW, None)).await?;
    assert!(given::now(done).success);
    Ok(())
}

pub async fn a_poll_reads_back_with_its_answers_in_order(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    let (notification, draft) = poll(store, app).await;
    let row = store.poll(app, notification.clone()).await.unwrap();
    assert_eq!((&row.id, row.public_id), (&notification, draft.public_id));
    assert_eq!((row.text.as_str(), row.layout_id), ("Tea?", PollLayout::PollText));
    assert_eq!((row.lang.as_str(), row.created_at), ("en", NOW));
    let answers: Vec<_> =
        row.answers.iter().map(|answer| (answer.id, answer.text.as_str(), answer.clicks)).collect();
    assert_eq!(answers, [(draft.answers[0], "yes", 0), (draft.answers[1], "no", 0)]);
    assert!(is_unknown(&store.poll(other, notification).await));
    let message = given::accepted(store, app, given::broadcast(&[Platform::Ios])).await;
    assert!(is_unknown(&store.poll(app, message).await), "a message is no poll");
}

pub async fn a_device_answers_once(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 2).await;
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
        vote(store, app, (&notification, answer), device).await.unwrap();
    }
    let row = store.poll(app, notification).await.unwrap();
    let clicks: Vec<_> = row.answers.iter().map(|answer| answer.clicks).collect();
    assert_eq!(clicks, [3, 1]);
}

pub async fn what_a_vote_names_must_exist(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    given::devices(store, other, 1).await;
    let (notification, draft) = poll(store, app).await;
    let (_, second) = poll(store, app).await;
    let yes = draft.answers[0];
    let unknown_device = vote(store, app, (&notification, yes), Some("d000")).await;
    assert!(refusal(unknown_device).starts_with("device_id: "));
    let unheard = NotificationId::new("unheard").unwrap();
    assert!(is_unknown(&vote(store, app, (&unheard, yes), None).await));
    assert!(is_unknown(&vote(store, other, (&notification, yes), None).await));
    for answer in [AnswerId(Uuid::now_v7()), second.answers[0]] {
        assert!(is_unknown(&vote(store, app, (&notification, answer), None).await));
    }
    let row = store.poll(app, notification).await.unwrap();
    assert!(row.answers.iter().all(|answer| answer.clicks == 0));
}
