//! Reading a dispatch with what its messages are rendered from.

use notify_core::{AnswerId, AppId, NotificationId, Timestamp};

use super::super::row::{unknown_value, uuid_at};
use super::start::keys_of;
use crate::store::sql::{
    self, Connection, NUMBERS, OptionalExtension, Row, Type, count_of, list_of,
};
use crate::store::{
    AppNo, DeviceKey, Dispatch, DispatchNo, NotificationNo, Scan, Source, StoreError, Zone,
    platform_of,
};

/// Reads a dispatch.
pub(crate) fn read(connection: &Connection, no: DispatchNo) -> Result<Dispatch, StoreError> {
    let mut dispatch = connection
        .prepare_cached(
            "select d.no, d.notification_no, n.id, n.app_no, a.id, a.name, d.platform, n.request,
             p.public_id, d.named, n.tag, d.cursor, d.until, d.scan_done, d.is_canceled, d.due_at,
             n.ttl_seconds, d.zone, n.started_at
             from dispatches d join notifications n on n.no = d.notification_no
             join apps a on a.no = n.app_no
             left join polls p on p.notification_no = n.no
             where d.no = ?1 and a.status <> 'erasing'",
        )?
        .query_row([no.0], dispatch_of)
        .optional()?
        .ok_or(StoreError::NotFound)?;
    if dispatch.poll_public_id.is_some() {
        dispatch.poll_answers = poll_answers(connection, dispatch.notification)?;
    }
    Ok(dispatch)
}

/// How far its pages have come.
pub(super) fn scan(connection: &Connection, no: DispatchNo) -> Result<Option<Scan>, StoreError> {
    let scan = connection
        .prepare_cached(
            "select cursor, is_canceled from dispatches where no = ?1 and scan_done = 0",
        )?
        .query_row([no.0], |row| Ok(Scan { cursor: DeviceKey(row.get(0)?), canceled: row.get(1)? }))
        .optional()?;
    Ok(scan)
}

/// Those whose keys are not all claimed, the oldest first.
pub(super) fn unread(connection: &Connection, limit: u32) -> Result<Vec<DispatchNo>, StoreError> {
    let unread = connection
        .prepare_cached(concat!(
            "select no from dispatches where scan_done = 0 order by ",
            count_of!("no"),
            " limit ?1"
        ))?
        .query_map([limit], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(unread)
}

pub(super) fn canceled_among(
    connection: &Connection,
    dispatches: &[DispatchNo],
) -> Result<Vec<DispatchNo>, StoreError> {
    if dispatches.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = dispatches.iter().map(|dispatch| dispatch.0).collect();
    let canceled = connection
        .prepare_cached(&format!(
            "select no from dispatches where is_canceled = 1 and no in {NUMBERS}"
        ))?
        .query_map([list_of(&numbers)], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(canceled)
}

fn poll_answers(connection: &Connection, poll: NotificationNo) -> sql::Result<Vec<AnswerId>> {
    connection
        .prepare_cached("select id from poll_answers where notification_no = ?1 order by place")?
        .query_map([poll.0], |row| Ok(AnswerId(uuid_at(row, 0)?)))?
        .collect()
}

fn dispatch_of(row: &Row<'_>) -> sql::Result<Dispatch> {
    let id: String = row.get(2)?;
    let tag: Option<String> = row.get(10)?;
    let named: Option<Vec<u8>> = row.get(9)?;
    let source = match (named, tag) {
        (Some(bytes), tag) => Source::Named { keys: keys_of(&bytes), tag },
        (None, Some(tag)) => Source::Tag(tag),
        (None, None) => Source::Platform,
    };
    Ok(Dispatch {
        no: DispatchNo(row.get(0)?),
        notification: NotificationNo(row.get(1)?),
        notification_id: NotificationId::new(id).map_err(|_| unknown_value(2, Type::Text))?,
        app: AppNo(row.get(3)?),
        app_id: AppId(uuid_at(row, 4)?),
        app_name: row.get(5)?,
        platform: platform_of(row.get(6)?),
        request: row.get(7)?,
        poll_public_id: row.get::<Option<[u8; 16]>>(8)?.map(uuid::Uuid::from_bytes),
        poll_answers: Vec::new(),
        source,
        cursor: DeviceKey(row.get(11)?),
        until: DeviceKey(row.get(12)?),
        scan_done: row.get(13)?,
        canceled: row.get(14)?,
        due_at: Timestamp(row.get(15)?),
        ttl_seconds: row.get(16)?,
        zone: Zone::from_code(row.get(17)?),
        started_at: Timestamp(row.get(18)?),
    })
}
