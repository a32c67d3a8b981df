//! Tests of SQLite only: group commit, the lock, the file.

use std::sync::Arc;

use notify_core::Platform;
use rusqlite::Connection;

use super::*;
use crate::store::contract::deliveries::in_pages_of_one;
use crate::store::contract::{Backend, fixtures};
use crate::store::notification::PAGES_READ_MAX;
use crate::store::sql::writer::WriteTx;
use crate::store::{
    AppNo, DeliveryFilter, Operation, SharedStore, Store, StoreError, with_deadline,
};

/// A database file in a separate temporary folder.
pub(in crate::store) struct SqliteBackend(tempfile::TempDir);

impl SqliteBackend {
    pub(in crate::store) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("notify.db")
    }

    fn open(&self) -> Arc<Store> {
        open(&self.file(), SqliteOptions::default()).unwrap()
    }
}

impl Backend for SqliteBackend {
    fn open(&self) -> SharedStore {
        SqliteBackend::open(self)
    }
}

#[tokio::test]
async fn a_file_that_was_closed_holds_everything_by_itself() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let shared: SharedStore = store.clone();
    let app = fixtures::app(&shared).await;
    assert_eq!(accept_many(&store, app, 3).await, (3, 0));
    store.close().await;
    let copy = folder.0.path().join("copy.db");
    std::fs::copy(folder.file(), &copy).unwrap();
    let copy = Connection::open(copy).unwrap();
    let count = "select count(*) from notifications";
    assert_eq!(copy.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap(), 3);
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
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    let mut sure = 0;
    for nth in 1..=12 {
        for fault in [Fault::RollBackAtWrite(nth), Fault::FailCommit(nth.div_ceil(6))] {
            store.fail(fault);
            let (accepted, unavailable) = accept_many(&store, app, 8).await;
            assert_eq!(accepted + unavailable, 8);
            sure += accepted;
            assert_eq!(stored(&store, app).await, sure, "{fault:?}");
        }
    }
    store.fail(Fault::FailCommit(1));
    assert_eq!(accept_many(&store, app, 1).await, (0, 1));
    store.fail(Fault::RollBackAtWrite(1));
    assert_eq!(accept_many(&store, app, 1).await, (0, 1));
    drop(store);
    assert_eq!(stored(&folder.open(), app).await, sure);
}

/// The test produces the error that SQLite returns for a full disk, and then makes space again.
#[tokio::test]
async fn a_full_file_is_unavailable_and_takes_writes_again_when_there_is_room() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    let limit = |pages: i64| {
        let store = Arc::clone(&store);
        async move {
            let set = move |tx: &mut WriteTx<'_>| {
                let pages = if pages == 0 {
                    tx.prepare_cached("pragma page_count")?.query_row([], |row| row.get(0))?
                } else {
                    pages
                };
                tx.prepare_cached(&format!("pragma max_page_count = {pages}"))?
                    .query_row([], |_| Ok(()))?;
                Ok(())
            };
            store.write(Operation::Check, set).await.unwrap();
        }
    };
    limit(0).await;
    let mut sure = 0;
    loop {
        let (accepted, unavailable) = accept_many(&store, app, 64).await;
        sure += accepted;
        if unavailable > 0 {
            break;
        }
    }
    assert_eq!(stored(&store, app).await, sure);
    limit(1_000_000).await;
    let (accepted, unavailable) = accept_many(&store, app, 8).await;
    assert_eq!((accepted, unavailable), (8, 0));
}

#[tokio::test]
async fn a_refused_write_leaves_the_others_of_its_commit() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    let new = fixtures::broadcast(&[Platform::Android]);
    let twice = [new.clone(), new];
    let [first, second] = twice.map(|new| store.accept_notification(app, new, None));
    let other = store.accept_notification(app, fixtures::broadcast(&[Platform::Ios]), None);
    let (first, second, other) = tokio::join!(first, second, other);
    assert!(first.is_ok() && other.is_ok());
    assert!(matches!(second, Err(StoreError::Refused(_))));
    assert_eq!(stored(&store, app).await, 2);
}

#[tokio::test]
async fn panic_of_one_operation_does_not_affect_others() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    let panicked = store.write::<(), _>(Operation::Check, |_| panic!("on purpose")).await;
    assert!(matches!(panicked, Err(StoreError::Backend(_))));
    let panicked = store.read::<(), _>(|_| panic!("on purpose")).await;
    assert!(matches!(panicked, Err(StoreError::Backend(_))));
    assert_eq!(accept_many(&store, app, 3).await, (3, 0));
}

/// A server that was killed may still be ending when the next one starts.
#[tokio::test]
async fn a_lock_that_is_given_up_in_a_moment_is_waited_for() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let file = folder.file();
    let next = tokio::task::spawn_blocking(move || open(&file, SqliteOptions::default()));
    store.close().await;
    next.await.unwrap().unwrap().close().await;
}

#[tokio::test]
async fn a_second_server_on_the_file_is_refused_and_a_subcommand_is_not() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let second = open(&folder.file(), SqliteOptions::default()).unwrap_err();
    assert!(matches!(&second, OpenError::InUse(path) if *path == folder.file()));
    assert!(second.to_string().contains("in use by another notify-server"), "{second}");
    let unlocked = SqliteOptions { lock: false, ..SqliteOptions::default() };
    let subcommand = open(&folder.file(), unlocked).unwrap();
    let app = fixtures::app(&subcommand).await;
    fixtures::devices(&store, app, 1).await;
    subcommand.close().await;
    store.close().await;
    folder.open().close().await;
}

#[tokio::test]
async fn a_file_of_a_newer_server_is_refused_and_left_alone() {
    let folder = SqliteBackend::new();
    folder.open().close().await;
    let connection = Connection::open(folder.file()).unwrap();
    connection
        .execute(
            "insert into refinery_schema_history (version, name, applied_on, checksum)
             select 9001, 'later', applied_on, checksum from refinery_schema_history limit 1",
            [],
        )
        .unwrap();
    drop(connection);
    let error = open(&folder.file(), SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 9_001, known: 1.., .. }), "{error}");
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let folder = SqliteBackend::new();
    std::fs::write(folder.file(), [b'x'; 8_192]).unwrap();
    let error = open(&folder.file(), SqliteOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Database { .. }), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let folder = SqliteBackend::new();
    let store = folder.open();
    fixtures::app(&store).await;
    backup(&folder.file(), &folder.0.path().join("copy.db")).unwrap();
    for entry in std::fs::read_dir(folder.0.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
}

#[tokio::test]
async fn backup_of_a_running_server_opens() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    fixtures::devices(&store, app, 3).await;
    let copy = folder.0.path().join("copy.db");
    backup(&folder.file(), &copy).unwrap();
    fixtures::devices(&store, app, 5).await;
    let opened = open(&copy, SqliteOptions::default()).unwrap();
    assert!(opened.device(app, fixtures::id("d002")).await.is_ok());
    assert!(matches!(opened.device(app, fixtures::id("d003")).await, Err(StoreError::NotFound)));
}

/// The files in the folder of a database whose names begin with `copy`.
fn copies(folder: &SqliteBackend) -> Vec<String> {
    let files = std::fs::read_dir(folder.0.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("copy")).collect()
}

#[tokio::test]
async fn a_failed_backup_leaves_no_file_and_the_next_one_succeeds() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    fixtures::app(&store).await;
    let at = |name: &str| folder.0.path().join(name);
    let copy = at("copy.db");
    // SQLite cannot begin to write the copy: the name of its journal belongs to a folder.
    std::fs::create_dir(at("copy.db.partial-journal")).unwrap();
    assert!(backup(&folder.file(), &copy).is_err());
    assert_eq!(copies(&folder), ["copy.db.partial-journal"]);
    std::fs::remove_dir(at("copy.db.partial-journal")).unwrap();
    // A process that was killed left a part.
    std::fs::write(at("copy.db.partial"), "a part").unwrap();
    backup(&folder.file(), &copy).unwrap();
    assert_eq!(copies(&folder), ["copy.db"]);
    let before = std::fs::read(&copy).unwrap();
    let again = backup(&folder.file(), &copy).unwrap_err();
    assert!(matches!(&again, OpenError::File { path, .. } if *path == copy), "{again:?}");
    assert_eq!(copies(&folder), ["copy.db"]);
    assert!(std::fs::read(&copy).unwrap() == before, "it is not overwritten");
    // Another backup to the same name is in progress.
    let other = std::fs::File::create(at("copy2.db.partial")).unwrap();
    other.lock().unwrap();
    assert!(backup(&folder.file(), &at("copy2.db")).is_err());
    assert!(at("copy2.db.partial").exists(), "it belongs to the other one");
}

/// The log is checkpointed while writes continue, and restarted instead of growing forever.
#[tokio::test]
async fn log_does_not_grow_forever() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    let filler = "x".repeat(1_000_000);
    let bytes_max = u64::from(wal_checkpointer::LOG_PAGES_MAX.unsigned_abs()) * 4_096;
    // A checkpoint that begins while another one runs does nothing.
    for _ in 0..2 * bytes_max / 1_000_000 + 40 {
        let mut new = fixtures::broadcast(&[Platform::Android]);
        new.request = format!(r#"{{"text":"{filler}"}}"#);
        store.accept_notification(app, new, None).await.unwrap();
    }
    let log = std::fs::metadata(folder.file().with_extension("db-wal")).unwrap().len();
    assert!(log < 2 * bytes_max, "the log has {log} bytes");
}

/// Notifications that never start must not hide later ones, since the engine sleeps until the next
/// due time.
#[tokio::test]
async fn an_application_that_is_half_erased_hides_no_due_time_of_others() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let (going, staying) =
        (fixtures::app(&store).await, fixtures::named_app(&store, "Staying").await.1);
    fixtures::accepted(&store, going, fixtures::broadcast(&[Platform::Android])).await;
    let later = fixtures::NOW.plus_ms(3_600_000);
    let schedule = notify_core::Schedule::At(later);
    let new = fixtures::at_schedule(schedule, fixtures::broadcast(&[Platform::Android]));
    fixtures::accepted(&store, staying, new).await;
    store
        .write(Operation::Check, move |tx| {
            tx.prepare_cached("update apps set status = 'erasing' where no = ?1")?
                .execute([going.0])?;
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(store.agenda(notify_core::Timestamp(0)).await.unwrap().next_due, Some(later));
    store.close().await;
}

/// One request reads a bounded amount of data, even if its limit is large and few rows match.
#[tokio::test]
async fn a_listing_of_deliveries_reads_so_many_pages_and_goes_on_from_there() {
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    let id = in_pages_of_one(&store, app, 30).await;
    let list = |cursor| {
        let page = crate::store::PageRequest { limit: 1_000, cursor };
        store.list_deliveries(app, id.clone(), DeliveryFilter::default(), page)
    };
    let first = list(None).await.unwrap();
    assert_eq!(first.rows.len(), PAGES_READ_MAX);
    let second = list(first.next).await.unwrap();
    assert_eq!(first.rows.len() + second.rows.len(), 31);
    assert_eq!(second.next, None);
    store.close().await;
}

/// A request ends if storage hangs. Its operation is not run later, unless it was already running.
#[tokio::test]
async fn write_after_its_deadline_is_not_run() {
    /// Of the first request: a busy machine begins its write within this time.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(4);
    /// Of the second request, whose write does not begin.
    const SHORT: std::time::Duration = std::time::Duration::from_millis(100);
    let folder = SqliteBackend::new();
    let store = folder.open();
    let app = fixtures::app(&store).await;
    let accept = |store: Arc<Store>, platform| {
        let new = fixtures::broadcast(&[platform]);
        async move { store.accept_notification(app, new, None).await }
    };
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let (begins, started) = tokio::sync::oneshot::channel();
    let hanging = tokio::spawn({
        let store = Arc::clone(&store);
        with_deadline(PATIENCE, async move {
            let writing = store.write(Operation::Check, move |tx| {
                let _ = begins.send(());
                let _ = held.recv();
                tx.prepare_cached("update storage_checks set count = count + 7")?.execute([])?;
                Ok(())
            });
            writing.await
        })
    });
    started.await.unwrap();
    let behind = with_deadline(SHORT, accept(Arc::clone(&store), Platform::Android)).await;
    assert!(matches!(behind, Err(StoreError::Unavailable(_))), "{behind:?}");
    let under_way = hanging.await.unwrap();
    assert!(matches!(under_way, Err(StoreError::Unavailable(_))), "{under_way:?}");
    let patient = tokio::spawn(accept(Arc::clone(&store), Platform::Ios));
    drop(let_go);
    patient.await.unwrap().unwrap();
    let counted = "select count from storage_checks";
    let read = store
        .read(move |tx| Ok(tx.prepare_cached(counted)?.query_row([], |row| row.get::<i64>(0))?));
    assert_eq!(read.await.unwrap(), 7_i64, "it was under way");
    let listed = store.list_notifications(app, None, fixtures::page(9)).await.unwrap();
    assert_eq!(listed.rows.len(), 1, "the notification whose caller gave up was not accepted");
    store.close().await;
}

#[tokio::test]
async fn read_after_its_deadline_is_not_run() {
    let folder = SqliteBackend::new();
    let options = SqliteOptions { readers: 1, ..SqliteOptions::default() };
    let store = open(&folder.file(), options).unwrap();
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    let (begins, started) = tokio::sync::oneshot::channel();
    let hanging = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let reading = store.read(move |_| {
                let _ = begins.send(());
                let _ = held.recv();
                Ok(())
            });
            reading.await
        }
    });
    started.await.unwrap();
    let looked = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let looks = Arc::clone(&looked);
    let read = store.read(move |_| {
        looks.store(true, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    });
    let answer = with_deadline(std::time::Duration::from_millis(1), read).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    drop(let_go);
    hanging.await.unwrap().unwrap();
    store.read(|_| Ok(())).await.unwrap();
    assert!(!looked.load(std::sync::atomic::Ordering::SeqCst));
    store.close().await;
}

/// Registers users with devices and erases them. Returns texts that nothing may contain afterwards.
async fn erased_users(store: &SharedStore) -> Vec<String> {
    let app = fixtures::app(store).await;
    let texts: Vec<String> = (0..120).map(|number| format!("secret-{number:03}")).collect();
    for text in &texts {
        let phone = notify_core::Registration {
            user_id: Some(notify_core::UserId::new(format!("user-{text}")).unwrap()),
            ..fixtures::android(text)
        };
        fixtures::registered(store, app, phone).await;
    }
    for text in &texts {
        let user = notify_core::UserId::new(format!("user-{text}")).unwrap();
        store.delete_user(app, user, false, fixtures::NOW).await.unwrap();
    }
    texts
}

/// Checks that a file contains none of the texts.
fn ensure_absent(file: &Path, texts: &[String]) {
    let bytes = std::fs::read(file).unwrap();
    let is_in = |text: &&String| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let left: Vec<_> = texts.iter().filter(is_in).collect();
    assert!(left.is_empty(), "{}: {left:?}", file.display());
}

#[tokio::test]
async fn erased_users_are_in_no_page_of_the_file_or_a_backup() {
    let folder = SqliteBackend::new();
    let store = Backend::open(&folder);
    let texts = erased_users(&store).await;
    let copy = folder.0.path().join("copy.db");
    backup(&folder.file(), &copy).unwrap();
    ensure_absent(&copy, &texts);
    // Closing the last connection writes the log to the file and deletes it.
    store.close().await;
    drop(store);
    ensure_absent(&folder.file(), &texts);
    assert!(!log_path(&folder.file()).exists());
}

/// Earlier versions left deleted content in free pages.
#[tokio::test]
async fn a_backup_has_no_deleted_content_of_earlier_versions() {
    let folder = SqliteBackend::new();
    let store = Backend::open(&folder);
    fixtures::app(&store).await;
    execute_raw(
        &folder.file(),
        "pragma secure_delete = off; create table earlier (text text);
         with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000)
         insert into earlier select 'secret-' || printf('%03d', i) from n;
         drop table earlier",
    );
    let copy = folder.0.path().join("copy.db");
    backup(&folder.file(), &copy).unwrap();
    ensure_absent(&copy, &["secret-100".to_owned()]);
    store.close().await;
    drop(store);
    let file = std::fs::read(folder.file()).unwrap();
    assert!(file.windows(10).any(|window| window == b"secret-100"), "the test shows something");
}
