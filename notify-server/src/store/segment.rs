//! Segments: named conditions of audiences.

use notify_core::{Condition, SEGMENTS_MAX, Segment, SegmentName, Timestamp};

use crate::store::device::{attributes, tags};
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::error::internal;
use crate::store::sql::row::{count_at, require_app};
use crate::store::sql::{
    self, Connection, OptionalExtension, Row, TEXTS, WriteScope, list_of, params,
};
use crate::store::{AppNo, Operation, Page, PageRequest, Store, StoreError};

impl Store {
    /// Creates or replaces a segment.
    pub async fn put_segment(
        &self,
        app: AppNo,
        name: SegmentName,
        condition: Condition,
        at: Timestamp,
    ) -> Result<Segment, StoreError> {
        self.write_to(WriteScope::app(app), Operation::PutSegment, move |tx| {
            require_app(tx, app)?;
            let count: i64 = tx
                .prepare_cached("select count(*) from segments where app_no = ?1 and name <> ?2")?
                .query_row(params![app.0, name.as_str()], |row| row.get(0))?;
            if usize::try_from(count).is_ok_and(|count| count >= SEGMENTS_MAX) {
                let what = format!("the application has {SEGMENTS_MAX} segments already");
                return Err(StoreError::refused("name", &what));
            }
            tx.prepare_cached(
                "insert into segments (app_no, name, audience, created_at, updated_at)
                 values (?1, ?2, ?3, ?4, ?4) on conflict (app_no, name) do update
                 set audience = excluded.audience,
                 updated_at = max(segments.updated_at, excluded.updated_at)",
            )?
            .execute(params![
                app.0,
                name.as_str(),
                condition.to_json(),
                at.as_ms()
            ])?;
            read(tx, app, name.as_str())?
                .ok_or_else(|| internal("a segment that was just written is gone"))
        })
        .await
    }

    /// Reads a segment.
    pub async fn segment(&self, app: AppNo, name: String) -> Result<Segment, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            read(connection, app, &name)?.ok_or(StoreError::NotFound)
        })
        .await
    }

    /// Reads the conditions of segments. Unknown names are left out.
    pub async fn segments_by_name(
        &self,
        app: AppNo,
        names: Vec<String>,
    ) -> Result<Vec<Segment>, StoreError> {
        self.read(move |connection| read_named(connection, app, &names)).await
    }

    /// Returns the tags and attributes in a condition that no device and no user has or had.
    pub async fn unused_names(
        &self,
        app: AppNo,
        condition: &Condition,
    ) -> Result<UnusedNames, StoreError> {
        let (tags, attributes) = (condition.tags().to_vec(), condition.attributes().to_vec());
        self.read(move |connection| {
            let used = attributes::numbers_of(connection, app, &attributes)?;
            let names: Vec<&str> = tags.iter().map(String::as_str).collect();
            let on_devices = tags::numbers_of(connection, app, &names)?;
            let attributes = attributes.into_iter().filter(|name| !used.contains_key(name));
            let attributes = attributes.collect();
            let tags = tags.into_iter().filter(|name| !on_devices.contains_key(name)).collect();
            Ok(UnusedNames { tags, attributes })
        })
        .await
    }

    /// Lists the segments of an application by name.
    pub async fn list_segments(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<Segment>, StoreError> {
        self.read_long(move |connection| list(connection, app, &page)).await
    }

    /// Deletes a segment. Notifications that were accepted with it have a copy of its condition.
    pub async fn delete_segment(&self, app: AppNo, name: String) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::DeleteSegment, move |tx| {
            require_app(tx, app)?;
            let deleted = tx
                .prepare_cached("delete from segments where app_no = ?1 and name = ?2")?
                .execute(params![app.0, name])?;
            if deleted == 0 { Err(StoreError::NotFound) } else { Ok(()) }
        })
        .await
    }
}

/// Names in a condition that no device and no user has or had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnusedNames {
    /// Tags.
    pub tags: Vec<String>,
    /// Attributes.
    pub attributes: Vec<String>,
}

/// A page of the list is full once its conditions have this many bytes.
const PAGE_BYTES_MAX: u64 = 4 * 1_048_576;

/// The columns that [`read_row`] reads.
const SEGMENT_COLUMNS: &str = "name, audience, created_at, updated_at";

/// The row of a segment.
struct SegmentRow {
    name: String,
    /// The condition in JSON.
    audience: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

fn read_row(row: &Row<'_>) -> sql::Result<SegmentRow> {
    Ok(SegmentRow {
        name: row.get(0)?,
        audience: row.get(1)?,
        created_at: Timestamp(row.get(2)?),
        updated_at: Timestamp(row.get(3)?),
    })
}

fn parse(row: SegmentRow) -> Result<Segment, StoreError> {
    Ok(Segment {
        name: SegmentName::new(row.name).map_err(internal)?,
        audience: serde_json::from_str(&row.audience)?,
        created_at: row.created_at,
        updated_at: row.updated_at,
    })
}

fn read(connection: &Connection, app: AppNo, name: &str) -> Result<Option<Segment>, StoreError> {
    connection
        .prepare_cached(&format!(
            "select {SEGMENT_COLUMNS} from segments where app_no = ?1 and name = ?2"
        ))?
        .query_row(params![app.0, name], read_row)
        .optional()?
        .map(parse)
        .transpose()
}

fn list(
    connection: &Connection,
    app: AppNo,
    page: &PageRequest,
) -> Result<Page<Segment>, StoreError> {
    require_app(connection, app)?;
    let cursors = CursorCodec { list: "segments", owner: app.0 };
    let after = cursors.decode_text(page)?.unwrap_or_default();
    let (names, limit) = names_of_page(connection, app, &after, page)?;
    let segments = read_named(connection, app, &names)?.into_iter();
    let rows = segments.map(|segment| (segment.name.as_str().to_owned(), segment)).collect();
    Ok(cursors.page_by_text(rows, &PageRequest { limit, cursor: None }))
}

/// Reads segments by their names, in the order of the names. Unknown names are left out.
fn read_named(
    connection: &Connection,
    app: AppNo,
    names: &[String],
) -> Result<Vec<Segment>, StoreError> {
    let rows = connection
        .prepare_cached(&format!(
            "select {SEGMENT_COLUMNS} from segments
             where app_no = ?2 and name in {TEXTS} order by name"
        ))?
        .query_map(params![list_of(names), app.0], read_row)?
        .collect::<sql::Result<Vec<_>>>()?;
    rows.into_iter().map(parse).collect()
}

/// Selects the segments of a page by the lengths of their conditions, before the conditions are read.
/// Returns their names, with one more if another page follows, and the number of rows of the page.
fn names_of_page(
    connection: &Connection,
    app: AppNo,
    after: &str,
    page: &PageRequest,
) -> Result<(Vec<String>, u32), StoreError> {
    let mut statement = connection.prepare_cached(
        "select name, octet_length(audience) from segments
         where app_no = ?1 and name > ?2 order by name limit ?3",
    )?;
    let (mut names, mut bytes) = (Vec::new(), 0);
    for row in statement.query_map(params![app.0, after, rows_wanted(page)], |row| {
        Ok((row.get::<String>(0)?, count_at(row, 1)?))
    })? {
        let (name, length) = row?;
        names.push(name);
        if bytes >= PAGE_BYTES_MAX {
            // This segment begins the next page.
            let limit = u32::try_from(names.len() - 1).unwrap_or(page.limit);
            return Ok((names, limit));
        }
        bytes += length;
    }
    Ok((names, page.limit))
}
