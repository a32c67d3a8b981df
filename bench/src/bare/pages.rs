//! The database work of a fan-out alone: reading all devices page by page, and the commits of each page,
//! each flushed. It runs in a separate process, so that its CPU time can be measured.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use rusqlite::{Connection, OpenFlags, params};
use serde::{Deserialize, Serialize};

use crate::proc::Cost;
use crate::process::{self, run_measured, start_worker};

/// The number of devices of a page. The server's pages are larger today; the baseline stays as it is, so that
/// figures of different times can be compared.
const PAGE_ROWS: u32 = 1_000;
/// The number of outcomes that one commit stores; the server's commits store more today.
const CHECKPOINT_ROWS: u32 = 200;
/// The bytes of a stored outcome when the delivery succeeded and the device has the next key.
const OUTCOME_BYTES: usize = 1;

/// Reads a page of devices, with the columns of the server in the server's order.
const SELECT_PAGE: &str = "select key, address, ios_env, push_disabled = 0 and dead_at is null, \
    moved_from, moved_at, p256dh, auth, last_inbound_at, utc_offset_minutes, zone_changed_at \
    from devices where key > ?1 order by key limit ?2";
const TABLES: &str = "create table dispatches (no integer primary key, cursor integer not null,
        open_pages integer not null) strict;
    create table pages (no integer primary key, dispatch_no integer not null,
        from_key integer not null, to_key integer not null, epoch integer not null,
        checkpoint_no integer not null, lease_until integer not null, finished integer not null,
        targeted integer not null, sent integer not null) strict;
    create index pages_by_dispatch on pages (dispatch_no, to_key);
    create index pages_open on pages (no) where finished = 0;
    create table outcomes (page_no integer not null, chunk_no integer not null,
        at integer not null, entries blob not null,
        primary key (page_no, chunk_no)) strict, without rowid;
    insert into dispatches values (1, 0, 0)";
const MOVE_CURSOR: &str = "update dispatches set cursor = ?1, open_pages = open_pages + 1";
const OPEN_PAGE: &str = "insert into pages values (?1, 1, ?2, ?3, 1, 0, ?4, 0, ?5, 0)";
const CHECKPOINT: &str = "update pages set checkpoint_no = checkpoint_no + 1, sent = sent + ?2,
    lease_until = ?3, finished = ?4 where no = ?1 and epoch = 1";
const INSERT_OUTCOMES: &str = "insert into outcomes values (?1, ?2, ?3, ?4)";
const CLOSE_PAGE: &str = "update dispatches set open_pages = open_pages - 1";

/// The parameters of the child process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parameters {
    /// A seeded database to read, or a new one to write.
    pub(crate) file: PathBuf,
    pub(crate) devices: u64,
    pub(crate) part: Part,
}

/// The part of the work to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Reading all devices.
    Scan,
    /// Committing all pages.
    Commit,
}

/// Does one part of the work in a child process and returns the cost.
pub(crate) fn run(parameters: &Parameters) -> anyhow::Result<Cost> {
    start_worker("bare-pages", parameters)?.measure(parameters.devices)
}

/// Runs in the child process.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let Parameters { file, devices, part } = process::read_parameters()?;
    match part {
        Part::Scan => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&file, flags)?;
            run_measured(async { scan(&connection, devices) }).await
        }
        Part::Commit => {
            let mut connection = create_tables(&file)?;
            run_measured(async { commit(&mut connection, devices) }).await
        }
    }
}

/// The values of a device that are read.
struct Row {
    key: i64,
    _address: Option<Box<str>>,
    _rest: [Option<i64>; 7],
    _web_keys: Option<(Box<str>, Box<str>)>,
}

fn scan(connection: &Connection, devices: u64) -> anyhow::Result<()> {
    let (mut after, mut read) = (0, 0);
    let mut select = connection.prepare(SELECT_PAGE)?;
    loop {
        let rows = select.query_map(params![after, PAGE_ROWS], |row| {
            let mut rest = [None; 7];
            for (value, column) in rest.iter_mut().zip([2, 3, 4, 5, 8, 9, 10]) {
                *value = row.get(column)?;
            }
            let text = |column| -> rusqlite::Result<Option<Box<str>>> {
                Ok(row.get::<_, Option<String>>(column)?.map(String::into_boxed_str))
            };
            let web_keys = text(6)?.zip(text(7)?);
            Ok(Row { key: row.get(0)?, _address: text(1)?, _rest: rest, _web_keys: web_keys })
        })?;
        let rows = std::hint::black_box(rows.collect::<Result<Vec<_>, _>>()?);
        read += rows.len() as u64;
        let Some(last) = rows.last() else { break };
        after = last.key;
    }
    ensure!(read == devices, "{read} devices read");
    Ok(())
}

fn create_tables(file: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch(TABLES)?;
    Ok(connection)
}

fn commit(connection: &mut Connection, devices: u64) -> anyhow::Result<()> {
    let (devices, at) = (i64::try_from(devices)?, 1_900_000_000_000_i64);
    for from in (0..devices).step_by(usize::try_from(PAGE_ROWS)?) {
        let to = devices.min(from + i64::from(PAGE_ROWS));
        // Page numbers may have gaps, so the last key of the page can be its number.
        let page = to;
        let opening = connection.transaction()?;
        opening.prepare_cached(MOVE_CURSOR)?.execute([to])?;
        opening.prepare_cached(OPEN_PAGE)?.execute(params![page, from, to, at, to - from])?;
        opening.commit()?;
        for chunk in (from..to).step_by(usize::try_from(CHECKPOINT_ROWS)?) {
            let sent = (to - chunk).min(i64::from(CHECKPOINT_ROWS));
            let is_finished = chunk + sent == to;
            let checkpoint = connection.transaction()?;
            checkpoint.prepare_cached(CHECKPOINT)?.execute(params![page, sent, at, is_finished])?;
            let entries = vec![8_u8; usize::try_from(sent)? * OUTCOME_BYTES];
            checkpoint
                .prepare_cached(INSERT_OUTCOMES)?
                .execute(params![page, chunk, at, entries])?;
            if is_finished {
                checkpoint.prepare_cached(CLOSE_PAGE)?.execute([])?;
            }
            checkpoint.commit()?;
        }
    }
    Ok(())
}
