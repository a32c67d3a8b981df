//! Tests of PostgreSQL only.

mod concurrency;
mod migrations;
pub(super) mod plans;
mod pooler;
mod roles;
mod schemas;
mod sets;
mod tables;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use notify_core::{NotificationId, Platform};
use rustix::process::{Pid, Signal, kill_process};

use super::connect_config::ConnectConfig;
use super::testing::{TestCluster, TestDatabase};
use super::{DatabaseUrl, OpenError, PostgresOptions, SetMode};
use crate::store::contract::{Backend, fixtures};
use crate::store::sql::Fault;
use crate::store::{
    AppNo, DeliveryChange, NewNotification, Operation, SharedStore, Store, StoreError, postgres,
};

/// A separate database.
pub(in crate::store) struct PostgresBackend(TestDatabase, SetMode);

impl PostgresBackend {
    /// An empty database.
    pub(in crate::store) fn new() -> Self {
        Self(TestCluster::shared().database(), SetMode::On)
    }

    /// A database with the tables of this version.
    pub(in crate::store) fn migrated(sets: SetMode) -> Self {
        Self(TestCluster::shared().migrated_database(), sets)
    }

    fn url(&self) -> DatabaseUrl {
        self.0.url().parse().unwrap()
    }

    fn try_open(&self, options: PostgresOptions) -> Result<Arc<Store>, OpenError> {
        postgres::open(&self.url(), options)
    }

    fn open(&self) -> Arc<Store> {
        self.try_open(PostgresOptions { sets: self.1, ..PostgresOptions::default() }).unwrap()
    }
}

impl Backend for PostgresBackend {
    fn open(&self) -> SharedStore {
        PostgresBackend::open(self)
    }
}

/// Starts many accepts at once, so that they share commits. Returns how many succeeded and how many
/// failed.
async fn accept_many(store: &Arc<Store>, app: AppNo, count: usize) -> (usize, usize) {
    let accepts: Vec<_> = (0..count)
        .map(|_| {
            let store = Arc::clone(store);
            let new = fixtures::broadcast(&[Platform::Android]);
            tokio::spawn(async move { store.accept_notification(app, new, None).await })
        })
        .collect();
    let (mut accepted, mut unavailable) = (0, 0);
    for accept in accepts {
        match accept.await.unwrap() {
            Ok(_) => accepted += 1,
            Err(StoreError::Unavailable(_)) => unavailable += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    (accepted, unavailable)
}

async fn stored(store: &Store, app: AppNo) -> usize {
    store.list_notifications(app, None, fixtures::page(1_000)).await.unwrap().rows.len()
}

/// No caller may get a success for a write that was lost with the transaction.
#[tokio::test]
async fn acknowledged_writes_are_stored_after_any_fault() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    let mut sure = 0;
    for nth in 1..=6 {
        for fault in [Fault::RollBackAtWrite(nth), Fault::FailCommit(nth.div_ceil(6))] {
            store.fail(fault);
            let (accepted, unavailable) = accept_many(&store, app, 8).await;
            assert_eq!(accepted + unavailable, 8);
            sure += accepted;
            assert_eq!(stored(&store, app).await, sure, "{fault:?}");
        }
    }
    store.close().await;
    let again = own.open();
    assert_eq!(stored(&again, app).await, sure);
    again.close().await;
}

#[tokio::test]
async fn a_refused_write_leaves_the_others_of_its_commit() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    let new = fixtures::broadcast(&[Platform::Android]);
    let twice = [new.clone(), new];
    let [first, second] = twice.map(|new| store.accept_notification(app, new, None));
    let other = store.accept_notification(app, fixtures::broadcast(&[Platform::Ios]), None);
    let (first, second, other) = tokio::join!(first, second, other);
    assert!(first.is_ok() && other.is_ok());
    assert!(matches!(second, Err(StoreError::Refused(_))));
    assert_eq!(stored(&store, app).await, 2);
    store.close().await;
}

/// PostgreSQL reports no error for the commit of a failed transaction.
#[tokio::test]
async fn write_after_a_failed_statement_is_not_reported_as_stored() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    let passed_over = store
        .write(Operation::Check, |tx| {
            assert!(tx.execute_batch("select no from nowhere").is_err());
            Ok(())
        })
        .await;
    assert!(matches!(passed_over, Err(StoreError::Unavailable(_))), "{passed_over:?}");
    assert_eq!(accept_many(&store, app, 3).await, (3, 0));
    store.close().await;
}

#[tokio::test]
async fn panic_of_one_operation_does_not_affect_others() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    let panicked = store.write::<(), _>(Operation::Check, |_| panic!("on purpose")).await;
    assert!(matches!(panicked, Err(StoreError::Backend(_))));
    let panicked = store.read::<(), _>(|_| panic!("on purpose")).await;
    assert!(matches!(panicked, Err(StoreError::Backend(_))));
    assert_eq!(accept_many(&store, app, 3).await, (3, 0));
    store.close().await;
}

/// The next operation does not notice that the connections were closed.
#[tokio::test]
async fn broken_connections_are_replaced() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    // Each of the readers has a connection.
    for _ in 0..8 {
        store.time().await.unwrap();
    }
    TestCluster::shared().execute(&format!(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{}'",
        own.0.name()
    ));
    for _ in 0..8 {
        store.time().await.unwrap();
    }
    assert_eq!(stored(&store, app).await, 0);
    assert_eq!(accept_many(&store, app, 3).await, (3, 0));
    assert_eq!(stored(&store, app).await, 3);
    store.close().await;
}

/// A silent loss takes seconds to notice. A server with many lost connections would otherwise notice one
/// after another.
#[test]
fn after_a_silent_loss_the_other_connections_are_checked() {
    let own = PostgresBackend::new();
    let config = ConnectConfig::of(&own.url()).unwrap();
    let [lost, silent, working] = [(); 3].map(|()| config.connect().unwrap());
    let process = silent.read_number("select pg_backend_pid()::bigint").unwrap().unwrap();
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    assert!(silent.is_usable(), "nothing was lost yet");
    // The lost connection gets no reply, since it waits for the lock of another one.
    working.execute_batch("select pg_advisory_lock(1)").unwrap();
    lost.reply_wait.set(Duration::from_millis(10));
    lost.execute_batch("select pg_advisory_lock(1)").unwrap_err();
    assert!(working.is_usable());
    assert!(!silent.is_usable());
    kill_process(process, Signal::CONT).unwrap();
    assert!(working.is_usable(), "the check of one connection does not end another one");
}

#[tokio::test]
async fn a_database_that_is_gone_is_unavailable_and_served_again_when_it_is_back() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    let cluster = TestCluster::shared();
    let name = own.0.name();
    cluster.execute(&format!("alter database {name} with allow_connections false"));
    cluster.execute(&format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    ));
    let read = store.list_notifications(app, None, fixtures::page(10)).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
    assert_eq!(accept_many(&store, app, 2).await, (0, 2));
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))));
    cluster.execute(&format!("alter database {name} with allow_connections true"));
    assert_eq!(accept_many(&store, app, 2).await, (2, 0));
    assert_eq!(stored(&store, app).await, 2);
    store.close().await;
}

#[tokio::test]
async fn a_database_that_may_only_be_read_is_unavailable() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    let read_only = store
        .write(Operation::Check, |tx| {
            tx.execute_batch("set transaction read only")?;
            tx.prepare_cached("update storage_checks set count = count + 1")?.execute([])?;
            Ok(())
        })
        .await;
    assert!(matches!(read_only, Err(StoreError::Unavailable(_))), "{read_only:?}");
    assert_eq!(accept_many(&store, app, 1).await, (1, 0));
    store.close().await;
}

#[tokio::test]
async fn a_database_of_a_newer_server_is_refused_and_left_alone() {
    let own = PostgresBackend::new();
    own.open().close().await;
    own.0.execute(
        "insert into refinery_schema_history (version, name, applied_on, checksum)
         select 9001, 'later', applied_on, checksum from refinery_schema_history limit 1",
    );
    let error = own.try_open(PostgresOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 9_001, known: 1.., .. }), "{error}");
}

#[tokio::test]
async fn servers_that_start_at_once_bring_the_tables_up_to_date_one_after_another() {
    let own = PostgresBackend::new();
    let options = PostgresOptions { serves: false, readers: 1, ..PostgresOptions::default() };
    let openings = [own.url(), own.url(), own.url()]
        .map(|url| tokio::task::spawn_blocking(move || postgres::open(&url, options)));
    for opening in openings {
        opening.await.unwrap().unwrap().close().await;
    }
}

/// Commits are durable even if the settings of the database say otherwise.
#[tokio::test]
async fn commits_wait_for_the_disk_though_the_database_says_otherwise() {
    let own = PostgresBackend::new();
    let name = own.0.name();
    TestCluster::shared().execute(&format!("alter database {name} set synchronous_commit = off"));
    let store = own.open();
    let report = store.storage().await.unwrap();
    assert_eq!((report.backend, report.synchronous.as_str()), ("postgres", "full"));
    store.close().await;
}

#[test]
fn a_session_compresses_the_log_if_its_role_may_set_that_and_there_is_no_explicit_setting() {
    let (own, cluster) = (PostgresBackend::new(), TestCluster::shared());
    let name = own.0.name();
    let role = format!("{name}_role");
    let compression = |role: Option<&str>| {
        let mut url = url::Url::parse(&own.0.url()).unwrap();
        if let Some(role) = role {
            url.query_pairs_mut().append_pair("options", &format!("-crole={role}"));
        }
        let session = ConnectConfig::of(&url.as_str().parse().unwrap()).unwrap().connect().unwrap();
        let query = session.statement_index("select current_setting('wal_compression')");
        session.query(query, &[]).unwrap()[0].get::<_, String>(0)
    };
    cluster.execute(&format!("create role {role}"));
    assert_eq!(compression(None), "lz4");
    assert_eq!(compression(Some(&role)), "off");
    cluster.execute(&format!("grant set on parameter wal_compression to {role}"));
    assert_eq!(compression(Some(&role)), "lz4");
    for setting in ["pglz", "off"] {
        cluster.execute(&format!("alter database {name} set wal_compression = {setting}"));
        assert_eq!([compression(None), compression(Some(&role))], [setting; 2]);
    }
    cluster.execute(&format!("drop owned by {role}; drop role {role}"));
}

#[tokio::test]
async fn connection_errors_do_not_contain_the_password() {
    let url: DatabaseUrl = "postgres://u:geheim@127.0.0.1:1/n".parse().unwrap();
    let error = postgres::open(&url, PostgresOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Database { .. }), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(error.to_string().contains("127.0.0.1:1/n") && !text.contains("geheim"), "{text}");
}

/// Records changes.
#[derive(Default)]
struct ChangeRecorder(std::sync::Mutex<Vec<crate::store::Change>>, tokio::sync::Notify);

impl crate::store::ChangeListener for ChangeRecorder {
    fn on_change(&self, change: crate::store::Change) {
        self.0.lock().unwrap().push(change);
        self.1.notify_one();
    }
}

impl ChangeRecorder {
    /// Returns once a wanted change was recorded.
    async fn wait_for(&self, wanted: impl Fn(&crate::store::Change) -> bool) {
        let recorded = async {
            while !self.0.lock().unwrap().iter().any(&wanted) {
                self.1.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), recorded).await.expect("it is recorded");
    }
}

#[tokio::test]
async fn servers_receive_the_changes_of_other_servers() {
    use crate::store::Change;
    let own = PostgresBackend::new();
    let (first, second) = (own.open(), own.open());
    let changes = Arc::new(ChangeRecorder::default());
    second.subscribe(changes.clone());
    let (id, app) = fixtures::named_app(&first, "Shop").await;
    fixtures::accepted(&first, app, fixtures::broadcast(&[Platform::Android])).await;
    changes.wait_for(|change| *change == Change::Delivery(DeliveryChange::NotificationDue)).await;
    // A broken connection is replaced, and followed by a resync.
    let listening = "select pg_terminate_backend(pid) from pg_stat_activity where query = ";
    TestCluster::shared().execute(&format!(
        "{listening}'' and datname = '{0}' or query = 'listen notify_changes' and datname = '{0}'",
        own.0.name()
    ));
    changes.wait_for(|change| *change == Change::Resync).await;
    first.delete_app(id).await.unwrap();
    changes.wait_for(|change| *change == Change::App(app)).await;
    second.close().await;
    first.close().await;
}

/// Its changes are lost with its reply; the caller does not know the result either.
#[tokio::test]
async fn commit_with_a_lost_reply_causes_a_resync() {
    use crate::store::Change;
    let own = PostgresBackend::new();
    let (first, second) = (own.open(), own.open());
    let (id, _) = fixtures::named_app(&first, "Shop").await;
    let (here, there) = (Arc::new(ChangeRecorder::default()), Arc::new(ChangeRecorder::default()));
    first.subscribe(here.clone());
    second.subscribe(there.clone());
    first.fail(Fault::LoseCommitReply(1));
    let lost = first.delete_app(id).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    assert_eq!(*here.0.lock().unwrap(), [], "the result is not known");
    fixtures::named_app(&first, "Another").await;
    here.wait_for(|change| *change == Change::Resync).await;
    there.wait_for(|change| *change == Change::Resync).await;
    second.close().await;
    first.close().await;
}

#[tokio::test]
async fn clock_of_the_database_is_read() {
    let own = PostgresBackend::new();
    let store = own.open();
    let now = store.time().await.unwrap().expect("servers share it");
    let again = store.time().await.unwrap().expect("servers share it");
    assert!(again >= now && again.ms_since(now) < 60_000);
    store.close().await;
}

/// An overloaded machine may accept connections and never reply.
#[tokio::test]
async fn a_host_that_says_nothing_gives_way_to_the_next() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = PostgresBackend::new();
    let (whole, place) = (own.0.url(), own.url().place());
    let (answers, _) = place.split_once('/').unwrap();
    let url = whole.replacen(answers, &format!("{},{answers}", silent.local_addr().unwrap()), 1);
    assert_ne!(url, whole, "both are named");
    let store = postgres::open(&url.parse().unwrap(), PostgresOptions::default()).unwrap();
    fixtures::app(&store).await;
    store.close().await;
}
