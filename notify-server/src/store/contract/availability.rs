//! Requests that read or change many rows, and what they leave to others.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use futures_util::future::join_all;
use macro_rules_attribute::apply;
use notify_core::{AttributeChanges, AttributeValue, Tag, Timestamp, USERS_DEVICES_MAX};
use tokio::sync::oneshot;

use super::fixtures::{self, NOW, id, tag};
use super::users::user;
use crate::store::{AppNo, Requester, Store, StoreError, as_request, set_requester, with_deadline};

/// The longest wait for what happens at once.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// A statement that does not end.
const ENDLESS: &str = "with recursive numbers (n) as (select 1 union all select n + 0 from numbers)
     select count(*) from numbers";

/// Changes of attributes with these numbers.
fn attributes(count: usize, value: Option<f64>) -> AttributeChanges {
    let names = (0..count).map(|number| format!("a{number:03}"));
    AttributeChanges(names.map(|name| (name, value.map(AttributeValue::Number))).collect())
}

fn tags(count: usize, value: bool) -> Vec<Tag> {
    (0..count).map(|number| tag(&format!("t{number:04}"), value)).collect()
}

/// How many statements a write takes.
async fn statements<T>(store: &Store, write: impl Future<Output = Result<T, StoreError>>) -> u64 {
    let before = store.statements_written();
    write.await.unwrap();
    store.statements_written() - before
}

/// Changes a user with many devices and attributes, and a device with many tags and attributes. Returns how
/// many statements each change took.
async fn changes(store: &Store, count: usize) -> Vec<(&'static str, u64)> {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, count).await;
    for number in 0..count {
        let device = id(&format!("d{number:03}"));
        store.log_in(app, device, user("ada"), NOW).await.unwrap();
    }
    let of_user = |changes| store.change_user(app, user("ada"), changes, NOW);
    let of_device = |changes| store.change_attributes(app, id("d000"), changes);
    let set_tags = |tags| store.set_tags(app, id("d000"), tags, None);
    let mixed =
        || -> Vec<Tag> { tags(count, true).into_iter().chain(tags(count / 2, false)).collect() };
    let taken = vec![
        (
            "new attributes of a user",
            statements(store, of_user(attributes(count, Some(1.0)))).await,
        ),
        ("values of a user", statements(store, of_user(attributes(count, Some(2.0)))).await),
        (
            "own values of a device",
            statements(store, of_device(attributes(count, Some(3.0)))).await,
        ),
        ("no own values", statements(store, of_device(attributes(count, None))).await),
        ("no values of a user", statements(store, of_user(attributes(count, None))).await),
        ("new tags", statements(store, set_tags(tags(10 * count, true))).await),
        ("the same tags", statements(store, set_tags(tags(10 * count, true))).await),
        ("tags set to false", statements(store, set_tags(tags(10 * count, false))).await),
        ("tags of both values", statements(store, set_tags(mixed())).await),
        ("a device with tags", statements(store, store.delete_device(app, id("d000"), NOW)).await),
    ];
    let left = store.list_tags(app, fixtures::page(10)).await.unwrap().rows;
    assert!(left.is_empty(), "{left:?}");
    taken
}

#[apply(contract)]
async fn a_change_takes_the_same_statements_for_many_rows(store: &Store) {
    let few = changes(store, 2).await;
    let many = changes(store, USERS_DEVICES_MAX).await;
    assert_eq!(few, many);
}

/// Who stops waiting for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Dropped,
    Late,
}

#[apply(contract)]
async fn a_read_ends_with_its_request(store: &Store) {
    for end in [End::Dropped, End::Late] {
        let (begin, begun) = oneshot::channel();
        let (finish, finished) = oneshot::channel();
        let reading = store.read_long(move |connection| {
            let _ = begin.send(());
            let read = connection
                .prepare_cached(ENDLESS)
                .and_then(|mut endless| endless.query_row([], |row| row.get::<i64>(0)));
            let _ = finish.send(read.is_err());
            read?;
            Ok(())
        });
        match end {
            End::Dropped => {
                tokio::select! {
                    read = reading => panic!("it has no end: {read:?}"),
                    begun = begun => begun.unwrap(),
                }
            }
            End::Late => {
                let read = with_deadline(Duration::from_millis(50), reading).await;
                assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
            }
        }
        // A read whose request ended before the read began is never run.
        let has_failed = tokio::time::timeout(WAIT_MAX, finished).await.expect("the read ends");
        assert!(has_failed.unwrap_or(end == End::Late), "{end:?}");
    }
    store.check().await.unwrap();
}

/// Runs work as a request of an application.
async fn requested_by<W: Future>(app: AppNo, work: W) -> W::Output {
    as_request(async {
        set_requester(Requester::App(app));
        work.await
    })
    .await
}

#[apply(contract)]
async fn slow_reads_of_one_application_do_not_occupy_all_readers(store: &Store) {
    let (slow, quick) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, quick, 1).await;
    let (mut releases, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let (release, released) = mpsc::channel::<()>();
        releases.push(release);
        let read = store.read_long(move |_| {
            // Ends with an error, when the test drops the other end.
            let _ = released.recv();
            Ok(())
        });
        reads.push(requested_by(slow, read));
    }
    let others = async move {
        let work = Box::pin(async {
            store.check().await.unwrap();
            let send = async {
                store.device(quick, id("d000")).await.unwrap();
                fixtures::accepted(store, quick, fixtures::direct(&["d000"], &[])).await;
            };
            requested_by(quick, Box::pin(send)).await;
            // Also requests of the same application that read a few rows.
            requested_by(slow, store.queues(NOW)).await.unwrap();
        });
        let done = tokio::time::timeout(WAIT_MAX, work).await;
        drop(releases);
        done.expect("the others do not wait");
    };
    tokio::join!(join_all(reads), others);
}

#[apply(contract)]
async fn reads_of_many_rows_wait_for_their_turn_between_slices(store: &Store) {
    let (slow, quick) = (fixtures::app(store).await, fixtures::app(store).await);
    let slices = Arc::new(AtomicUsize::new(0));
    let (release, released) = mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let counted = Arc::clone(&slices);
    // It goes on until a read of the other application was answered.
    let endless = store.read_in_slices((), move |_, ()| {
        counted.fetch_add(1, Ordering::Relaxed);
        let is_released =
            released.lock().unwrap().try_recv() == Err(mpsc::TryRecvError::Disconnected);
        Ok(if is_released { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    let other = async move {
        let read = requested_by(quick, store.read_long(|_| Ok(())));
        let read = tokio::time::timeout(WAIT_MAX, read).await;
        drop(release);
        read.expect("it has its turn").unwrap();
    };
    let (ended, ()) = tokio::join!(requested_by(slow, endless), other);
    ended.unwrap();
    assert!(slices.load(Ordering::Relaxed) > 0);
}

#[apply(contract)]
async fn devices_of_a_part_of_an_hour_are_counted(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    for (from, to, expected) in [
        (None, NOW, 3),
        (None, NOW.plus_ms(-1), 0),
        (Some(NOW), NOW, 3),
        (Some(NOW.plus_ms(1)), NOW.plus_ms(2), 0),
        (Some(Timestamp(0)), NOW.plus_ms(1), 3),
    ] {
        let counts = store.count_devices(app, from, to, NOW.plus_ms(10)).await.unwrap();
        let enabled: u64 = counts.iter().map(|count| count.enabled).sum();
        assert_eq!(enabled, expected, "{from:?} to {to:?}");
    }
}
