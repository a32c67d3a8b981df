//! Retries.

use macro_rules_attribute::apply;
use notify_core::{Counts, NotificationStatus, Platform};

use super::fixtures::{self, INSTANCE, LEASE, NOW, id};
use crate::store::{
    AppNo, Checkpoint, ClaimedRetry, DeviceKey, InstanceId, Outcome, RetryClaim, RetryNo,
    RetryOutcome, RetryResult, Store,
};

fn settled(no: RetryNo, settled: Outcome) -> RetryOutcome {
    let result = RetryResult::Final {
        settled,
        reason: Some("refused".into()),
        attempts: 2,
        message_id: None,
    };
    RetryOutcome { no, result, dead: None, moved: None, verified: None }
}

async fn open(store: &Store, app: AppNo) -> u64 {
    store.open_retries(app, Platform::Android, NOW).await.unwrap()
}

#[apply(set_contract)]
async fn due_retry_is_claimed_once(store: &Store) {
    let app = fixtures::app(store).await;
    let (dispatch, keys) = fixtures::retried(store, app, 3).await;
    assert_eq!(open(store, app).await, 3);
    let early = RetryClaim { now: NOW.plus_ms(999), ..fixtures::retry_claim(app) };
    assert_eq!(store.claim_retries(early).await.unwrap(), []);
    let two = RetryClaim { limit: 2, ..fixtures::retry_claim(app) };
    let first = store.claim_retries(two.clone()).await.unwrap();
    let second = store.claim_retries(two.clone()).await.unwrap();
    let mut claimed: Vec<_> = first.iter().chain(&second).map(|retry| retry.key).collect();
    claimed.sort_unstable();
    assert_eq!((first.len(), claimed), (2, keys));
    let retry = &first[0];
    assert_eq!((retry.dispatch, retry.attempts), (dispatch.no, 1));
    assert_eq!((retry.first_attempt_at, retry.unknown_outcomes), (NOW, 0));
    assert!(retry.device.as_ref().unwrap().address.is_some());
    assert_eq!(open(store, app).await, 3, "a claimed one is open still");
    let elsewhere = RetryClaim { platform: Platform::Ios, ..two };
    assert_eq!(store.claim_retries(elsewhere).await.unwrap(), []);
}

#[apply(set_contract)]
async fn expired_retry_claim_is_claimed_again(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::retried(store, app, 1).await;
    let first = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let other = RetryClaim { instance: InstanceId(12), ..fixtures::retry_claim(app) };
    assert_eq!(store.claim_retries(other.clone()).await.unwrap(), []);
    let later = RetryClaim { now: LEASE, lease_until: LEASE.plus_ms(30_000), ..other.clone() };
    let second = store.claim_retries(later).await.unwrap();
    assert_eq!(second[0].no, first[0].no);
    let outcome = settled(first[0].no, Outcome::Sent);
    store.settle_retries(INSTANCE, vec![outcome.clone()], NOW).await.unwrap();
    assert_eq!(open(store, app).await, 1, "the first claimer does not hold it any more");
    store.settle_retries(InstanceId(12), vec![outcome], NOW).await.unwrap();
    assert_eq!(open(store, app).await, 0);
}

#[apply(set_contract)]
async fn excluded_retries_are_not_claimed(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::retried(store, app, 3).await;
    let one = RetryClaim { limit: 1, ..fixtures::retry_claim(app) };
    let first = store.claim_retries(one).await.unwrap();
    let exclude = vec![first[0].no];
    let later = RetryClaim {
        now: LEASE,
        lease_until: LEASE.plus_ms(30_000),
        exclude,
        ..fixtures::retry_claim(app)
    };
    let others = store.claim_retries(later.clone()).await.unwrap();
    assert_eq!(others.len(), 2, "its claim has expired, but it is at work on it");
    assert!(others.iter().all(|retry| retry.no != first[0].no));
    let all = RetryClaim { exclude: Vec::new(), ..later };
    assert_eq!(store.claim_retries(all).await.unwrap(), first, "taken up where it broke off");
}

#[apply(set_contract)]
async fn lost_retry_claim_is_reclaimed(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::retried(store, app, 3).await;
    let one = RetryClaim { limit: 1, ..fixtures::retry_claim(app) };
    let received = store.claim_retries(one.clone()).await.unwrap();
    let lost = store.claim_retries(one).await.unwrap();
    let other = RetryClaim { instance: InstanceId(12), limit: 1, ..fixtures::retry_claim(app) };
    let others = store.claim_retries(other).await.unwrap();
    let exclude = vec![received[0].no];
    let usual = RetryClaim { exclude, ..fixtures::retry_claim(app) };
    assert_eq!(store.claim_retries(usual.clone()).await.unwrap(), []);
    let again = RetryClaim { reclaim_own: true, ..usual };
    assert_eq!(
        store.claim_retries(again).await.unwrap(),
        lost,
        "neither excluded nor another server's"
    );
    assert_eq!((received.len(), lost.len(), others.len()), (1, 1, 1));
}

#[apply(set_contract)]
async fn last_retry_ends_the_dispatch(store: &Store) {
    let app = fixtures::app(store).await;
    let (dispatch, keys) = fixtures::retried(store, app, 2).await;
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let first = vec![settled(claimed[0].no, Outcome::Sent)];
    store.settle_retries(INSTANCE, first, NOW).await.unwrap();
    let read =
        || async { store.notification(app, dispatch.notification_id.clone()).await.unwrap() };
    assert_eq!(
        read().await.counts,
        Counts { targeted: 2, sent: 1, pending: 1, ..Counts::default() }
    );
    let at = NOW.plus_ms(4_000);
    store
        .settle_retries(INSTANCE, vec![settled(claimed[1].no, Outcome::Failed)], at)
        .await
        .unwrap();
    let record = read().await;
    assert_eq!((record.status, record.completed_at), (NotificationStatus::Completed, Some(at)));
    assert_eq!(record.counts, Counts { targeted: 2, sent: 1, failed: 1, ..Counts::default() });
    assert_eq!((record.failures[0].reason.as_str(), record.failures[0].count), ("refused", 1));
    let outcome = store.delivery_outcome(dispatch.no, keys[1]).await.unwrap().unwrap();
    assert_eq!((outcome.settled, outcome.attempts), (Outcome::Failed, 2));
}

#[apply(set_contract)]
async fn failed_retry_waits_again(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::retried(store, app, 1).await;
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let due_at = NOW.plus_ms(10_000);
    let step =
        RetryResult::Retry { attempts: 2, due_at, reason: "later".into(), unknown_outcomes: 1 };
    let again =
        RetryOutcome { no: claimed[0].no, result: step, dead: None, moved: None, verified: None };
    store.settle_retries(INSTANCE, vec![again], NOW).await.unwrap();
    assert_eq!(store.agenda(NOW).await.unwrap().next_retry_due, Some(due_at));
    assert_eq!(store.claim_retries(fixtures::retry_claim(app)).await.unwrap(), []);
    let then = RetryClaim { now: due_at, ..fixtures::retry_claim(app) };
    let claimed = store.claim_retries(then).await.unwrap();
    assert_eq!((claimed[0].attempts, claimed[0].unknown_outcomes), (2, 1));
}

/// A deferral is not an attempt, and keeps the result of the last attempt.
#[apply(set_contract)]
async fn deferred_retry_keeps_its_attempts(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::retried(store, app, 1).await;
    let before = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let due_at = NOW.plus_ms(10_000);
    let later = RetryOutcome {
        no: before[0].no,
        result: RetryResult::Deferred { due_at },
        dead: None,
        moved: None,
        verified: None,
    };
    store.settle_retries(INSTANCE, vec![later], NOW).await.unwrap();
    assert_eq!(store.claim_retries(fixtures::retry_claim(app)).await.unwrap(), []);
    let then = RetryClaim { now: due_at, ..fixtures::retry_claim(app) };
    assert_eq!(store.claim_retries(then).await.unwrap(), before);
}

/// The transaction of the erasure ends the retries.
#[apply(set_contract)]
async fn erasing_a_device_ends_its_retries(store: &Store) {
    let app = fixtures::app(store).await;
    let (dispatch, keys) = fixtures::retried(store, app, 2).await;
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    assert_eq!(open(store, app).await, 1);
    let outcome = store.delivery_outcome(dispatch.no, keys[0]).await.unwrap().unwrap();
    assert_eq!(outcome.settled, Outcome::Canceled);
    let late = claimed.iter().map(|retry| settled(retry.no, Outcome::Sent)).collect();
    store.settle_retries(INSTANCE, late, NOW).await.unwrap();
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Completed);
    assert_eq!(record.counts, Counts { targeted: 2, sent: 1, canceled: 1, ..Counts::default() });
}

#[apply(set_contract)]
async fn ended_retry_is_not_changed(store: &Store) {
    let app = fixtures::app(store).await;
    let (dispatch, keys) = fixtures::retried(store, app, 2).await;
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    for outcome in [Outcome::Sent, Outcome::Failed] {
        let outcomes = vec![settled(claimed[0].no, outcome)];
        store.settle_retries(INSTANCE, outcomes, NOW).await.unwrap();
    }
    let outcome = store.delivery_outcome(dispatch.no, keys[0]).await.unwrap().unwrap();
    assert_eq!(outcome.settled, Outcome::Sent);
    assert_eq!(store.delivery_outcome(dispatch.no, keys[1]).await.unwrap(), None);
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.counts, Counts { targeted: 2, sent: 1, pending: 1, ..Counts::default() });
    assert_eq!(record.failures, []);
}

#[apply(set_contract)]
async fn agenda_contains_lanes_with_due_retries(store: &Store) {
    assert_eq!(store.agenda(NOW).await.unwrap().next_retry_due, None);
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::retried(store, app, 3).await;
    fixtures::retried(store, other_app, 2).await;
    let due = NOW.plus_ms(1_000);
    assert_eq!(store.agenda(NOW).await.unwrap().next_retry_due, Some(due));
    assert_eq!(store.agenda(NOW).await.unwrap().retry_lanes, []);
    let lanes = [(app, Platform::Android), (other_app, Platform::Android)];
    assert_eq!(store.agenda(due).await.unwrap().retry_lanes, lanes);
    store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    assert_eq!(store.agenda(due).await.unwrap().retry_lanes, lanes[1..]);
    assert_eq!((open(store, app).await, open(store, other_app).await), (3, 2));
}

/// With a `collapse_key`, a later notification replaces what an older delivery would show.
#[apply(set_contract)]
async fn later_notification_with_the_same_key_overtakes(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let with_key = |key: &str| {
        fixtures::with(fixtures::broadcast(&[Platform::Android]), |checked| {
            checked.collapse_key = Some(key.to_owned());
        })
    };
    let old = fixtures::dispatch(store, app, with_key("score")).await;
    let (keys, _) = fixtures::whole_page(store, &old).await;
    let (first, last) = (DeviceKey(keys[0].0 - 1), keys[1]);
    let overtaken = |dispatch| store.overtaken(dispatch, first, last);
    for other in [with_key("weather"), fixtures::broadcast(&[Platform::Android])] {
        let other = fixtures::dispatch(store, app, other).await;
        let (_, page) = fixtures::whole_page(store, &other).await;
        let settled = vec![fixtures::sent(keys[0])];
        let done = Checkpoint { settled, ..fixtures::checkpoint(page, 2) };
        store.checkpoint(done).await.unwrap();
    }
    assert_eq!(overtaken(old.no).await.unwrap(), [], "of another key, or of none");
    let later = fixtures::dispatch(store, app, with_key("score")).await;
    let (_, page) = fixtures::whole_page(store, &later).await;
    assert_eq!(overtaken(old.no).await.unwrap(), [], "it has not been sent yet");
    let settled = vec![fixtures::sent(keys[0])];
    let retries = vec![fixtures::retry(keys[1])];
    let checkpoint = Checkpoint { settled, retries, ..fixtures::checkpoint(page, 2) };
    store.checkpoint(checkpoint).await.unwrap();
    assert_eq!(overtaken(old.no).await.unwrap(), keys[..1], "the other device did not get it");
    let none = store.overtaken(old.no, keys[0], keys[0]).await.unwrap();
    assert_eq!(none, [], "outside of the range");
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let outcomes = vec![self::settled(claimed[0].no, Outcome::Sent)];
    store.settle_retries(INSTANCE, outcomes, NOW).await.unwrap();
    assert_eq!(overtaken(old.no).await.unwrap(), keys, "a retry was sent to the other device");
    assert_eq!(overtaken(later.no).await.unwrap(), [], "nothing is later");
}

/// A key is often shared by notifications to one device each.
#[apply(set_contract)]
async fn what_went_to_other_devices_hides_no_later_notification(store: &Store) {
    const OTHERS: usize = 40;
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let to_one = |device| {
        fixtures::with(fixtures::direct(&[device], &[]), |checked| {
            checked.collapse_key = Some("score".to_owned());
        })
    };
    let sent = async |device| {
        let dispatch = fixtures::dispatch(store, app, to_one(device)).await;
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        let settled = vec![fixtures::sent(keys[0])];
        store.checkpoint(Checkpoint { settled, ..fixtures::checkpoint(page, 1) }).await.unwrap();
        keys[0]
    };
    let old = fixtures::dispatch(store, app, to_one("d000")).await;
    let key = sent("d000").await;
    for _ in 0..OTHERS {
        sent("d001").await;
    }
    let overtaken = store.overtaken(old.no, DeviceKey(key.0 - 1), key).await;
    assert_eq!(overtaken.unwrap(), [key]);
}

/// A delivery that was in flight when its notification was canceled is not retried.
#[apply(set_contract)]
async fn retry_of_a_canceled_dispatch_ends(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    store.cancel_notification(app, dispatch.notification_id.clone(), NOW).await.unwrap();
    let retries = vec![fixtures::retry(keys[0])];
    let settled = vec![fixtures::outcome(keys[1], Outcome::Canceled, Some("canceled"))];
    let last = Checkpoint { retries, settled, finished: true, ..fixtures::checkpoint(page, 2) };
    store.checkpoint(last).await.unwrap();
    assert_eq!(open(store, app).await, 0);
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Canceled);
    assert_eq!(record.counts, Counts { targeted: 2, canceled: 2, ..Counts::default() });
}

#[apply(set_contract)]
async fn retries_of_several_lanes_are_claimed_and_settled_at_once(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let (dispatch, _) = fixtures::retried(store, app, 4).await;
    let (other, _) = fixtures::retried(store, other_app, 2).await;
    let of = |app, instance| RetryClaim { instance, limit: 3, ..fixtures::retry_claim(app) };
    let second = InstanceId(12);
    let claimed = tokio::join!(
        store.claim_retries(of(app, INSTANCE)),
        store.claim_retries(of(app, second)),
        store.claim_retries(of(other_app, second)),
    );
    let claimed = [claimed.0.unwrap(), claimed.1.unwrap(), claimed.2.unwrap()];
    let mut numbers: Vec<_> = claimed.iter().flatten().map(|retry| retry.no).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!((numbers.len(), claimed[2].len()), (6, 2), "each is claimed once");
    assert!(claimed.iter().flatten().all(|retry| retry.device.is_some()));
    let all = |claimed: &[ClaimedRetry], outcome| -> Vec<RetryOutcome> {
        claimed.iter().map(|retry| settled(retry.no, outcome)).collect()
    };
    // Results of a process that does not hold the retry are ignored.
    let of_others = all(&claimed[0], Outcome::Failed);
    let results = tokio::join!(
        store.settle_retries(InstanceId(13), of_others, NOW),
        store.settle_retries(INSTANCE, all(&claimed[0], Outcome::Sent), NOW),
        store.settle_retries(second, all(&claimed[1], Outcome::Expired), NOW.plus_ms(9)),
        store.settle_retries(second, all(&claimed[2], Outcome::Failed), NOW),
    );
    assert!(results.0.is_ok() && results.1.is_ok() && results.2.is_ok() && results.3.is_ok());
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Completed);
    let (sent, expired) = (claimed[0].len() as u64, claimed[1].len() as u64);
    assert_eq!(record.counts, Counts { targeted: 4, sent, expired, ..Counts::default() });
    let record = store.notification(other_app, other.notification_id).await.unwrap();
    assert_eq!(record.counts, Counts { targeted: 2, failed: 2, ..Counts::default() });
    assert_eq!((record.failures[0].reason.as_str(), record.failures[0].count), ("refused", 2));
    assert_eq!((open(store, app).await, open(store, other_app).await), (0, 0));
}

/// Retries of devices with the tag of their notification, without it, and erased, claimed together.
#[apply(set_contract)]
async fn claimed_retries_have_their_devices(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    for device in ["d000", "d001", "d002"] {
        fixtures::tagged(store, app, device, "vip", true).await;
    }
    let mut tagged = fixtures::broadcast(&[Platform::Android]);
    tagged.checked.recipients.tag = Some("vip".into());
    for new in [tagged, fixtures::broadcast(&[Platform::Android])] {
        let dispatch = fixtures::dispatch(store, app, new).await;
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        let retries = keys.iter().map(|key| fixtures::retry(*key)).collect();
        let last = Checkpoint { retries, finished: true, ..fixtures::checkpoint(page, 3) };
        store.checkpoint(last).await.unwrap();
    }
    store.remove_tag(app, id("d001"), "vip".into()).await.unwrap();
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let eligible: Vec<_> =
        claimed.iter().map(|retry| retry.device.as_ref().unwrap().eligible).collect();
    assert_eq!(eligible, [true, false, true, true, true, true]);
}

/// A retry whose message was being sent is in doubt, until a result is committed.
#[apply(set_contract)]
async fn retry_with_an_intent_is_in_doubt(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::retried(store, app, 3).await;
    let first = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    assert!(first.iter().all(|retry| !retry.is_in_doubt));
    let numbers: Vec<RetryNo> = first.iter().map(|retry| retry.no).collect();
    assert!(!store.record_intent(InstanceId(12), numbers[2]).await.unwrap());
    for no in &numbers[..2] {
        assert!(store.record_intent(INSTANCE, *no).await.unwrap());
    }
    let deferred = RetryResult::Deferred { due_at: NOW };
    store
        .settle_retries(INSTANCE, vec![RetryOutcome::of(numbers[1], deferred)], NOW)
        .await
        .unwrap();
    let other = RetryClaim {
        instance: InstanceId(12),
        now: LEASE,
        lease_until: LEASE.plus_ms(30_000),
        ..fixtures::retry_claim(app)
    };
    let in_doubt = |retries: Vec<ClaimedRetry>| -> Vec<RetryNo> {
        retries.into_iter().filter(|retry| retry.is_in_doubt).map(|retry| retry.no).collect()
    };
    assert_eq!(
        in_doubt(store.claim_retries(other.clone()).await.unwrap()),
        [numbers[0]],
        "neither a retry of another process nor one that was given back"
    );
    let retried = RetryResult::Retry {
        attempts: 2,
        due_at: LEASE,
        reason: "busy".into(),
        unknown_outcomes: 0,
    };
    let outcome = RetryOutcome::of(numbers[0], retried);
    store.settle_retries(InstanceId(12), vec![outcome], LEASE).await.unwrap();
    assert!(!store.record_intent(InstanceId(12), numbers[0]).await.unwrap(), "given back");
    let last = RetryClaim { now: LEASE.plus_ms(60_000), ..other };
    assert_eq!(in_doubt(store.claim_retries(last).await.unwrap()), []);
}
