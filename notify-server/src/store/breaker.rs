//! The records through which servers share the state of their circuit breakers. A breaker has one
//! record, which each update replaces.

use notify_core::{Platform, ProviderStatus, Timestamp};

use crate::store::sql::error::inserted;
use crate::store::sql::row::unexpected_value;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{
    AppNo, DeliveryChange, InstanceId, Operation, Store, StoreError, platform_code, platform_of,
};

/// How long the record of a closed breaker is kept, in milliseconds: a day. Every server reads the
/// records far more often.
pub(crate) const CLOSED_KEPT_MS: i64 = 86_400_000;

/// Identifies a circuit breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerKey {
    /// The application.
    pub app: AppNo,
    /// The platform of its provider.
    pub platform: Platform,
    /// The push service or host of the provider; empty for the provider as a whole.
    pub service: Box<str>,
}

/// The latest record of a circuit breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerRecord {
    /// The sequence number of the record, over the records of all breakers.
    pub no: i64,
    /// The breaker.
    pub key: BreakerKey,
    /// The status of the breaker.
    pub status: ProviderStatus,
    /// The server that published it; `None` if an administrator reset the breaker or the guard
    /// tripped.
    pub by: Option<InstanceId>,
}

/// A record to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakerUpdate {
    /// The breaker.
    pub key: BreakerKey,
    /// The status of the breaker.
    pub status: ProviderStatus,
    /// The server that publishes it.
    pub by: InstanceId,
    /// The number of the latest record that the server has read; 0 if it has read none.
    pub known_no: i64,
    /// The current time.
    pub at: Timestamp,
}

// The values of the column `state`.
const AVAILABLE: i64 = 0;
const THROTTLED: i64 = 1;
const AUTH_REJECTED: i64 = 2;
const UNREACHABLE: i64 = 3;
const TRIPPED: i64 = 4;

/// Selects the columns that [`record_of`] reads.
const SELECT_RECORDS: &str = "select no, app_no, platform, service, state, reason, until, told_by
                      from channel_states";

impl Store {
    /// Publishes a record to the other servers, unless another server has published a later record
    /// than [`BreakerUpdate::known_no`]. Returns the latest record, which may be that of the other
    /// server. Fails with [`StoreError::NotFound`] if the application is deleted.
    pub async fn publish_breaker(
        &self,
        update: BreakerUpdate,
    ) -> Result<BreakerRecord, StoreError> {
        self.write(Operation::PublishBreaker, move |tx| {
            if let Some(latest) = latest(tx, &update.key)?
                && latest.no != update.known_no
            {
                // Another server has published this record since.
                return Ok(latest);
            }
            let app_exists = tx
                .prepare_cached("select 1 from apps where no = ?1 and status <> 'erasing'")?
                .exists([update.key.app.0])?;
            if !app_exists {
                return Err(StoreError::NotFound);
            }
            let BreakerUpdate { key, status, by, at, .. } = update;
            replace_record(tx, NewRecord { key, status, by: Some(by), at })
        })
        .await
    }

    /// Reads the records with a number above `after`, oldest first, at most `limit`. `lane`
    /// restricts them to one platform of an application.
    pub async fn breakers_since(
        &self,
        lane: Option<(AppNo, Platform)>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<BreakerRecord>, StoreError> {
        self.read(move |connection| {
            let records = match lane {
                None => connection
                    .prepare_cached(&format!("{SELECT_RECORDS} where no > ?1 order by no limit ?2"))?
                    .query_map(params![after, limit], record_of)?
                    .collect::<Result<Vec<_>, _>>()?,
                Some((app, platform)) => connection
                    .prepare_cached(&format!(
                        "{SELECT_RECORDS} where no > ?1 and app_no = ?2 and platform = ?3 order by no limit ?4"
                    ))?
                    .query_map(params![after, app.0, platform_code(platform), limit], record_of)?
                    .collect::<Result<Vec<_>, _>>()?,
            };
            Ok(records)
        })
        .await
    }
}

/// Publishes that the mass-unregister guard of a platform has tripped.
pub(super) fn trip(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    platform: Platform,
    at: Timestamp,
) -> Result<(), StoreError> {
    let key = BreakerKey { app, platform, service: "".into() };
    replace_record(tx, NewRecord { key, status: ProviderStatus::Tripped, by: None, at })?;
    Ok(())
}

/// Closes all breakers of a platform, after an administrator reset or reconfigured the provider.
pub(super) fn close_all(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    platform: Platform,
) -> Result<(), StoreError> {
    let open_breakers = tx
        .prepare_cached(&format!(
            "{SELECT_RECORDS} where app_no = ?1 and platform = ?2 and state <> ?3"
        ))?
        .query_map(params![app.0, platform_code(platform), AVAILABLE], record_of)?
        .collect::<Result<Vec<_>, _>>()?;
    for BreakerRecord { no, key, .. } in open_breakers {
        // The caller has no current time, so the time of the replaced record is kept.
        let at = tx
            .prepare_cached("select at from channel_states where no = ?1")?
            .query_row([no], |row| row.get(0).map(Timestamp))?;
        replace_record(tx, NewRecord { key, status: ProviderStatus::Available, by: None, at })?;
    }
    Ok(())
}

/// A record to write.
struct NewRecord {
    key: BreakerKey,
    status: ProviderStatus,
    by: Option<InstanceId>,
    at: Timestamp,
}

/// Replaces the record of a breaker and returns the new one. Also deletes old records of closed
/// breakers of the same platform.
fn replace_record(tx: &mut WriteTx<'_>, new: NewRecord) -> Result<BreakerRecord, StoreError> {
    let NewRecord { key, status, by, at } = new;
    tx.prepare_cached(
        "delete from channel_states where app_no = ?1 and platform = ?2
         and (service = ?3 or (state = ?4 and at < ?5))",
    )?
    .execute(params![
        key.app.0,
        platform_code(key.platform),
        *key.service,
        AVAILABLE,
        at.as_ms() - CLOSED_KEPT_MS
    ])?;
    let no = tx
        .prepare_insert(
            "insert into channel_states (no, app_no, platform, service, state, reason, until,
             told_by, at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        // The number has no application as its prefix, since it only orders the records: a server
        // reads the records of all applications after the last one that it has read.
        .insert_unprefixed(params![
            key.app.0,
            platform_code(key.platform),
            *key.service,
            state_code(&status),
            status.reason(),
            status.until().map(Timestamp::as_ms),
            by.map(|by| by.0),
            at.as_ms()
        ])?;
    tx.changed(DeliveryChange::Breaker(key.app, key.platform));
    Ok(BreakerRecord { no: inserted(no)?, key, status, by })
}

/// Reads the record of a breaker.
fn latest(connection: &Connection, key: &BreakerKey) -> Result<Option<BreakerRecord>, StoreError> {
    let record = connection
        .prepare_cached(&format!(
            "{SELECT_RECORDS} where app_no = ?1 and platform = ?2 and service = ?3"
        ))?
        .query_row(params![key.app.0, platform_code(key.platform), *key.service], record_of)
        .optional()?;
    Ok(record)
}

fn state_code(status: &ProviderStatus) -> i64 {
    match status {
        ProviderStatus::Available => AVAILABLE,
        ProviderStatus::Throttled { .. } => THROTTLED,
        ProviderStatus::AuthRejected { .. } => AUTH_REJECTED,
        ProviderStatus::Unreachable { .. } => UNREACHABLE,
        ProviderStatus::Tripped => TRIPPED,
    }
}

fn record_of(row: &Row<'_>) -> sql::Result<BreakerRecord> {
    let service: String = row.get(3)?;
    let until = row.get::<Option<i64>>(6)?.map_or(Timestamp::default(), Timestamp);
    let status = match row.get::<i64>(4)? {
        AVAILABLE => ProviderStatus::Available,
        THROTTLED => ProviderStatus::Throttled { until },
        AUTH_REJECTED => ProviderStatus::AuthRejected { reason: row.get(5)?, probe_at: until },
        UNREACHABLE => ProviderStatus::Unreachable { probe_at: until },
        TRIPPED => ProviderStatus::Tripped,
        _ => return Err(unexpected_value(4, Type::Integer)),
    };
    Ok(BreakerRecord {
        no: row.get(0)?,
        key: BreakerKey {
            app: AppNo(row.get(1)?),
            platform: platform_of(row.get(2)?),
            service: service.into(),
        },
        status,
        by: row.get::<Option<i64>>(7)?.map(InstanceId),
    })
}
