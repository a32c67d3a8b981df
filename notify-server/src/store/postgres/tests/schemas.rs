//! Tests of installations in schemas.

use super::super::connect_config::ConnectConfig;
use super::super::session::INSTALLATION_LOCK;
use super::*;
use crate::store::Change;

/// A server of one schema of a database.
fn open_schema(database: &TestDatabase, schema: &str) -> Arc<Store> {
    let url = database.url_of_schema(schema).parse().unwrap();
    postgres::open(&url, PostgresOptions::default()).unwrap()
}

#[tokio::test]
async fn installations_in_two_schemas_share_nothing() {
    let database = TestCluster::shared().database();
    database.execute("create schema one; create schema two");
    let (one, two) = (open_schema(&database, "one"), open_schema(&database, "two"));
    let other = open_schema(&database, "two");
    let changes = Arc::new(ChangeRecorder::default());
    other.subscribe(changes.clone());
    let (mine, app) = (fixtures::named_app(&one, "Mine").await, fixtures::app(&two).await);
    assert_eq!(stored(&two, app).await, 0);

    // The changes of the first installation are sent before those of the second one.
    one.delete_app(mine.0).await.unwrap();
    fixtures::accepted(&two, app, fixtures::broadcast(&[Platform::Android])).await;
    changes.wait_for(|change| *change == Change::Delivery(DeliveryChange::NotificationDue)).await;
    assert!(!changes.0.lock().unwrap().contains(&Change::App(mine.1)));

    // One installation writes and starts while the other one cannot.
    let held = database.url_of_schema("one").parse().unwrap();
    let held = ConnectConfig::of(&held).unwrap();
    let holding = std::thread::spawn(move || {
        let session = held.connect().unwrap();
        for lock in [INSTALLATION_LOCK, super::super::schema::MIGRATION_LOCK] {
            session.execute_batch(&format!("select pg_advisory_lock({lock})")).unwrap();
        }
        session
    });
    let session = holding.join().unwrap();
    assert_eq!(accept_many(&two, app, 3).await, (3, 0));
    open_schema(&database, "two").close().await;
    let blocked = fixtures::broadcast(&[Platform::Android]);
    let blocked = one.accept_notification(AppNo(1), blocked, None).await;
    assert!(matches!(blocked, Err(StoreError::Unavailable(_))), "{blocked:?}");
    drop(session);
    for store in [one, two, other] {
        store.close().await;
    }
    let elsewhere = "select count(*) from pg_tables where schemaname = 'public'";
    assert_eq!(database.numbers(elsewhere), [0]);
}

/// Servers of earlier versions use these numbers.
#[tokio::test]
async fn locks_and_channel_of_the_schema_public_are_those_of_before() {
    let database = TestCluster::shared().database();
    database.execute("create schema other");
    let read = |url: String| {
        let url: DatabaseUrl = url.parse().unwrap();
        let work = move || {
            let session = ConnectConfig::of(&url).unwrap().connect().unwrap();
            let names = ["installation_lock", "migration_lock", "channel"];
            names.map(|name| {
                let sql = format!("select current_setting('notify.{name}')");
                let rows = session.query(session.statement_index(&sql), &[]).unwrap();
                crate::store::sql::Row::Postgres(&rows[0]).get::<String>(0).unwrap()
            })
        };
        std::thread::spawn(work).join().unwrap()
    };
    let of_public = read(database.url());
    let numbers = [0x6e6f_7469_6679_0001_i64, 0x6e6f_7469_6679_0002].map(|no| no.to_string());
    assert_eq!(of_public[..2], numbers);
    assert_eq!(of_public[2], "notify_changes");
    assert_eq!(read(database.url_of_schema("public")), of_public);
    let of_other = read(database.url_of_schema("other"));
    assert!(of_public.iter().zip(&of_other).all(|(one, other)| one != other), "{of_other:?}");
}

#[tokio::test]
async fn a_schema_that_is_missing_or_in_doubt_is_refused() {
    let database = TestCluster::shared().database();
    let url = |schema: &str| -> DatabaseUrl { database.url_of_schema(schema).parse().unwrap() };
    let open = |url: &DatabaseUrl| postgres::open(url, PostgresOptions::default());
    let refused = open(&url("nowhere")).unwrap_err();
    assert!(matches!(refused, OpenError::NoSchema { .. }), "{refused:?}");
    assert!(refused.to_string().contains("(schema nowhere) has no schema"), "{refused}");

    open(&database.url().parse().unwrap()).unwrap().close().await;
    database.execute(&format!(
        "create schema empty; create schema \"Two words\";
         alter database {} set search_path = empty, public",
        database.name()
    ));
    let refused = open(&database.url().parse().unwrap()).unwrap_err();
    let OpenError::OtherSchema { first, other, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!([first.as_str(), other], ["empty", "public"]);
    // The search path of the url is stronger than that of the database.
    open(&url("public")).unwrap().close().await;
    open(&url("empty")).unwrap().close().await;
    open(&database.url().parse().unwrap()).unwrap().close().await;
    let set = format!("alter database {} set search_path = \"Two words\"", database.name());
    TestCluster::shared().execute(&set);
    open(&database.url().parse().unwrap()).unwrap().close().await;
    let schemas = "select schemaname::text from pg_tables where tablename = 'apps' order by 1";
    assert_eq!(database.texts(schemas), ["Two words", "empty", "public"]);
}
