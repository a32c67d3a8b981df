//! Failures of sets.

use notify_core::{
    DayPeriod, DeviceDetails, Endpoint, Event, EventType, IosEnv, Registration, WebSubscription,
};

use super::*;
use crate::store::contract::fixtures::NOW;
use crate::store::sqlite::tests::SqliteBackend;
use crate::store::{Change, DeviceFilter};

/// A trigger that runs this body before each insert of a notification.
fn before_each_insert(own: &PostgresBackend, body: &str) {
    own.0.execute(&format!(
        "create sequence inserts;
         create function refuse() returns trigger language plpgsql as $$ begin {body}; end $$;
         create trigger refuse before insert on notifications for each row execute function refuse()"
    ));
}

#[tokio::test]
async fn a_row_that_the_tables_refuse_fails_alone() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    before_each_insert(
        &own,
        "if new.id = 'bad' then raise exception 'on purpose' using errcode = '23514'; end if;
         return new",
    );
    let good = || fixtures::broadcast(&[Platform::Android]);
    let bad = NewNotification { id: NotificationId::new("bad").unwrap(), ..good() };
    let (first, refused, last) = tokio::join!(
        store.accept_notification(app, good(), None),
        store.accept_notification(app, bad, None),
        store.accept_notification(app, good(), None),
    );
    assert!(first.is_ok() && last.is_ok(), "{first:?} {last:?}");
    assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
    assert_eq!(stored(&store, app).await, 2);
    store.close().await;
}

#[tokio::test]
async fn the_rows_of_a_set_that_deadlocks_are_written_alone() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    // The sequence is not rolled back, so only the first insert fails.
    before_each_insert(
        &own,
        "if nextval('inserts') = 1 then raise exception 'on purpose' using errcode = '40P01'; end if;
         return new",
    );
    assert_eq!(accept_many(&store, app, 5).await, (5, 0));
    assert_eq!(stored(&store, app).await, 5);
    store.close().await;
}

/// First the set waits for the lock, and then the row-by-row write.
#[tokio::test]
async fn a_row_that_stays_locked_is_unavailable_and_no_bug() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    fixtures::devices(&store, app, 1).await;
    let held = own.0.hold("select no from apps for update");
    let new = store.register_device(app, fixtures::android("new"), NOW, None).await;
    assert!(matches!(new, Err(StoreError::Unavailable(_))), "{new:?}");
    drop(held);
    fixtures::registered(&store, app, fixtures::android("new")).await;
    store.close().await;
}

/// Its changes are lost with its reply; the caller does not know the result either.
#[tokio::test]
async fn a_set_whose_commit_has_a_lost_reply_causes_a_resync() {
    let own = PostgresBackend::new();
    let (first, second) = (own.open(), own.open());
    let app = fixtures::app(&first).await;
    let (here, there) = (Arc::new(ChangeRecorder::default()), Arc::new(ChangeRecorder::default()));
    first.subscribe(here.clone());
    second.subscribe(there.clone());
    first.fail(Fault::LoseCommitReply(1));
    assert_eq!(accept_many(&first, app, 1).await, (0, 1));
    assert_eq!(*here.0.lock().unwrap(), [], "the result is not known");
    assert_eq!(stored(&first, app).await, 1);
    fixtures::named_app(&first, "Another").await;
    here.wait_for(|change| *change == Change::Resync).await;
    there.wait_for(|change| *change == Change::Resync).await;
    second.close().await;
    first.close().await;
}

/// Until then, PostgreSQL keeps a plan that scans all of `devices` or `device_fields` for each set.
#[tokio::test]
async fn tables_that_grow_are_analyzed() {
    const DEVICES: i64 = 600;
    let own = PostgresBackend::new();
    let is_analyzed = |table: &str| {
        own.0.numbers(&format!(
            "select (reltuples > 0 and pg_relation_size(oid)
                <= 2 * relpages * current_setting('block_size')::bigint)::int::bigint
             from pg_class where relname = '{table}'"
        )) == [1]
    };
    let register = async |store: &Store, app, device: String| {
        let device = fixtures::android(&device);
        store.register_device(app, device, NOW.plus_ms(1_000), None).await.unwrap();
    };
    let register_all = async |store: &Store, app| {
        let all = (0..DEVICES).map(|number| register(store, app, format!("phone-{number}")));
        futures_util::future::join_all(all).await;
    };
    // The sizes are checked after a set, at most once a second.
    let wait_until_analyzed = async |store: &Store, app, table| {
        let write_sets = async {
            let mut number = 0;
            while !is_analyzed(table) {
                number += 1;
                register(store, app, format!("{table}-{number}")).await;
            }
        };
        let limit = Duration::from_secs(30);
        tokio::time::timeout(limit, write_sets).await.unwrap_or_else(|_| panic!("{table}"));
    };
    let store = own.open();
    let app = fixtures::app(&store).await;
    register_all(&store, app).await;
    for table in ["devices", "device_fields"] {
        wait_until_analyzed(&store, app, table).await;
    }
    store.close().await;
}

/// A set leaves the mark of a move to the row-by-row write, which knows what it means.
#[tokio::test]
async fn a_moved_database_accepts_nothing() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    fixtures::registered(&store, app, fixtures::android("phone")).await;
    own.0.execute(
        "insert into moves (no, state, id, place, at)
         values (1, 'left', decode(repeat('00', 16), 'hex'), 'elsewhere', 1)",
    );
    assert_eq!(accept_many(&store, app, 3).await, (0, 3));
    // A registration that changes nothing only reads, and fails too.
    let unchanged = store.register_device(app, fixtures::android("phone"), NOW, None).await;
    assert!(matches!(unchanged, Err(StoreError::Unavailable(_))), "{unchanged:?}");
    own.0.execute("delete from moves");
    assert_eq!(accept_many(&store, app, 3).await, (3, 0));
    store.close().await;
}

/// The number of batches of random writes.
const BATCHES: u64 = 12;
/// The number of devices that they are about.
const DEVICES: usize = 40;

/// A registration of a device that may differ from the last one in any way. No two devices have the
/// same address.
fn random_registration(random: &mut fastrand::Rng, device: usize) -> Registration {
    let name = format!("d{device:03}");
    let token = format!("token-{name}-{}", random.u8(..2));
    let endpoint = match random.u8(..10) {
        0 => Endpoint::Android { push_token: None },
        1..6 => Endpoint::Android { push_token: Some(token) },
        6..8 => {
            let env = random.bool().then_some(IosEnv::Sandbox);
            Endpoint::Ios { push_token: Some(token), env }
        }
        _ => Endpoint::Web(WebSubscription {
            endpoint: format!("https://push.example/{token}"),
            p256dh: format!("key-{}", random.u8(..2)),
            auth: "secret".to_owned(),
        }),
    };
    let app_version = Some(format!("{}", random.u8(..3)));
    Registration {
        push_disabled: random.u8(..10) == 0,
        utc_offset_minutes: if random.u8(..10) == 0 { 60 } else { 0 },
        details: DeviceDetails { app_version, ..DeviceDetails::default() },
        ..fixtures::registration(&name, endpoint)
    }
}

/// Everything that the stores show of the devices and notifications of an application.
async fn shown(store: &Store, app: AppNo) -> String {
    let all = fixtures::page(1_000);
    let mut devices = store.list_devices(app, DeviceFilter::default(), all.clone()).await.unwrap();
    // The keys of new devices follow the order of the registrations, which a set does not keep.
    devices.rows.sort_by(|a, b| a.device_id.as_str().cmp(b.device_id.as_str()));
    let mut notifications = store.list_notifications(app, None, all).await.unwrap();
    notifications.rows.sort_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    let later = NOW.plus_ms(100 * 86_400_000);
    let counts = store.count_devices(app, None, later, later).await.unwrap();
    let last = notify_core::Day::of(NOW);
    let days = store.count_days(app, DayPeriod { first: None, last }).await.unwrap();
    format!("{:#?} {:#?} {counts:#?} {days:#?}", devices.rows, notifications.rows)
}

/// A batch in sets leaves the same rows, and gives the same answers, as the same writes one by one on
/// SQLite.
#[tokio::test]
async fn sets_write_what_single_writes_on_sqlite_do() {
    let (own, file) = (PostgresBackend::new(), SqliteBackend::new());
    let (in_sets, one_by_one) = (own.open(), Backend::open(&file));
    let app = fixtures::app(&in_sets).await;
    assert_eq!(fixtures::app(&one_by_one).await, app);
    let mut sent: Vec<NewNotification> = Vec::new();
    for batch in 0..BATCHES {
        let random = &mut fastrand::Rng::with_seed(batch);
        let at = NOW.plus_ms(i64::try_from(batch).unwrap() * 1_500_000);
        let devices: Vec<usize> = (0..DEVICES).filter(|_| random.u8(..10) < 7).collect();
        let registrations: Vec<_> =
            devices.iter().map(|device| random_registration(random, *device)).collect();
        let wanted = |store: &SharedStore| {
            let store = Arc::clone(store);
            let all = registrations.clone();
            async move {
                let each = all.into_iter().map(|one| store.register_device(app, one, at, None));
                futures_util::future::join_all(each).await
            }
        };
        for result in wanted(&in_sets).await {
            result.unwrap();
        }
        for registration in registrations.clone() {
            one_by_one.register_device(app, registration, at, None).await.unwrap();
        }
        let names: Vec<String> = (0..DEVICES + 5).map(|device| format!("d{device:03}")).collect();
        let accepts: Vec<_> = (0..10)
            .map(|nth| {
                let name = random.choice(&names).unwrap().as_str();
                let id = NotificationId::new(format!("n-{batch}-{nth}")).unwrap();
                let new = NewNotification { id, at, ..fixtures::direct(&[name], &[]) };
                let key =
                    random.bool().then(|| fixtures::once("/v1/notifications", new.id.as_str(), 1));
                (new, key)
            })
            .collect();
        let answers = futures_util::future::join_all(
            accepts.iter().cloned().map(|(new, key)| in_sets.accept_notification(app, new, key)),
        )
        .await;
        for ((new, key), answer) in accepts.into_iter().zip(answers) {
            let alone = one_by_one.accept_notification(app, new.clone(), key).await.unwrap();
            assert_eq!(answer.unwrap(), alone);
            sent.push(new);
        }
        let requests: Vec<Vec<Event>> = (0..8)
            .map(|_| {
                let event = |random: &mut fastrand::Rng| Event {
                    kind: *random.choice(&EventType::ALL).unwrap(),
                    notification_id: random.choice(&sent).unwrap().id.clone(),
                    device_id: fixtures::id(random.choice(&names).unwrap()),
                    at: Some(NOW),
                };
                (0..random.usize(1..6)).map(|_| event(random)).collect()
            })
            .collect();
        let answers = futures_util::future::join_all(
            requests.iter().cloned().map(|events| in_sets.record_events(app, events, at, None)),
        )
        .await;
        for (events, answer) in requests.into_iter().zip(answers) {
            let alone = one_by_one.record_events(app, events, at, None).await.unwrap();
            assert_eq!(answer.unwrap(), alone);
        }
        assert_eq!(shown(&in_sets, app).await, shown(&one_by_one, app).await, "batch {batch}");
    }
    in_sets.close().await;
    one_by_one.close().await;
}
