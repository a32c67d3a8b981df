//! Listing the deliveries of a notification. The outcomes of a page are stored in chunks, and
//! retries in rows. The remaining devices of an open page are pending. One request reads a bounded
//! number of pages.

use std::collections::{BTreeMap, HashMap};

use notify_core::{Delivery, DeliveryOutcome, DeviceId, NotificationId, Timestamp};

use crate::store::delivery::{
    AudienceQuery, KeyRange, devices_in_range, outcomes_of_page, read_dispatch,
};
use crate::store::notification::number_of;
use crate::store::page::CursorCodec;
use crate::store::sql::error::internal;
use crate::store::sql::row::{require_app, unexpected_value};
use crate::store::sql::{self, Connection, NUMBERS, Type, list_of};
use crate::store::{
    AppNo, DeviceKey, DispatchNo, NotificationNo, Outcome, Page, PageNo, PageRequest, SEQ_BITS,
    SEQ_MAX, StoreError,
};

/// Which deliveries of a notification are listed.
#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    /// Only deliveries with this outcome.
    pub outcome: Option<DeliveryOutcome>,
    /// Only deliveries with exactly this reason.
    pub reason: Option<String>,
}

impl DeliveryFilter {
    fn accepts(&self, delivery: &Delivery) -> bool {
        self.outcome.is_none_or(|outcome| outcome == delivery.outcome)
            && self.reason.as_ref().is_none_or(|reason| Some(reason) == delivery.reason.as_ref())
    }
}

/// The most pages whose counters one request reads.
const PAGES_SEEN_MAX: usize = 10_000;
/// The most pages whose deliveries one request reads. A page has at most 2,000 devices.
pub(in crate::store) const PAGES_READ_MAX: usize = 16;

/// Lists the next deliveries of a notification.
pub(super) fn list(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
    filter: DeliveryFilter,
    request: &PageRequest,
) -> Result<Page<Delivery>, StoreError> {
    require_app(connection, app)?;
    let notification = number_of(connection, app, id)?.ok_or(StoreError::NotFound)?;
    let cursors = CursorCodec { list: "deliveries", owner: notification.0 };
    let begin = cursors.decode_number(request)?.map_or(Position::default(), Position::from_number);
    let mut walk = Walk {
        connection,
        filter,
        // One more than the limit, to find out whether another page follows.
        wanted: usize::try_from(request.limit).unwrap_or(usize::MAX).saturating_add(1),
        rows: Vec::new(),
        position: begin,
        app,
        pages_seen: 0,
        pages_read: 0,
    };
    let is_complete = walk.walk(notification)?;
    let mut rows = walk.rows;
    let next = if rows.len() == walk.wanted {
        rows.pop();
        rows.last().map(|(position, ..)| *position)
    } else {
        (!is_complete).then_some(walk.position)
    };
    let rows = add_device_ids(connection, rows)?;
    Ok(Page { rows, next: next.map(|position| cursors.encode_number(position.number())) })
}

/// A position in the list: a dispatch, and a key in it. The key alone is not enough, since the
/// dispatches of several zones on one platform cover the same keys.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    /// The index of the dispatch, in the order of creation.
    dispatch: usize,
    /// The key without the prefix of its application. 0 is before the first key.
    key: i64,
}

impl Position {
    /// Decodes the position from the number in a cursor.
    fn from_number(number: i64) -> Self {
        Self {
            dispatch: usize::try_from(number >> SEQ_BITS).unwrap_or(usize::MAX),
            key: number & SEQ_MAX,
        }
    }

    /// The position as the number in a cursor.
    fn number(self) -> i64 {
        i64::try_from(self.dispatch).unwrap_or_default() << SEQ_BITS | self.key
    }

    /// The position of a key in the same dispatch.
    fn at(self, key: DeviceKey) -> Self {
        Self { key: key.0 & SEQ_MAX, ..self }
    }

    /// The key of the position.
    fn key_of(self, app: AppNo) -> DeviceKey {
        DeviceKey(app.key_prefix() | self.key)
    }
}

/// A page of a dispatch, and whether its deliveries have to be read.
struct PageSummary {
    no: PageNo,
    from: DeviceKey,
    to: DeviceKey,
    is_open: bool,
    /// Whether its counters say that it can contain a row of the list.
    is_wanted: bool,
}

/// A walk over the pages of a notification in the order of their keys.
struct Walk<'c> {
    connection: &'c Connection,
    /// The deliveries that the list is restricted to.
    filter: DeliveryFilter,
    /// The number of rows to find.
    wanted: usize,
    rows: Vec<(Position, DeviceKey, Delivery)>,
    /// The current position.
    position: Position,
    app: AppNo,
    pages_seen: usize,
    pages_read: usize,
}

impl Walk<'_> {
    /// Continues until enough rows are found, or [`PAGES_SEEN_MAX`] or [`PAGES_READ_MAX`] is
    /// reached. Returns whether the end of the list was reached.
    fn walk(&mut self, notification: NotificationNo) -> Result<bool, StoreError> {
        let dispatches = self
            .connection
            .prepare_cached("select no from dispatches where notification_no = ?1 order by no")?
            .query_map([notification.0], |row| row.get(0).map(DispatchNo))?
            .collect::<Result<Vec<_>, _>>()?;
        for (nth, dispatch) in dispatches.into_iter().enumerate().skip(self.position.dispatch) {
            if nth > self.position.dispatch {
                self.position = Position { dispatch: nth, key: 0 };
            }
            if !self.walk_dispatch(dispatch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// As [`Walk::walk`], for one dispatch.
    fn walk_dispatch(&mut self, dispatch: DispatchNo) -> Result<bool, StoreError> {
        for page in self.next_pages(dispatch)? {
            self.pages_seen += 1;
            if page.is_wanted {
                if self.pages_read == PAGES_READ_MAX {
                    return Ok(false);
                }
                self.pages_read += 1;
                self.read_page(dispatch, &page)?;
                if self.rows.len() == self.wanted {
                    return Ok(false);
                }
            }
            self.position = self.position.at(page.to);
        }
        Ok(self.pages_seen < PAGES_SEEN_MAX)
    }

    /// Reads the counters of the next pages of a dispatch, up to the limit of the request.
    fn next_pages(&self, dispatch: DispatchNo) -> Result<Vec<PageSummary>, StoreError> {
        // The condition on the counters of a page that can contain a row of the list. An open page
        // can contain pending deliveries that its counters do not include.
        let is_wanted = match self.filter.outcome {
            // A delivery that was sent has no reason.
            None if self.filter.reason.is_some() => "targeted > sent or finished = 0",
            None => "targeted > 0",
            Some(DeliveryOutcome::Sent) => "sent > 0",
            Some(DeliveryOutcome::Failed) => "failed > 0",
            Some(DeliveryOutcome::Unregistered) => "unregistered > 0",
            Some(DeliveryOutcome::Expired) => "expired > 0",
            Some(DeliveryOutcome::Canceled) => "canceled > 0",
            Some(DeliveryOutcome::Pending) => "retrying > 0 or finished = 0",
        };
        let rest = i64::try_from(PAGES_SEEN_MAX - self.pages_seen).unwrap_or(i64::MAX);
        let pages = self
            .connection
            .prepare_cached(&format!(
                "select no, from_key, to_key, finished = 0, {is_wanted} from pages
                 where dispatch_no = ?1 and to_key > ?2 order by to_key limit ?3"
            ))?
            .query_map([dispatch.0, self.position.key_of(self.app).0, rest], |row| {
                Ok(PageSummary {
                    no: PageNo(row.get(0)?),
                    from: DeviceKey(row.get(1)?),
                    to: DeviceKey(row.get(2)?),
                    is_open: row.get(3)?,
                    is_wanted: row.get(4)?,
                })
            })?
            .collect::<Result<Vec<_>, _>>()?;
        Ok(pages)
    }

    /// Adds the rows of a page that come after the position, until there are enough.
    fn read_page(&mut self, dispatch: DispatchNo, page: &PageSummary) -> Result<(), StoreError> {
        let mut rows = BTreeMap::new();
        for (outcome, at) in outcomes_of_page(self.connection, page.no, page.from)? {
            let row = Delivery {
                outcome: delivery_outcome(outcome.settled),
                reason: outcome.reason.map(std::borrow::Cow::into_owned),
                attempts: u32::from(outcome.attempts),
                provider_message_id: outcome.message_id.map(String::from),
                at: Some(at),
                ..pending(outcome.key)
            };
            rows.insert(outcome.key, row);
        }
        self.add_retries(page.no, &mut rows)?;
        let wants_pending =
            self.filter.outcome.is_none_or(|outcome| outcome == DeliveryOutcome::Pending);
        if page.is_open && wants_pending {
            let query = AudienceQuery::of(&read_dispatch(self.connection, dispatch)?);
            for device in devices_in_range(
                self.connection,
                &query,
                KeyRange { after: page.from, to: page.to },
                None,
            )? {
                if device.eligible && device.address.is_some() {
                    rows.entry(device.key).or_insert_with(|| pending(device.key));
                }
            }
        }
        let (position, after) = (self.position, self.position.key_of(self.app));
        let listed = rows.into_iter().filter(|(key, row)| *key > after && self.filter.accepts(row));
        let room = self.wanted - self.rows.len();
        self.rows.extend(listed.map(|(key, row)| (position.at(key), key, row)).take(room));
        Ok(())
    }

    /// Adds the retries of a page to its rows.
    fn add_retries(
        &self,
        page: PageNo,
        rows: &mut BTreeMap<DeviceKey, Delivery>,
    ) -> Result<(), StoreError> {
        let mut retries = self.connection.prepare_cached(
            "select device_key, outcome, reason, attempts, message_id, settled_at, due_at
             from retries indexed by retries_by_page where page_no = ?1",
        )?;
        let mut retry_rows = retries.query([page.0])?;
        while let Some(row) = retry_rows.next()? {
            let key = DeviceKey(row.get(0)?);
            let outcome = match row.get::<Option<u8>>(1)? {
                None => DeliveryOutcome::Pending,
                Some(code) => delivery_outcome(
                    Outcome::from_code(code).ok_or_else(|| unexpected_value(1, Type::Integer))?,
                ),
            };
            let is_pending = outcome == DeliveryOutcome::Pending;
            let retry = Delivery {
                outcome,
                reason: row.get(2)?,
                attempts: row.get(3)?,
                provider_message_id: row.get(4)?,
                at: row.get::<Option<i64>>(5)?.map(Timestamp),
                next_attempt_at: is_pending.then_some(Timestamp(row.get(6)?)),
                ..pending(key)
            };
            rows.insert(key, retry);
        }
        Ok(())
    }
}

/// A pending delivery.
fn pending(key: DeviceKey) -> Delivery {
    Delivery {
        device_id: None,
        platform: key.platform(),
        outcome: DeliveryOutcome::Pending,
        reason: None,
        attempts: 0,
        provider_message_id: None,
        at: None,
        next_attempt_at: None,
    }
}

fn delivery_outcome(settled: Outcome) -> DeliveryOutcome {
    match settled {
        Outcome::Sent => DeliveryOutcome::Sent,
        Outcome::Failed => DeliveryOutcome::Failed,
        Outcome::Unregistered => DeliveryOutcome::Unregistered,
        Outcome::Expired => DeliveryOutcome::Expired,
        Outcome::Canceled => DeliveryOutcome::Canceled,
    }
}

/// Adds the device ids to deliveries. The id of an erased device is `None`.
fn add_device_ids(
    connection: &Connection,
    rows: Vec<(Position, DeviceKey, Delivery)>,
) -> Result<Vec<Delivery>, StoreError> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<i64> = rows.iter().map(|(_, key, _)| key.0).collect();
    let ids = connection
        .prepare_cached(&format!("select key, device_id from devices where key in {NUMBERS}"))?
        .query_map([list_of(&keys)], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<sql::Result<HashMap<i64, String>>>()?;
    let deliveries = rows.into_iter().map(|(_, key, row)| {
        let device_id =
            ids.get(&key.0).cloned().map(DeviceId::new).transpose().map_err(internal)?;
        Ok(Delivery { device_id, ..row })
    });
    deliveries.collect()
}
