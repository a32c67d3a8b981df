//! Rows from before keys had the prefix of the application. They keep their keys, and new rows sort
//! after them.

use std::thread;

use notify_core::{NotificationStatus, Platform, ProviderStatus, Schedule};

use crate::store::contract::fixtures::{self, INSTANCE, LEASE, NOW};
use crate::store::key_prefix_tests::*;
use crate::store::{
    BreakerKey, BreakerRecord, BreakerUpdate, Checkpoint, DispatchNo, InstanceId, NotificationNo,
    PageNo,
};

/// The last version without the prefix.
const VERSION: i32 = 9;
const SHOP: AppNo = AppNo(1);
const DUE: i64 = NOW.as_ms() + 100;

/// The rows of two applications: a notification that is being sent, a scheduled one, the state of a
/// channel, and a deleted tag. `bytes` is the SQL for sixteen bytes.
fn before(bytes: impl Fn(&str) -> String) -> String {
    let (now, lease) = (NOW.as_ms(), LEASE.as_ms());
    let [a, b] = ["0a", "0b"].map(|byte| bytes(&byte.repeat(16)));
    let notification = "insert into notifications (app_no, id, origin, status, created_at, due_at,
        request, platforms, names_devices, ttl_seconds, audience_until, open_dispatches, started_at)";
    let lead = SHOP.key_prefix();
    format!(
        "insert into apps (id, name, language, status, created_at, device_sequence) values
            ({a}, 'Shop', 'en', 'active', 1, 1), ({b}, 'Other', 'en', 'active', 1, 0);
        insert into devices (key, app_no, device_id, address, address_hash, push_disabled,
            utc_offset_minutes, details, created_at, registered_at) values
            ({lead} + 1, 1, 'd000', 'token-d000', 7, 0, 0, '{{}}', 1, 1);
        {notification} values (1, 'sent', 'created', 'sending', {now}, {now}, '{{}}', 1, 0, 600, 1, 1, {now});
        {notification} values (1, 'due', 'created', 'scheduled', {now}, {DUE}, '{{}}', 1, 0, 600, null, 0, null);
        insert into dispatches (notification_no, platform, zone, due_at, cursor, until, scan_done,
            open_pages) values (1, 0, 32767, {now}, {lead} + 1, {lead} + 1, 1, 1);
        insert into pages (dispatch_no, from_key, to_key, epoch, lease_until, targeted, excluded)
            values (1, {lead}, {lead} + 1, {instance}, {lease}, 1, 0);
        insert into channel_states (app_no, platform, service, state, reason, until, told_by, at) values
            (1, 0, 'https://push.example', 2, 'refused', 3, 5, 7);
        insert into tags (app_no, name) values (1, 'gone'), (2, 'gone');
        delete from tags;",
        instance = INSTANCE.0
    )
}

#[test]
fn rows_from_before_keep_their_numbers_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.db");
    let old = sqlite::make_version(&path, VERSION);
    old.execute_batch(&before(|hex| format!("x'{hex}'"))).unwrap();
    drop(old);
    let store = || sqlite::open(&path, SqliteOptions::default()).unwrap();
    run(async { goes_on(&store()).await });
    let (connection, _lock) = sqlite::open_exclusive(&path).unwrap();
    tags_count_on(&connection);
}

#[test]
fn rows_from_before_keep_their_numbers_in_postgres() {
    let database = TestCluster::shared().database();
    let url: DatabaseUrl = database.url().parse().unwrap();
    thread::scope(|scope| scope.spawn(|| postgres::make_version(&url, VERSION)).join()).unwrap();
    database.execute(&before(|hex| format!("'\\x{hex}'")));
    let store = || postgres::open(&url, PostgresOptions::default()).unwrap();
    run(async { goes_on(&store()).await });
    let look = || tags_count_on(&postgres::connect(&url).unwrap());
    thread::scope(|scope| scope.spawn(look).join()).unwrap();
}

async fn goes_on(store: &Store) {
    let mut later = fixtures::broadcast(&[Platform::Android]);
    later.schedule = Schedule::At(notify_core::Timestamp(DUE));
    let later = fixtures::accepted(store, SHOP, later).await;
    let listed = store.list_notifications(SHOP, None, fixtures::page(10)).await.unwrap().rows;
    let listed: Vec<_> = listed.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(listed, [later.as_str(), "due", "sent"], "the newest first");

    // Running dispatches end.
    let adopted = store.reclaim(fixtures::adoption(INSTANCE)).await.unwrap();
    let [page] = adopted.pages[..] else { panic!("{adopted:?}") };
    assert_eq!((page.no, page.dispatch), (PageNo(1), DispatchNo(1)));
    let settled = vec![fixtures::sent(page.to)];
    let last = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 1) };
    store.checkpoint(last).await.unwrap();
    let sent = notify_core::NotificationId::new("sent").unwrap();
    let sent = store.notification(SHOP, sent).await.unwrap();
    assert_eq!(sent.status, NotificationStatus::Completed);

    // With equal times the legacy row is older.
    let (started, _) = store.start_due(notify_core::Timestamp(DUE), 10).await.unwrap();
    assert_eq!(started, [2, 3].map(|count| DispatchNo(SHOP.key_prefix() | count)));
    let of = |no| async move { store.dispatch(no).await.unwrap().notification };
    assert_eq!(of(started[0]).await, NotificationNo(2));
    assert_eq!(of(started[1]).await, NotificationNo(SHOP.key_prefix() | 3));

    let service = "https://push.example".into();
    let key = BreakerKey { app: SHOP, platform: Platform::Android, service };
    let status = ProviderStatus::AuthRejected {
        reason: Some("refused".to_owned()),
        probe_at: notify_core::Timestamp(3),
    };
    let record = BreakerRecord { no: 1, key: key.clone(), status, by: Some(InstanceId(5)) };
    assert_eq!(store.breakers_since(None, 0, 10).await.unwrap(), [record]);
    let status = ProviderStatus::Available;
    let next = BreakerUpdate { key, status, by: INSTANCE, known_no: 1, at: NOW };
    assert_eq!(store.publish_breaker(next).await.unwrap().no, 2);
    fixtures::tagged(store, SHOP, "d000", "new", true).await;
    assert_eq!(fixtures::app(store).await, AppNo(3));
    store.close().await;
}

fn tags_count_on(connection: &Connection) {
    assert_eq!(numbers(connection, "select no from tags"), [SHOP.key_prefix() | 3]);
}
