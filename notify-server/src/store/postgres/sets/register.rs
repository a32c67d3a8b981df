//! Sets of registrations: changed, unchanged and new devices.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use notify_core::{DeviceRegistered, Platform, Timestamp};

use super::arrays::Arrays;
use super::{SetKind, SetTx, WriteSet, column, place_of};
use crate::store::device::inbound::may_be_anonymous;
use crate::store::device::{
    DEVICE_COLUMNS, DEVICES, DeviceRow, DeviceUpsert, REGISTERED, hour_of, is_time_due,
    is_unchanged, register,
};
use crate::store::sql::columns::{Column, names, names_of, replacements};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Row, WriteScope};
use crate::store::{
    AppNo, DeliveryChange, DeviceKey, Idempotent, IdempotentRequest, Operation, SEQUENCE_MAX,
    StoreError, idempotency, platform_code,
};

/// A registration of a device.
pub(in crate::store) struct RegisterDevice {
    pub(in crate::store) app: AppNo,
    pub(in crate::store) wanted: Arc<DeviceUpsert>,
    pub(in crate::store) at: Timestamp,
    pub(in crate::store) once: Option<IdempotentRequest>,
}

impl WriteSet for RegisterDevice {
    type Answer = Idempotent<DeviceRegistered>;
    const KIND: SetKind = SetKind::Register;
    const OPERATION: Operation = Operation::RegisterDevice;

    fn scope(&self) -> WriteScope {
        WriteScope::app(self.app)
    }

    fn fits(&self) -> bool {
        self.once.is_none() && self.wanted.user.is_none()
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Self::Answer, StoreError> {
        idempotency::run(tx, self.app, self.once.as_ref(), |tx| {
            register(tx, self.app, &self.wanted, self.at)?;
            Ok(self.wanted.registered())
        })
    }

    fn write_set(
        tx: &mut SetTx<'_>,
        registrations: &[&Self],
    ) -> Result<Vec<Option<Self::Answer>>, StoreError> {
        let mut set = Set::of(registrations);
        set.read(tx)?;
        set.update_changed(tx)?;
        set.insert_new(tx)?;
        set.write_times(tx)?;
        tx.is_read_only = !set.has_written;
        Ok(set.answers())
    }
}

/// What the set knows about a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Nothing yet.
    Open,
    /// The device exists, and the registration changes it.
    Different,
    /// No device has the id.
    Missing,
    /// The registration is written, or changes nothing.
    Done,
}

/// The registrations of a set.
struct Set<'a> {
    rows: &'a [&'a RegisterDevice],
    statuses: Vec<Status>,
    has_written: bool,
    /// The times of unchanged registrations that have to be written.
    times: BTreeMap<DeviceKey, Timestamp>,
}

/// Registrations as parameters.
struct Columns<'a> {
    places: Vec<i64>,
    rows: Vec<&'a RegisterDevice>,
}

/// A registration of a new device.
struct NewDevice<'a> {
    /// The position in the set.
    place: usize,
    key: DeviceKey,
    row: &'a RegisterDevice,
}

impl<'a> Set<'a> {
    fn of(rows: &'a [&'a RegisterDevice]) -> Self {
        let statuses = vec![Status::Open; rows.len()];
        Self { rows, statuses, has_written: false, times: BTreeMap::new() }
    }

    /// The registrations with this status.
    fn with(&self, wanted: Status) -> Columns<'a> {
        let (mut places, mut rows) = (Vec::new(), Vec::new());
        for (place, (row, status)) in self.rows.iter().zip(&self.statuses).enumerate() {
            if *status == wanted {
                places.push(place as i64);
                rows.push(*row);
            }
        }
        Columns { places, rows }
    }

    /// Marks a registration as written.
    fn done(&mut self, tx: &mut SetTx<'_>, place: usize, key: DeviceKey) {
        self.statuses[place] = Status::Done;
        self.has_written = true;
        tx.changed(DeliveryChange::Device(key));
    }

    /// Writes the registrations that change only texts of an existing device, and neither its
    /// address nor anything that is counted.
    fn update_changed(&mut self, tx: &mut SetTx<'_>) -> Result<(), StoreError> {
        let Columns { places, rows } = self.with(Status::Different);
        let Some(first) = rows.first() else { return Ok(()) };
        let (states, texts) = (first.wanted.fields.states(), first.wanted.fields.texts());
        let given: Vec<_> = places
            .iter()
            .zip(&rows)
            .map(|(place, row)| {
                let mut columns = vec![
                    ("place", (*place).into()),
                    ("app_no", row.app.0.into()),
                    ("platform", platform_code(row.wanted.platform).into()),
                ];
                columns.extend(row.wanted.columns());
                columns
            })
            .collect();
        let given = Arrays::of(&given);
        // The rows are locked in one order, so that sets cannot deadlock. The conditions hold for
        // the locked row, even if another set has changed it meanwhile.
        let updated = tx.query(
            &format!(
                "with locked as materialized (
                   select d.key, g.place, {} from {}
                   join apps a on a.no = g.app_no and a.status <> 'erasing'
                   join devices d on d.app_no = g.app_no and d.device_id = g.device_id
                   where (d.key >> 40 & 7) = g.platform and d.address is not distinct from g.address
                   and d.push_disabled = g.push_disabled and {} and ({})
                   order by d.key, g.place for no key update of d)
                 update devices d set {} from locked l where d.key = l.key
                 returning l.place, d.key",
                names_of("g", &texts),
                given.table(),
                compared(&states, "is not distinct from").join(" and "),
                compared(&texts, "is distinct from").join(" or "),
                replacements("l", &texts)
            ),
            &given.parameters(),
        )?;
        let mut browsers = BTreeMap::new();
        let mut written = BTreeMap::new();
        for row in &updated {
            let place = place_of(row.get(0));
            let key = DeviceKey(row.get(1));
            self.done(tx, place, key);
            add_browser(&mut browsers, key, self.rows[place].at);
            written.insert(key, self.rows[place]);
        }
        write_fields(tx, &written)?;
        restart_retention(tx, &browsers)
    }

    /// Reads the devices of the open registrations, and finds out what these registrations change.
    fn read(&mut self, tx: &SetTx<'_>) -> Result<(), StoreError> {
        static READ: LazyLock<String> = LazyLock::new(|| {
            format!(
                "select {DEVICE_COLUMNS}, {REGISTERED}, g.place
                 from unnest($1::bigint[], $2::bigint[], $3::text[]) g (place, app_no, id)
                 join ({DEVICES}) on d.app_no = g.app_no and d.device_id = g.id
                 where not exists (select from moves)"
            )
        });
        let Columns { places, rows } = self.with(Status::Open);
        let found = tx.read(
            &READ,
            &[
                &places,
                column!(rows, row => row.app.0),
                column!(rows, row => row.wanted.device_id.as_str()),
            ],
        )?;
        for place in places {
            self.statuses[place_of(place)] = Status::Missing;
        }
        for row in &found {
            let device = DeviceRow::read(&Row::Postgres(row))?;
            let place = place_of(row.get(12));
            let wanted = self.rows[place];
            if !is_unchanged(&device, &wanted.wanted) {
                self.statuses[place] = Status::Different;
                continue;
            }
            self.statuses[place] = Status::Done;
            if is_time_due(&device, wanted.at) {
                let newest = self.times.entry(device.key).or_insert(wanted.at);
                *newest = wanted.at.max(*newest);
            }
        }
        Ok(())
    }

    /// Inserts new devices. A device whose id or address another device got meanwhile, or has, is
    /// not inserted.
    fn insert_new(&mut self, tx: &mut SetTx<'_>) -> Result<(), StoreError> {
        let Columns { places, rows } = self.with(Status::Missing);
        if rows.is_empty() {
            return Ok(());
        }
        self.has_written = true;
        let mut last_sequences = draw_sequences(tx, &rows)?;
        let mut new = Vec::with_capacity(rows.len());
        for (place, row) in places.into_iter().zip(rows) {
            // Without a sequence, the application is gone, or has none left.
            if let Some(sequence) = last_sequences.get_mut(&row.app) {
                *sequence += 1;
                let key = DeviceKey::new(row.app, row.wanted.platform, *sequence);
                new.push(NewDevice { place: place_of(place), key, row });
            }
        }
        let given: Vec<_> = new
            .iter()
            .map(|NewDevice { key, row, .. }| {
                let mut columns = vec![
                    ("key", key.0.into()),
                    ("app_no", row.app.0.into()),
                    ("created_at", row.at.as_ms().into()),
                ];
                columns.extend(row.wanted.columns());
                columns
            })
            .collect();
        let Some(first) = given.first() else { return Ok(()) };
        let arrays = Arrays::of(&given);
        let inserted = tx.query(
            &format!(
                "insert into devices ({}) select {} from {} order by g.app_no, g.device_id, g.key
                 on conflict do nothing returning key",
                names(first),
                names_of("g", first),
                arrays.table()
            ),
            &arrays.parameters(),
        )?;
        let inserted: HashSet<i64> = inserted.iter().map(|row| row.get(0)).collect();
        new.retain(|device| inserted.contains(&device.key.0));
        let (mut counts, mut zones) = (BTreeMap::new(), BTreeMap::new());
        let mut browsers = BTreeMap::new();
        write_fields(tx, &new.iter().map(|device| (device.key, device.row)).collect())?;
        for NewDevice { place, key, row } in new {
            self.done(tx, place, key);
            add_browser(&mut browsers, key, row.at);
            let (app, platform) = (row.app.0, platform_code(key.platform()));
            let fields = &row.wanted.fields;
            let counter = (app, hour_of(row.at), platform, i64::from(!fields.push_disabled));
            *counts.entry(counter).or_insert(0_i64) += 1;
            *zones.entry((app, platform, i64::from(fields.utc_offset_minutes))).or_insert(0_i64) +=
                1;
        }
        mark_unverified(tx, &browsers)?;
        add_counts(tx, &counts, &zones)
    }

    /// Writes the times of unchanged registrations that are due.
    fn write_times(&mut self, tx: &SetTx<'_>) -> Result<(), StoreError> {
        if self.times.is_empty() {
            return Ok(());
        }
        self.has_written = true;
        let (keys, at) = columns_of(&self.times);
        // The rows are locked in one order, so that sets cannot deadlock.
        tx.query(
            "with locked as materialized (
               select f.key, g.at from unnest($1::bigint[], $2::bigint[]) g (key, at)
               join device_fields f on f.key = g.key order by f.key for no key update of f)
             update device_fields f set registered_at = greatest(f.registered_at, l.at)
             from locked l where f.key = l.key",
            &[&keys, &at],
        )?;
        let mut renewed = self.times.clone();
        renewed.retain(|key, _| may_be_anonymous(key.platform()));
        restart_retention(tx, &renewed)
    }

    /// The result of each registration.
    fn answers(&self) -> Vec<Option<Idempotent<DeviceRegistered>>> {
        let rows = self.rows.iter().zip(&self.statuses);
        let answers = rows.map(|(row, status)| {
            let is_done = *status == Status::Done;
            is_done.then(|| Idempotent::Executed(row.wanted.registered()))
        });
        answers.collect()
    }
}

/// Comparisons of the columns of a device `d` with those that are given: `d.auth is distinct from g.auth`.
fn compared(columns: &[Column<'_>], operator: &str) -> Vec<String> {
    columns.iter().map(|(name, _)| format!("d.{name} {operator} g.{name}")).collect()
}

/// Draws a block of device sequences for each application, for as many devices as it has in `rows`.
/// Returns the sequence before each block. Applications that are gone, or have no sequence left,
/// are left out. The rows of the applications stay locked, so the devices of an application are
/// committed in the order of their sequences, and `audience_until` covers every committed device.
fn draw_sequences(
    tx: &SetTx<'_>,
    rows: &[&RegisterDevice],
) -> Result<HashMap<AppNo, i64>, StoreError> {
    let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.app.0).or_default() += 1;
    }
    let (apps, numbers): (Vec<i64>, Vec<i64>) = counts.into_iter().unzip();
    let drawn = tx.query(
        "with locked as materialized (
           select a.no, g.count from unnest($1::bigint[], $2::bigint[]) g (app_no, count)
           join apps a on a.no = g.app_no
           where a.status <> 'erasing' and a.device_sequence + g.count <= $3::bigint
           order by a.no for no key update of a)
         update apps a set device_sequence = a.device_sequence + l.count
         from locked l where a.no = l.no returning a.no, a.device_sequence - l.count",
        &[&apps, &numbers, &SEQUENCE_MAX],
    )?;
    Ok(drawn.iter().map(|row| (AppNo(row.get(0)), row.get(1))).collect())
}

/// Adds a device to the browsers, if it is one.
fn add_browser(browsers: &mut BTreeMap<DeviceKey, Timestamp>, key: DeviceKey, at: Timestamp) {
    if key.platform() == Platform::Web {
        let newest = browsers.entry(key).or_insert(at);
        *newest = at.max(*newest);
    }
}

/// Times by device as parameters.
fn columns_of(times: &BTreeMap<DeviceKey, Timestamp>) -> (Vec<i64>, Vec<i64>) {
    times.iter().map(|(key, at)| (key.0, at.as_ms())).unzip()
}

/// Writes the fields that conditions compare, of devices that were just written.
fn write_fields(
    tx: &SetTx<'_>,
    written: &BTreeMap<DeviceKey, &RegisterDevice>,
) -> Result<(), StoreError> {
    let given: Vec<_> = written
        .iter()
        .map(|(key, row)| {
            let mut columns = vec![
                ("key", key.0.into()),
                ("created_at", row.at.as_ms().into()),
                ("registered_at", row.at.as_ms().into()),
            ];
            columns.extend(row.wanted.condition_fields.columns());
            columns
        })
        .collect();
    let Some(((_, first), columns)) = written.first_key_value().zip(given.first()) else {
        return Ok(());
    };
    let arrays = Arrays::of(&given);
    tx.query(
        &format!(
            "insert into device_fields ({}) select {} from {} order by g.key
             on conflict (key) do update set {},
               registered_at = greatest(device_fields.registered_at, excluded.registered_at)",
            names(columns),
            names_of("g", columns),
            arrays.table(),
            replacements("excluded", &first.wanted.condition_fields.columns())
        ),
        &arrays.parameters(),
    )?;
    Ok(())
}

/// Restarts the retention periods of devices that registered again.
fn restart_retention(
    tx: &SetTx<'_>,
    devices: &BTreeMap<DeviceKey, Timestamp>,
) -> Result<(), StoreError> {
    if devices.is_empty() {
        return Ok(());
    }
    let (keys, times) = columns_of(devices);
    tx.query(
        "with locked as materialized (
           select u.device_key, g.at from unnest($1::bigint[], $2::bigint[]) g (key, at)
           join unverified_addresses u on u.device_key = g.key and u.since < g.at
           order by u.device_key for no key update of u)
         update unverified_addresses u set since = l.at from locked l
         where u.device_key = l.device_key and u.since < l.at",
        &[&keys, &times],
    )?;
    Ok(())
}

/// Records that new browsers have not received a message yet. A new browser has no secret yet, so
/// it is not anonymous.
fn mark_unverified(
    tx: &SetTx<'_>,
    browsers: &BTreeMap<DeviceKey, Timestamp>,
) -> Result<(), StoreError> {
    if browsers.is_empty() {
        return Ok(());
    }
    let (keys, times) = columns_of(browsers);
    tx.query(
        "insert into unverified_addresses (device_key, since, is_anonymous)
         select key, at, 0 from unnest($1::bigint[], $2::bigint[]) g (key, at) order by key
         on conflict (device_key) do update set since = excluded.since",
        &[&keys, &times],
    )?;
    Ok(())
}

/// Adds new devices to the counters of their hour, platform and state, and of their platform and
/// offset from UTC.
fn add_counts(
    tx: &SetTx<'_>,
    counts: &BTreeMap<(i64, i64, i64, i64), i64>,
    zones: &BTreeMap<(i64, i64, i64), i64>,
) -> Result<(), StoreError> {
    tx.query(
        "insert into device_counts as c (app_no, hour, platform, enabled, count)
         select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
         on conflict (app_no, hour, platform, enabled) do update set count = c.count + excluded.count",
        &[
            column!(counts, entry => entry.0.0),
            column!(counts, entry => entry.0.1),
            column!(counts, entry => entry.0.2),
            column!(counts, entry => entry.0.3),
            column!(counts, entry => *entry.1),
        ],
    )?;
    tx.query(
        "insert into device_zones as z (app_no, platform, utc_offset_minutes, devices)
         select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
         on conflict (app_no, platform, utc_offset_minutes) do update
         set devices = z.devices + excluded.devices",
        &[
            column!(zones, entry => entry.0.0),
            column!(zones, entry => entry.0.1),
            column!(zones, entry => entry.0.2),
            column!(zones, entry => *entry.1),
        ],
    )?;
    Ok(())
}
