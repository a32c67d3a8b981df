//! The audit trail: the changes that operators made.
//!
//! The pipeline describes a request of an operator before it calls the handler. The first write of the
//! request inserts the entry in its own transaction. So no handler can forget the entry, and a change is
//! never stored without it.

use std::cell::RefCell;

use notify_core::{AppId, AuditEntry, AuditSource, KeyId, Timestamp};

use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::row::{unexpected_value, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, Row, Type, params};
use crate::store::{Page, PageRequest, Store, StoreError};

tokio::task_local! {
    /// The entry that the next write of this request inserts.
    static PENDING: RefCell<Option<AuditEntry>>;
}

/// Runs a request, which may call [`record_next_write`].
pub(crate) async fn with_audit<W: Future>(request: W) -> W::Output {
    PENDING.scope(RefCell::new(None), request).await
}

/// Makes the next write of this request insert the entry.
pub(crate) fn record_next_write(entry: AuditEntry) {
    // Outside of a request there is no operator and no audit trail.
    let _ = PENDING.try_with(|pending| *pending.borrow_mut() = Some(entry));
}

/// Sets the object of the entry, for handlers that choose the id of what they create.
pub(crate) fn set_object(object: &impl ToString) {
    change_pending(|entry| entry.object = Some(object.to_string()));
}

/// Sets the application of the entry, for the handler that creates the application.
pub(crate) fn set_app(app: AppId) {
    change_pending(|entry| entry.app_id = Some(app));
}

fn change_pending(change: impl FnOnce(&mut AuditEntry)) {
    let _ = PENDING.try_with(|pending| {
        if let Some(entry) = &mut *pending.borrow_mut() {
            change(entry);
        }
    });
}

/// Discards the entry: a write has inserted it, or the change was refused.
pub(crate) fn discard_pending() {
    drop(take_pending());
}

/// Takes the entry, for work in another task: the entry does not follow it there.
pub(crate) fn take_pending() -> Option<AuditEntry> {
    PENDING.try_with(|pending| pending.borrow_mut().take()).ok().flatten()
}

/// The entry that the current write has to insert.
pub(super) fn pending() -> Option<AuditEntry> {
    PENDING.try_with(|pending| pending.borrow().clone()).ok().flatten()
}

const AUDIT: CursorCodec = CursorCodec { list: "audit", owner: 0 };

impl Store {
    /// Lists the audit trail, newest first; only the changes of `app` if it is given.
    pub async fn list_audit(
        &self,
        app: Option<AppId>,
        page: PageRequest,
    ) -> Result<Page<AuditEntry>, StoreError> {
        self.read_long(move |connection| {
            let before = AUDIT.decode_number(&page)?.unwrap_or(i64::MAX);
            let of_app = if app.is_some() { "and app_id = ?3" } else { "" };
            let sql = format!(
                "select no, at, action, app_id, object, key_id, key_name, address, source, request_id
                 from audit where no < ?1 {of_app} order by no desc limit ?2"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let read = |row: &Row<'_>| Ok((row.get(0)?, entry_of(row)?));
            let rows = match app {
                Some(app) => statement
                    .query_map(params![before, rows_wanted(&page), app.0.as_bytes()], read)?
                    .collect::<Result<Vec<_>, _>>()?,
                None => statement
                    .query_map([before, rows_wanted(&page)], read)?
                    .collect::<Result<Vec<_>, _>>()?,
            };
            Ok(AUDIT.page(rows, &page))
        })
        .await
    }
}

/// Inserts an entry in the transaction of its change.
pub(super) fn insert(tx: &WriteTx<'_>, entry: &AuditEntry) -> Result<(), StoreError> {
    tx.prepare_insert(
        "insert into audit (no, at, action, app_id, object, key_id, key_name, address, source,
         request_id)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .insert_unprefixed(params![
        entry.at.as_ms(),
        entry.action,
        entry.app_id.as_ref().map(|app| app.0.as_bytes()),
        entry.object,
        entry.key_id.0.as_bytes(),
        entry.key_name,
        entry.address,
        entry.source.as_str(),
        entry.request_id
    ])?;
    Ok(())
}

/// Deletes entries that are older than `before`, at most `rows_max`. Returns their number.
pub(super) fn delete_expired(
    tx: &Connection,
    before: Timestamp,
    rows_max: u64,
) -> sql::Result<u64> {
    // Entries are in the order of their time, so the scan ends at the first entry that stays.
    let deleted = tx
        .prepare_cached(
            "delete from audit where at < ?1 and no <= (select max(no) from
             (select no from audit order by no limit ?2) first)",
        )?
        .execute(params![before.as_ms(), i64::try_from(rows_max).unwrap_or(i64::MAX)])?;
    Ok(deleted as u64)
}

fn entry_of(row: &Row<'_>) -> sql::Result<AuditEntry> {
    let source: String = row.get(8)?;
    let app: Option<Vec<u8>> = row.get(3)?;
    let app = app.map(|bytes| uuid::Uuid::from_slice(&bytes)).transpose();
    Ok(AuditEntry {
        at: Timestamp(row.get(1)?),
        action: row.get(2)?,
        app_id: app.map_err(|_| unexpected_value(3, Type::Blob))?.map(AppId),
        object: row.get(4)?,
        key_id: KeyId(uuid_at(row, 5)?),
        key_name: row.get(6)?,
        address: row.get(7)?,
        source: source.parse::<AuditSource>().map_err(|_| unexpected_value(8, Type::Text))?,
        request_id: row.get(9)?,
    })
}
