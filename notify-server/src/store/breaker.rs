//! What servers tell each other of their channels: that one is held, paused or fails, and that it is
//! open again.

use notify_core::{Platform, Timestamp};

use crate::store::sql::error::inserted;
use crate::store::sql::row::unknown_value;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{
    AppNo, Change, Epoch, Operation, Store, StoreError, platform_code, platform_of,
};

/// How long a channel that is open again is remembered, in milliseconds: a day, far longer than any
/// server goes without looking.
pub(crate) const OPEN_REMEMBERED_MS: i64 = 86_400_000;

/// What a word is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelPlace {
    /// Whose channel.
    pub app: AppNo,
    /// On which platform.
    pub platform: Platform,
    /// The push service, or the host, behind it; empty for the provider as a whole.
    pub service: Box<str>,
}

/// How a channel stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelWord {
    /// Deliveries go out.
    Open,
    /// The provider asked to slow down.
    Paused {
        /// Until when.
        until: Timestamp,
    },
    /// The provider refuses our credentials.
    Held {
        /// Its word.
        reason: Box<str>,
        /// When one delivery is tried as a probe.
        probe_at: Timestamp,
    },
    /// The provider cannot be reached, or fails.
    Failing {
        /// When one delivery is tried as a probe.
        probe_at: Timestamp,
    },
    /// Released by an administrator alone (B40).
    Stopped,
}

/// The latest word about a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelTold {
    /// Grows with each word about any channel.
    pub no: i64,
    /// What it is about.
    pub place: ChannelPlace,
    /// The word.
    pub word: ChannelWord,
    /// Whose; nobody's where an administrator released it, or the guard stopped it.
    pub by: Option<Epoch>,
}

/// A word that a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWord {
    /// What it is about.
    pub place: ChannelPlace,
    /// The word.
    pub word: ChannelWord,
    /// Whose.
    pub by: Epoch,
    /// Number of the latest word that the server knows; 0 when it knows none.
    pub known: i64,
    /// When it is said.
    pub at: Timestamp,
}

const OPEN: i64 = 0;
const PAUSED: i64 = 1;
const HELD: i64 = 2;
const FAILING: i64 = 3;
const STOPPED: i64 = 4;

/// What [`told_of`] reads.
const TOLD: &str = "select no, app_no, platform, service, state, reason, until, told_by
                    from channel_states";

impl Store {
    /// Tells the others a word, unless there is a later one than the server knows: answers the latest
    /// word now. [`StoreError::NotFound`] when the application is gone.
    pub async fn tell_channel(&self, new: NewWord) -> Result<ChannelTold, StoreError> {
        self.write(Operation::TellChannel, move |tx| {
            let latest = latest(tx, &new.place)?;
            if let Some(latest) = latest.filter(|latest| latest.no != new.known) {
                return Ok(latest);
            }
            let is_there = tx
                .prepare_cached("select 1 from apps where no = ?1 and status <> 'erasing'")?
                .exists([new.place.app.0])?;
            if !is_there {
                return Err(StoreError::NotFound);
            }
            let no = write(tx, &new.place, &new.word, Some(new.by), new.at)?;
            Ok(ChannelTold { no, place: new.place, word: new.word, by: Some(new.by) })
        })
        .await
    }

    /// Words after that number, of one application's platform or of all, the oldest first, at most
    /// `limit`.
    pub async fn channels_told(
        &self,
        of: Option<(AppNo, Platform)>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ChannelTold>, StoreError> {
        self.read(move |connection| {
            let told = match of {
                None => connection
                    .prepare_cached(&format!("{TOLD} where no > ?1 order by no limit ?2"))?
                    .query_map(params![after, limit], told_of)?
                    .collect::<Result<Vec<_>, _>>()?,
                Some((app, platform)) => connection
                    .prepare_cached(&format!(
                        "{TOLD} where no > ?1 and app_no = ?2 and platform = ?3 order by no limit ?4"
                    ))?
                    .query_map(params![after, app.0, platform_code(platform), limit], told_of)?
                    .collect::<Result<Vec<_>, _>>()?,
            };
            Ok(told)
        })
        .await
    }
}

/// The guard stopped a platform (B40).
pub(super) fn stopped(
    tx: &mut WriteTx<'_>,
    (app, platform): (AppNo, Platform),
    at: Timestamp,
) -> Result<(), StoreError> {
    let place = ChannelPlace { app, platform, service: "".into() };
    write(tx, &place, &ChannelWord::Stopped, None, at)?;
    Ok(())
}

/// Everything of a platform is open: an administrator looked, or changed the credentials.
pub(super) fn released(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    platform: Platform,
) -> Result<(), StoreError> {
    let closed = tx
        .prepare_cached(&format!("{TOLD} where app_no = ?1 and platform = ?2 and state <> ?3"))?
        .query_map(params![app.0, platform_code(platform), OPEN], told_of)?
        .collect::<Result<Vec<_>, _>>()?;
    for told in closed {
        // The time of the word before: an administrator's comes without one of its own.
        let at = tx
            .prepare_cached("select at from channel_states where no = ?1")?
            .query_row([told.no], |row| row.get(0).map(Timestamp))?;
        write(tx, &told.place, &ChannelWord::Open, None, at)?;
    }
    Ok(())
}

/// Writes a word in place of the one before.
fn write(
    tx: &mut WriteTx<'_>,
    place: &ChannelPlace,
    word: &ChannelWord,
    by: Option<Epoch>,
    at: Timestamp,
) -> Result<i64, StoreError> {
    let ChannelPlace { app, platform, service } = place;
    tx.prepare_cached(
        "delete from channel_states where app_no = ?1 and platform = ?2
         and (service = ?3 or (state = ?4 and at < ?5))",
    )?
    .execute(params![
        app.0,
        platform_code(*platform),
        **service,
        OPEN,
        at.as_ms() - OPEN_REMEMBERED_MS
    ])?;
    let (state, reason, until) = match word {
        ChannelWord::Open => (OPEN, None, None),
        ChannelWord::Paused { until } => (PAUSED, None, Some(until)),
        ChannelWord::Held { reason, probe_at } => (HELD, Some(&**reason), Some(probe_at)),
        ChannelWord::Failing { probe_at } => (FAILING, None, Some(probe_at)),
        ChannelWord::Stopped => (STOPPED, None, None),
    };
    let no = tx
        .prepare_insert(
            "insert into channel_states (no, app_no, platform, service, state, reason, until,
             told_by, at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        // By the count alone: it tells which of all words is later, and the place is the key.
        .counted(params![
            app.0,
            platform_code(*platform),
            **service,
            state,
            reason,
            until.map(|until| until.as_ms()),
            by.map(|by| by.0),
            at.as_ms()
        ])?;
    tx.changed(Change::ChannelTold(*app, *platform));
    inserted(no)
}

fn latest(
    connection: &Connection,
    place: &ChannelPlace,
) -> Result<Option<ChannelTold>, StoreError> {
    let told = connection
        .prepare_cached(&format!("{TOLD} where app_no = ?1 and platform = ?2 and service = ?3"))?
        .query_row(params![place.app.0, platform_code(place.platform), *place.service], told_of)
        .optional()?;
    Ok(told)
}

fn told_of(row: &Row<'_>) -> sql::Result<ChannelTold> {
    let service: String = row.get(3)?;
    let until = row.get::<Option<i64>>(6)?.map_or(Timestamp::default(), Timestamp);
    let word = match row.get::<i64>(4)? {
        OPEN => ChannelWord::Open,
        PAUSED => ChannelWord::Paused { until },
        HELD => {
            let reason: Option<String> = row.get(5)?;
            ChannelWord::Held { reason: reason.unwrap_or_default().into(), probe_at: until }
        }
        FAILING => ChannelWord::Failing { probe_at: until },
        STOPPED => ChannelWord::Stopped,
        _ => return Err(unknown_value(4, Type::Integer)),
    };
    Ok(ChannelTold {
        no: row.get(0)?,
        place: ChannelPlace {
            app: AppNo(row.get(1)?),
            platform: platform_of(row.get(2)?),
            service: service.into(),
        },
        word,
        by: row.get::<Option<i64>>(7)?.map(Epoch),
    })
}
