//! Sets of accepted notifications. A number is drawn before the commit, so notifications are not committed in
//! the order of their numbers. Whoever must not miss one reads the last number in a transaction that runs
//! alone in its application.

use std::collections::{HashMap, HashSet};

use notify_core::{NotificationCreated, Platform, Target, Timestamp, UserId};

use super::arrays::Arrays;
use super::{SetKind, SetTx, WriteSet, place_of};
use crate::store::idempotency::EXPIRED_DELETED_MAX;
use crate::store::notification::AcceptNotification;
use crate::store::sql::columns::{names, names_of};
use crate::store::sql::row::count;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, WriteScope, params};
use crate::store::{Idempotent, Operation, REPLAY_KEPT_MS, StoreError, platform_code};

/// The most ids of devices or users that a notification in a set names.
const IDS_MAX: usize = 64;

impl WriteSet for AcceptNotification {
    type Answer = Idempotent<NotificationCreated>;
    const KIND: SetKind = SetKind::Accept;
    const OPERATION: Operation = Operation::AcceptNotification;

    fn scope(&self) -> WriteScope {
        WriteScope::app(self.app)
    }

    fn fits(&self) -> bool {
        let new = &self.notification;
        let checked = &new.checked;
        new.poll.is_none()
            && checked.canary.is_none()
            && count_ids(&checked.recipients.target) <= IDS_MAX
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Self::Answer, StoreError> {
        self.write(tx)
    }

    fn write_set(
        tx: &mut SetTx<'_>,
        accepts: &[&Self],
    ) -> Result<Vec<Option<Self::Answer>>, StoreError> {
        let known = accepts_with_known_ids(tx, accepts)?;
        let mut rows = Vec::with_capacity(accepts.len());
        for (place, accept) in accepts.iter().enumerate() {
            let new = &accept.notification;
            let ids = count_ids(&new.checked.recipients.target) as u64;
            let are_all_unknown = new.is_due() && ids > 0 && !known.contains(&place);
            let created =
                NotificationCreated { id: new.id.clone(), unknown: are_all_unknown.then_some(ids) };
            rows.push(AcceptRow { place, accept, created });
        }
        let unclaimed = claim_keys(tx, &rows)?;
        rows.retain(|row| !unclaimed.contains(&row.place));
        let inserted = insert(tx, &rows)?;
        release_keys(tx, rows.iter().filter(|row| !inserted.contains(&row.place)))?;
        rows.retain(|row| inserted.contains(&row.place));
        let mut answers: Vec<_> = accepts.iter().map(|_| None).collect();
        for row in rows {
            tx.changed(row.accept.notification.change());
            answers[row.place] = Some(Idempotent::Executed(row.created));
        }
        Ok(answers)
    }
}

/// An accept in a set.
struct AcceptRow<'a> {
    /// The position in the set.
    place: usize,
    accept: &'a AcceptNotification,
    /// The response.
    created: NotificationCreated,
}

/// The device ids that a target names, each with the platform whose list has it.
fn named_ids(target: &Target) -> impl Iterator<Item = (&str, Option<Platform>)> {
    let lists = match target {
        Target::Devices { android, ios, any } => {
            [(android, Some(Platform::Android)), (ios, Some(Platform::Ios)), (any, None)].into()
        }
        Target::Users { .. } | Target::Platforms(_) => Vec::new(),
    };
    lists.into_iter().flat_map(|(ids, platform)| ids.iter().map(move |id| (id.as_str(), platform)))
}

/// The user ids that a target names.
fn named_users(target: &Target) -> &[UserId] {
    match target {
        Target::Users { ids, .. } => ids,
        Target::Devices { .. } | Target::Platforms(_) => &[],
    }
}

/// The number of ids that a target names.
fn count_ids(target: &Target) -> usize {
    named_ids(target).count() + named_users(target).len()
}

/// The positions of the accepts with at least one known id of a device or a user.
fn accepts_with_known_ids(
    tx: &SetTx<'_>,
    accepts: &[&AcceptNotification],
) -> sql::Result<HashSet<usize>> {
    let (mut places, mut apps, mut ids, mut platforms) = (vec![], vec![], vec![], vec![]);
    let (mut user_places, mut user_apps, mut user_ids) = (vec![], vec![], vec![]);
    for (place, accept) in accepts.iter().enumerate() {
        let new = &accept.notification;
        if !new.is_due() {
            continue;
        }
        let target = &new.checked.recipients.target;
        for id in named_users(target) {
            user_places.push(place as i64);
            user_apps.push(accept.app.0);
            user_ids.push(id.as_str());
        }
        for (id, platform) in named_ids(target) {
            places.push(place as i64);
            apps.push(accept.app.0);
            ids.push(id);
            platforms.push(platform.map(platform_code));
        }
    }
    let mut known = HashSet::new();
    if !user_ids.is_empty() {
        let rows = tx.query(
            "select distinct g.place
             from unnest($1::bigint[], $2::bigint[], $3::text[]) g (place, app_no, id)
             join users u on u.app_no = g.app_no and u.user_id = g.id",
            &[&user_places, &user_apps, &user_ids],
        )?;
        known.extend(places_of(&rows)?);
    }
    if ids.is_empty() {
        return Ok(known);
    }
    let rows = tx.query(
        "select distinct g.place
         from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[]) g (place, app_no, id, platform)
         join devices d on d.app_no = g.app_no and d.device_id = g.id
         where g.platform is null or (d.key >> 40 & 7) = g.platform",
        &[&places, &apps, &ids, &platforms],
    )?;
    known.extend(places_of(&rows)?);
    Ok(known)
}

/// Reads the first column as positions in the set.
fn places_of(rows: &[tokio_postgres::Row]) -> sql::Result<HashSet<usize>> {
    rows.iter().map(|row| sql::Row::Postgres(row).get(0).map(place_of)).collect()
}

/// Claims the idempotency keys of a set by storing the responses. Returns the positions of the rows
/// whose key was not claimed: it has a response already, or another row of the set has the same key.
/// Of two sets with the same key, the second waits for the end of the first.
fn claim_keys(tx: &SetTx<'_>, rows: &[AcceptRow<'_>]) -> Result<HashSet<usize>, StoreError> {
    let (mut apps, mut paths, mut keys) = (vec![], vec![], vec![]);
    let (mut digests, mut responses, mut times) = (vec![], vec![], vec![]);
    let mut unclaimed = HashMap::new();
    let mut refused = HashSet::new();
    let mut newest = None;
    for row in rows {
        let Some(once) = &row.accept.once else { continue };
        let key = (row.accept.app.0, once.path.as_str(), once.key.as_str());
        if unclaimed.contains_key(&key) {
            refused.insert(row.place);
            continue;
        }
        unclaimed.insert(key, row.place);
        apps.push(row.accept.app.0);
        paths.push(once.path.as_str());
        keys.push(once.key.as_str());
        digests.push(&once.digest[..]);
        responses.push(serde_json::to_string(&row.created)?);
        times.push(once.at.as_ms());
        newest = newest.max(Some(once.at));
    }
    let Some(newest) = newest else { return Ok(refused) };
    let claimed = tx.query(
        "insert into idempotency as i (app_no, path, key, digest, answer, at)
         select * from unnest($1::bigint[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::bigint[])
         order by 1, 2, 3
         on conflict (app_no, path, key) do update
         set digest = excluded.digest, answer = excluded.answer, at = excluded.at, device_id = null
         where i.at <= excluded.at - $7::bigint
         returning app_no, path, key",
        &[&apps, &paths, &keys, &digests, &responses, &times, &REPLAY_KEPT_MS],
    )?;
    let claimed: HashSet<(i64, &str, &str)> =
        claimed.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    delete_expired_keys(tx, newest, times.len())?;
    unclaimed.retain(|key, _| !claimed.contains(key));
    refused.extend(unclaimed.into_values());
    Ok(refused)
}

/// Deletes expired keys, for each new key as many as a row-by-row write does.
fn delete_expired_keys(tx: &SetTx<'_>, now: Timestamp, new: usize) -> sql::Result<()> {
    // Rows that another set deletes are skipped, so that sets do not wait for each other.
    tx.query(
        "delete from idempotency where ctid = any (array(
           select ctid from idempotency where at <= $1::bigint order by at limit $2::bigint
           for update skip locked))",
        &[&now.plus_ms(-REPLAY_KEPT_MS).as_ms(), &count(new as u64 * EXPIRED_DELETED_MAX)],
    )?;
    Ok(())
}

/// Deletes the responses of rows that were not inserted after all.
fn release_keys<'a>(
    tx: &SetTx<'_>,
    rows: impl Iterator<Item = &'a AcceptRow<'a>>,
) -> Result<(), StoreError> {
    for row in rows {
        if let Some(once) = &row.accept.once {
            tx.prepare_cached(
                "delete from idempotency where app_no = ?1 and path = ?2 and key = ?3",
            )?
            .execute(params![row.accept.app.0, once.path, once.key])?;
        }
    }
    Ok(())
}

/// Inserts the rows that fit: the application lives, the campaign is active, and the id is free.
/// Returns the positions of the inserted rows.
fn insert(tx: &SetTx<'_>, rows: &[AcceptRow<'_>]) -> sql::Result<HashSet<usize>> {
    let of_new: Vec<_> = rows.iter().map(|row| row.accept.notification.columns()).collect();
    let Some(first) = of_new.first() else { return Ok(HashSet::new()) };
    let given = rows.iter().zip(&of_new).map(|(row, columns)| {
        let place = [("place", (row.place as i64).into()), ("app_no", row.accept.app.0.into())];
        [&place, &columns[..]].concat()
    });
    let given = Arrays::of(&given.collect::<Vec<_>>());
    // One order of the ids for all sets avoids deadlocks on the unique index. Of two rows with the same
    // id, the first wins.
    let inserted = tx.query(
        &format!(
            "with given as materialized (
               select g.*, nextval('notifications_no_seq') as seq from {}),
             made as (
               insert into notifications (no, app_no, audience_until, {})
               select g.app_no << 43 | g.seq, g.app_no,
                 case when g.status = 'queued' then a.device_sequence end, {}
               from given g join apps a on a.no = g.app_no and a.status <> 'erasing'
               where g.campaign_id is null or exists (
                 select 1 from campaigns c
                 where c.app_no = g.app_no and c.id = g.campaign_id and c.status = 'active')
               order by g.app_no, g.id, g.place
               on conflict (app_no, id) do nothing
               returning no)
             select g.place from made m join given g on g.app_no << 43 | g.seq = m.no",
            given.table(),
            names(first),
            names_of("g", first)
        ),
        &given.parameters(),
    )?;
    places_of(&inserted)
}
