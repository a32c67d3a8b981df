//! Erasing devices and users: what is left of them in stored requests, and in every table.

use macro_rules_attribute::apply;
use notify_core::{
    Endpoint, Event, EventType, NotificationId, PendingErasures, Schedule, Subscription, Timestamp,
    WebSubscription,
};

use super::app_devices::{android as phone, app_device};
use super::fixtures::{self, NOW, android, id, once};
use super::users::{set, to_users, user};
use crate::store::sql::{Connection, WriteScope};
use crate::store::{
    AppNo, AudienceSource, Idempotent, NewNotification, Operation, REQUESTS_PER_SLICE, Store,
    StoreError,
};

const LATER: Timestamp = NOW.plus_ms(60_000);

/// An id that is still to be removed from requests.
pub(super) async fn one_of_each(store: &Store, app: AppNo) {
    store
        .write_to(WriteScope::app(app), Operation::RemoveErasedIds, move |tx| {
            tx.prepare_cached(
                "insert into erased_ids (app_no, kind, id, last_no, searched_to, erased_at)
                 values (?1, 0, 'gone', ?2, 0, 0)",
            )?
            .execute([app.0, app.key_prefix()])?;
            Ok(())
        })
        .await
        .unwrap();
}

/// Stores more requests than an erasure searches by itself. Returns the notification of the last one.
async fn many_requests(
    store: &Store,
    app: AppNo,
    request: impl Fn() -> NewNotification,
) -> NotificationId {
    let mut last = None;
    for _ in 0..=REQUESTS_PER_SLICE {
        let new = fixtures::at_schedule(Schedule::At(LATER), request());
        last = Some(fixtures::accepted(store, app, new).await);
    }
    last.unwrap()
}

/// Removes all erased ids. Returns the number of slices.
async fn remove_all(store: &Store, app: AppNo) -> usize {
    let mut slices = 1;
    while store.remove_erased_ids(app).await.unwrap() {
        slices += 1;
    }
    slices
}

/// The number of stored requests with this text.
async fn requests_with(store: &Store, text: &'static str) -> i64 {
    let pattern = format!("%{text}%");
    store
        .read(move |connection| {
            let sql = "select count(*) from notifications where request like ?1";
            Ok(connection.prepare_cached(sql)?.query_row([pattern], |row| row.get(0))?)
        })
        .await
        .unwrap()
}

#[apply(contract)]
async fn an_id_in_many_requests_is_gone_at_once_and_removed_in_slices(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let last = many_requests(store, app, || fixtures::direct(&["d000", "d001"], &[])).await;
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    let pending = PendingErasures { ids: 1, oldest_at: Some(NOW), requests_left: 1 };
    assert_eq!(store.pending_erasures().await.unwrap(), pending);
    assert_eq!(store.apps_with_erasures().await.unwrap(), [app]);
    assert_eq!(requests_with(store, "d000").await, 1, "the erasure searched a slice itself");

    // Nothing shows the id, and a later device of the same id is not meant.
    let cleared = r#"{"android_device_ids":["d001"],"ios_device_ids":[],"text":"Hello"}"#;
    let shown = store.notification(app, last.clone()).await.unwrap();
    assert_eq!(shown.request.as_str(), cleared);
    let listed = store.list_notifications(app, None, fixtures::page(1)).await.unwrap().rows;
    assert_eq!((&listed[0].id, listed[0].request.as_str()), (&last, cleared));
    fixtures::registered(store, app, android("d000")).await;
    let facts = store.delivery_facts(app, last.clone(), id("d000")).await.unwrap();
    assert!(!facts.device.is_named);
    let new = fixtures::at_schedule(Schedule::At(LATER), fixtures::direct(&["d000"], &[]));
    let newer = fixtures::accepted(store, app, new).await;
    let (started, _) = store.start_due(LATER, 2_000).await.unwrap();
    let mut named = Vec::new();
    for no in started {
        let AudienceSource::Named { keys, .. } = store.dispatch(no).await.unwrap().source else {
            panic!("the requests name devices");
        };
        named.push(keys.len());
    }
    assert_eq!(named.len(), REQUESTS_PER_SLICE as usize + 2);
    assert!(named.iter().all(|keys| *keys == 1), "only the later request names the later device");

    assert_eq!(remove_all(store, app).await, 1);
    assert_eq!(store.pending_erasures().await.unwrap(), PendingErasures::default());
    assert_eq!(requests_with(store, "d000").await, 1, "the later request keeps its device");
    let kept = store.notification(app, newer).await.unwrap();
    assert!(kept.request.as_str().contains("d000"), "{:?}", kept.request);
}

#[apply(contract)]
async fn a_user_in_many_requests_is_gone_at_once_and_removed_in_slices(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    for name in ["ada", "bob"] {
        store.change_user(app, user(name), set("plan", "pro"), NOW).await.unwrap();
    }
    store.log_in(app, id("d000"), user("ada"), NOW).await.unwrap();
    let last = many_requests(store, app, || to_users(&["ada", "bob"])).await;
    store.delete_user(app, user("ada"), false, NOW).await.unwrap();
    assert_eq!(store.pending_erasures().await.unwrap().ids, 2, "the user and the device");
    let users = async || {
        let page = fixtures::page(10);
        let listed =
            store.list_notification_users(app, last.clone(), None, page).await.unwrap().rows;
        listed.into_iter().map(|user| user.user_id.unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(users().await, ["bob"]);
    let counts = store.notification(app, last.clone()).await.unwrap().users.unwrap();
    assert_eq!((counts.named, counts.pending), (1, 1));

    // A later user of the same id is erased when the search, which includes another user by now, has passed a
    // request to this later user.
    store.change_user(app, user("ada"), set("plan", "pro"), NOW).await.unwrap();
    fixtures::accepted(store, app, to_users(&["ada"])).await;
    many_requests(store, app, || to_users(&["bob"])).await;
    store.delete_user(app, user("bob"), false, NOW).await.unwrap();
    assert!(users().await.is_empty());
    assert!(store.remove_erased_ids(app).await.unwrap());
    assert_eq!(requests_with(store, "ada").await, 1, "the later user exists");
    store.delete_user(app, user("ada"), false, NOW).await.unwrap();
    assert!(remove_all(store, app).await < 6);
    assert_eq!(requests_with(store, "ada").await, 0);
    assert_eq!(requests_with(store, "bob").await, 0);
    assert_eq!(store.pending_erasures().await.unwrap(), PendingErasures::default());
}

/// Every value of every table as text, with the name of its table.
fn values(connection: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let tables = match connection {
        Connection::Sqlite(_) => {
            "select t.name, c.name from pragma_table_list t join pragma_table_info(t.name) c
             where t.type = 'table' and t.schema = 'main'"
        }
        Connection::Postgres(_) => {
            "select table_name::text, column_name::text from information_schema.columns
             where table_schema = 'public'"
        }
    };
    let columns = connection
        .prepare_cached(tables)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(String, String)>, _>>()?;
    assert!(columns.len() > 200, "the columns are listed: {columns:?}");
    let mut values = Vec::new();
    // The tables of the schema itself contain no rows of applications.
    for (table, column) in columns.into_iter().filter(|(table, _)| table != "sqlite_schema") {
        let texts = connection
            .prepare_cached(&format!("select cast(\"{column}\" as text) from \"{table}\""))?
            .query_map([], |row| row.get(0))?
            .collect::<Result<Vec<Option<String>>, _>>();
        // SQLite cannot read bytes as text that are not UTF-8. They are hashes, keys and numbers.
        let texts = texts.unwrap_or_default();
        values.extend(texts.into_iter().flatten().map(|text| (format!("{table}.{column}"), text)));
    }
    Ok(values)
}

#[apply(contract)]
async fn an_erased_device_and_user_are_in_no_table(store: &Store) {
    let app = fixtures::app(store).await;
    let browser = Subscription {
        device_id: Some(id("secret-browser")),
        endpoint: Endpoint::Web(WebSubscription {
            endpoint: "https://push.example/secret".to_owned(),
            p256dh: "secret-key".to_owned(),
            auth: "secret-auth".to_owned(),
        }),
        utc_offset_minutes: 0,
        timezone_minutes: None,
        user_id: Some(user("secret-user")),
        details: notify_core::DeviceDetails::default(),
    };
    let subscribe = async |key| {
        let made = store.subscribe_device(app, browser.clone(), id("made"), NOW, key).await;
        made.unwrap()
    };
    let key = || Some(once("/v1/subscriptions", "k", 1));
    subscribe(key()).await;
    assert!(matches!(subscribe(key()).await, Idempotent::Replayed(_)));
    let tags = vec![fixtures::tag("vip", true)];
    let path = once("/v1/devices/secret-browser/tags", "k", 1);
    store.set_tags(app, id("secret-browser"), tags, Some(path)).await.unwrap();
    let preview = once("/v1/notifications/preview", "k", 1).about(&id("secret-browser"));
    store.keep_preview(app, "Hello secret".to_owned(), Some(preview.clone())).await.unwrap();
    store.change_user(app, user("secret-user"), set("plan", "secret-plan"), NOW).await.unwrap();
    let notification = fixtures::accepted(store, app, to_users(&["secret-user"])).await;
    fixtures::accepted(store, app, fixtures::to_any(&["secret-browser"], &[])).await;
    store.start_due(NOW, 10).await.unwrap();
    let opened = Event {
        kind: EventType::Opened,
        notification_id: notification,
        device_id: id("secret-browser"),
        at: None,
    };
    let events = Some(once("/v1/events", "k", 1));
    store.record_events(app, vec![opened], NOW, events).await.unwrap();
    let secrets = async || {
        let values = store.read(values).await.unwrap();
        values.into_iter().filter(|(_, text)| text.contains("secret")).collect::<Vec<_>>()
    };
    assert!(secrets().await.len() > 10, "the test fills tables");

    store.delete_user(app, user("secret-user"), false, NOW).await.unwrap();
    assert_eq!(secrets().await, []);
    let again = subscribe(key()).await;
    assert!(matches!(again, Idempotent::Executed(_)), "a repeated request is executed again");
    // A preview that was made before the erasure is not stored after it.
    store.delete_device(app, id("secret-browser"), NOW).await.unwrap();
    let late = store.keep_preview(app, "Hello secret".to_owned(), Some(preview)).await;
    assert!(super::is_unknown(&late));
}

/// The server makes the ids of devices that register by themselves, so earlier requests cannot name them.
#[apply(contract)]
async fn earlier_requests_are_not_searched_for_an_id_of_the_server(store: &Store) {
    let app = fixtures::app(store).await;
    many_requests(store, app, || fixtures::to_any(&["made"], &[])).await;
    let device = app_device(phone("token"), "made");
    store.register_app_device(app, device, NOW).await.unwrap();
    store.delete_device(app, id("made"), NOW).await.unwrap();
    assert_eq!(store.pending_erasures().await.unwrap(), PendingErasures::default());
    assert_eq!(requests_with(store, "made").await, i64::from(REQUESTS_PER_SLICE) + 1);
    // An id of the application is searched everywhere.
    fixtures::registered(store, app, android("made")).await;
    store.delete_device(app, id("made"), NOW).await.unwrap();
    remove_all(store, app).await;
    assert_eq!(requests_with(store, "made").await, 0);
}
