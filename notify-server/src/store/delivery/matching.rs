//! Which devices meet the condition of an audience.
//!
//! A *cover* decides which devices are looked at: all devices of a platform, or those in a few
//! posting lists, such as the devices of a tag. Every device that meets the condition is in its
//! cover. The condition alone decides who matches ([`Condition::matches`]), so a bad cover costs time
//! and nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use notify_core::{
    AttributeTest, AttributeValue, Condition, Field, Node, RangeTest, Subject, Timestamp,
};

use super::field_filter::FieldFilter;
use crate::store::device::{attributes, tags};
use crate::store::sql::{self, Connection, NUMBERS, OptionalExtension, Row, list_of, params};
use crate::store::{AppNo, DeviceKey, StoreError};

/// The most devices that one batch looks at.
pub(in crate::store) const KEYS_PER_BATCH_MAX: usize = 20_000;
/// The most devices that one batch looks at, times the lists that are read for each. A condition with
/// many tags has smaller batches, so that each takes a few tens of milliseconds.
const READS_PER_BATCH_MAX: usize = 120_000;
/// The number of lists of tags that cost as much as the attributes of a device.
const READS_OF_ATTRIBUTES: usize = 8;
/// The fewest devices that one batch looks at.
const KEYS_PER_BATCH_MIN: usize = 500;
/// The most devices that one slice of a batch reads. A slice is read with a few statements.
const KEYS_PER_SLICE_MAX: usize = 4_000;
/// The most devices that the first slice reads if later ones can leave out what failed in it.
const KEYS_PER_FIRST_SLICE_MAX: usize = 500;
/// The most posting lists of a cover. A condition with more of them is covered by the platform.
const POSTINGS_MAX: usize = 100;
/// The most devices of posting lists that are counted, to compare covers. They are divided among the
/// covers.
const DEVICES_COUNTED_MAX: i64 = 20_000;
/// The most devices of a posting list that are counted if there are many covers.
const DEVICES_COUNTED_MIN: i64 = 1_000;
/// Devices are read as a range of keys if at most this many keys lie in the range for each device.
/// Otherwise each is looked up.
const KEYS_PER_DEVICE_IN_RANGE_MAX: i64 = 4;

/// The condition of an audience, and the instant from which `within_days` counts.
#[derive(Debug, Clone)]
pub(in crate::store) struct Matching {
    pub(in crate::store) condition: Arc<Condition>,
    /// A tag that devices must have in addition.
    pub(in crate::store) tag: Option<String>,
    /// The instant for which the condition is evaluated.
    pub(in crate::store) at: Timestamp,
}

/// A range of device keys, `(after, to]`, all of one platform.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Keys {
    pub(in crate::store) after: i64,
    pub(in crate::store) to: i64,
}

/// The devices of a part of a range that meet a condition.
#[derive(Debug, Default)]
pub(in crate::store) struct Matched {
    /// Their keys, sorted.
    pub(in crate::store) keys: Vec<i64>,
    /// The last key that was looked at; the end of the range if nothing is left.
    pub(in crate::store) to: i64,
    /// The number of devices that were looked at.
    pub(in crate::store) looked_at: usize,
}

/// A list of devices in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Posting {
    /// The devices that have a tag set to true.
    Tag(i64),
    /// The devices that have a value of an attribute.
    Value { attribute: i64, value: String },
}

/// The lists that together contain every device that meets a condition; `None` if these are all
/// devices of the platform.
pub(in crate::store) type Cover = Option<Vec<Posting>>;

/// A condition whose tags and attributes are resolved to numbers.
pub(in crate::store) struct Matcher<'c> {
    connection: &'c Connection,
    matching: &'c Matching,
    /// The number of each tag of the condition, and of the additional tag at the end. `None` if no
    /// device has the tag.
    tags: Vec<Option<i64>>,
    /// The number of each attribute of the condition; `None` if nothing ever had it.
    attributes: Vec<Option<i64>>,
}

/// The fields of a device. Texts that the condition does not test are absent.
pub(super) struct FieldRow {
    key: i64,
    has_user: bool,
    timezone: Option<i32>,
    created_at: Timestamp,
    last_active_at: Timestamp,
    pub(super) country: Option<String>,
    pub(super) language: Option<String>,
    pub(super) app_version: Option<String>,
    pub(super) os_version: Option<String>,
}

/// A part of a range of keys in which devices were looked at.
struct Slice {
    /// The devices that can match.
    rows: Vec<FieldRow>,
    /// The last key that was looked at.
    to: i64,
    /// The number of devices that were looked at.
    looked_at: usize,
}

/// The tags and attributes of some devices, by key.
struct Facts {
    /// For each tag of the matcher, the devices that have it set to true, sorted.
    tags: Vec<Vec<i64>>,
    attributes: HashMap<i64, Vec<Option<AttributeValue>>>,
}

impl<'c> Matcher<'c> {
    pub(in crate::store) fn new(
        connection: &'c Connection,
        app: AppNo,
        matching: &'c Matching,
    ) -> Result<Self, StoreError> {
        let condition = &matching.condition;
        let names: Vec<&str> =
            condition.tags().iter().chain(&matching.tag).map(String::as_str).collect();
        let known = tags::numbers_of(connection, app, &names)?;
        let tags = names.iter().map(|name| known.get(*name).copied()).collect();
        let numbers = attributes::numbers_of(connection, app, condition.attributes())?;
        let attributes =
            condition.attributes().iter().map(|name| numbers.get(name).copied()).collect();
        Ok(Self { connection, matching, tags, attributes })
    }

    /// The most devices that one batch looks at: [`KEYS_PER_BATCH_MAX`], or fewer if the condition reads
    /// many lists.
    pub(in crate::store) fn keys_per_batch(&self) -> usize {
        let of_attributes = if self.attributes.is_empty() { 0 } else { READS_OF_ATTRIBUTES };
        let reads = 1 + self.tags.len() + of_attributes;
        (READS_PER_BATCH_MAX / reads).clamp(KEYS_PER_BATCH_MIN, KEYS_PER_BATCH_MAX)
    }

    /// Finds the devices of a range that meet the condition, from its beginning: at most `wanted`,
    /// and at most [`Matcher::keys_per_batch`] are looked at.
    pub(in crate::store) fn next_matches(
        &self,
        keys: Keys,
        wanted: usize,
    ) -> Result<Matched, StoreError> {
        self.next_matches_in(&self.cover(keys)?, keys, wanted)
    }

    /// As [`Matcher::next_matches`], with a cover that was chosen before.
    pub(in crate::store) fn next_matches_in(
        &self,
        cover: &Cover,
        keys: Keys,
        wanted: usize,
    ) -> Result<Matched, StoreError> {
        let looked_at_max = self.keys_per_batch();
        let slice_max = KEYS_PER_SLICE_MAX.min(looked_at_max);
        let mut matched = Matched { to: keys.after, ..Matched::default() };
        let mut filter = FieldFilter::new(&self.matching.condition, self.matching.at);
        let mut limit = wanted.clamp(1, slice_max);
        if cover.is_none() && filter.can_learn() {
            limit = limit.min(KEYS_PER_FIRST_SLICE_MAX);
        }
        loop {
            let rest = Keys { after: matched.to, to: keys.to };
            let slice = match cover.as_deref() {
                Some(postings) => self.slice_of_cover(postings, rest, limit)?,
                None if filter.is_empty() => self.slice_of_range(rest, limit)?,
                None => self.filtered_slice(&filter, rest, limit)?,
            };
            let found = self.filter(&slice.rows)?;
            for row in &slice.rows {
                if found.binary_search(&row.key).is_err() {
                    filter.learn(row);
                }
            }
            let most_match = 2 * found.len() >= slice.rows.len();
            matched.looked_at += slice.looked_at;
            matched.to = slice.to;
            matched.keys.extend(found);
            if matched.keys.len() > wanted {
                // The devices after the last wanted one are looked at again by the next call.
                matched.keys.truncate(wanted);
                matched.to = matched.keys.last().copied().unwrap_or(matched.to);
            }
            let is_done = matched.to >= keys.to
                || matched.keys.len() >= wanted
                || matched.looked_at >= looked_at_max;
            if is_done {
                return Ok(matched);
            }
            let next = if most_match { wanted - matched.keys.len() } else { 2 * limit };
            limit = next.min(slice_max);
        }
    }

    /// Finds those of the first devices of a range that meet the condition. Looks at `devices` devices of
    /// the platform, whatever the cover is.
    pub(in crate::store) fn sample(
        &self,
        keys: Keys,
        devices: usize,
    ) -> Result<Matched, StoreError> {
        let rows = self.rows_in_range(keys, devices)?;
        Ok(Matched { keys: self.filter(&rows)?, to: keys.to, looked_at: rows.len() })
    }

    /// Returns those of the devices that meet the condition. `keys` are sorted.
    pub(in crate::store) fn which_match(&self, keys: &[i64]) -> Result<Vec<i64>, StoreError> {
        self.filter(&self.rows_of(keys)?)
    }

    /// The first condition that a device does not meet, as an expression; `None` if it meets all.
    pub(in crate::store) fn first_unmet(
        &self,
        key: DeviceKey,
    ) -> Result<Option<String>, StoreError> {
        let rows = self.rows_of(&[key.0])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let facts = self.facts(&rows)?;
        let (tags, values) = self.values_of(&facts, row.key);
        let subject = row.subject(&tags, &values);
        Ok(self.matching.condition.first_unmet(&subject, self.matching.at))
    }

    /// Keeps the devices that meet the condition.
    fn filter(&self, rows: &[FieldRow]) -> Result<Vec<i64>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let facts = self.facts(rows)?;
        let mut matches = Vec::new();
        for row in rows {
            let (tags, values) = self.values_of(&facts, row.key);
            let has_tag = self.matching.tag.is_none() || tags.last() == Some(&true);
            let subject = row.subject(&tags, &values);
            if has_tag && self.matching.condition.matches(&subject, self.matching.at) {
                matches.push(row.key);
            }
        }
        Ok(matches)
    }

    /// The tags and attributes of a device.
    fn values_of(&self, facts: &Facts, key: i64) -> (Vec<bool>, Vec<Option<AttributeValue>>) {
        let tags = facts.tags.iter().map(|devices| devices.binary_search(&key).is_ok()).collect();
        let values = facts.attributes.get(&key).cloned();
        (tags, values.unwrap_or_else(|| vec![None; self.attributes.len()]))
    }

    /// Reads the tags and attributes of devices that the condition names. `rows` are sorted.
    fn facts(&self, rows: &[FieldRow]) -> Result<Facts, StoreError> {
        let keys: Vec<i64> = rows.iter().map(|row| row.key).collect();
        let mut tags = Vec::with_capacity(self.tags.len());
        for tag in &self.tags {
            tags.push(match tag {
                Some(no) => self.devices_with_tag(*no, &keys)?,
                None => Vec::new(),
            });
        }
        let mut attributes = HashMap::new();
        let numbers: Vec<i64> = self.attributes.iter().flatten().copied().collect();
        if !numbers.is_empty() {
            self.add_attributes(&keys, &mut attributes)?;
        }
        Ok(Facts { tags, attributes })
    }

    /// Reads those of the devices that have a tag set to true, in order.
    fn devices_with_tag(&self, tag: i64, keys: &[i64]) -> Result<Vec<i64>, StoreError> {
        let read = |row: &Row<'_>| row.get::<i64>(0);
        let devices = match range_of(keys) {
            Some([first, last]) => self
                .connection
                .prepare_cached(
                    "select device_key from device_tags where tag_no = ?1 and device_key >= ?2
                     and device_key <= ?3 and value = 1 order by device_key",
                )?
                .query_map([tag, first, last], read)?
                .collect::<sql::Result<Vec<_>>>()?,
            None => self
                .connection
                .prepare_cached(&format!(
                    "select device_key from device_tags where device_key in {NUMBERS}
                     and tag_no = ?2 and value = 1 order by device_key"
                ))?
                .query_map(params![list_of(keys), tag], read)?
                .collect::<sql::Result<Vec<_>>>()?,
        };
        Ok(devices)
    }

    /// Reads the attributes of devices that the condition names.
    fn add_attributes(
        &self,
        keys: &[i64],
        attributes: &mut HashMap<i64, Vec<Option<AttributeValue>>>,
    ) -> Result<(), StoreError> {
        for (key, number, stored) in attribute_rows(self.connection, keys)? {
            let Some(place) = self.attributes.iter().position(|known| *known == Some(number))
            else {
                continue;
            };
            let values = attributes.entry(key).or_insert_with(|| vec![None; self.attributes.len()]);
            values[place] = Some(attributes::value_of(&stored)?);
        }
        Ok(())
    }
}

// Covers, and the devices that are looked at.

impl Matcher<'_> {
    /// The cover of the condition and the additional tag.
    pub(in crate::store) fn cover(&self, keys: Keys) -> Result<Cover, StoreError> {
        let of_condition = self.cover_of(self.matching.condition.root(), keys)?;
        let of_tag = self.matching.tag.as_ref().map(|_| self.posting_of_tag(self.tags.len() - 1));
        self.cheapest(of_condition.into_iter().chain(of_tag).collect(), keys)
    }

    fn cover_of(&self, node: &Node, keys: Keys) -> Result<Cover, StoreError> {
        match node {
            Node::All(nodes) => {
                let mut covers = Vec::new();
                for node in nodes {
                    covers.extend(self.cover_of(node, keys)?);
                }
                self.cheapest(covers, keys)
            }
            Node::Any(nodes) => {
                let mut union = Vec::new();
                for node in nodes {
                    let Some(postings) = self.cover_of(node, keys)? else { return Ok(None) };
                    union.extend(postings);
                }
                Ok((union.len() <= POSTINGS_MAX).then_some(union))
            }
            Node::Tag(tag) => Ok(Some(self.posting_of_tag(*tag))),
            Node::Attribute { attribute, test } => Ok(self.postings_of_values(*attribute, test)),
            Node::Not(_) | Node::Field(_) => Ok(None),
        }
    }

    /// The list of a tag; no list if no device has the tag.
    fn posting_of_tag(&self, tag: usize) -> Vec<Posting> {
        self.tags.get(tag).copied().flatten().map(Posting::Tag).into_iter().collect()
    }

    /// The lists of the values of an attribute; `None` if the test has no list of values.
    fn postings_of_values(&self, attribute: usize, test: &AttributeTest) -> Cover {
        let RangeTest::OneOf(values) = test else { return None };
        let Some(attribute) = self.attributes.get(attribute).copied().flatten() else {
            return Some(Vec::new());
        };
        let posting =
            |value: &AttributeValue| Posting::Value { attribute, value: value.to_stored() };
        (values.len() <= POSTINGS_MAX).then(|| values.iter().map(posting).collect())
    }

    /// The cover with the fewest devices in the range.
    fn cheapest(&self, mut covers: Vec<Vec<Posting>>, keys: Keys) -> Result<Cover, StoreError> {
        if covers.len() <= 1 {
            return Ok(covers.pop());
        }
        let counted_max = (DEVICES_COUNTED_MAX / covers.len() as i64).max(DEVICES_COUNTED_MIN);
        let mut best: Option<(i64, Vec<Posting>)> = None;
        for postings in covers {
            // A cover that has as many devices as the best one is not better.
            let most = best.as_ref().map_or(counted_max, |(fewest, _)| *fewest);
            let mut devices = 0;
            for posting in &postings {
                devices += self.count(posting, keys, counted_max.min(most - devices))?;
                if devices >= most {
                    break;
                }
            }
            if best.as_ref().is_none_or(|(fewest, _)| devices < *fewest) {
                best = Some((devices, postings));
            }
        }
        Ok(best.map(|(_, postings)| postings))
    }

    /// Counts the devices of a list in a range, up to `most`.
    fn count(&self, posting: &Posting, keys: Keys, most: i64) -> Result<i64, StoreError> {
        let read = |row: &Row<'_>| row.get::<i64>(0);
        let count = match posting {
            Posting::Tag(no) => self
                .connection
                .prepare_cached(
                    "select count(*) from (select 1 from device_tags
                     where tag_no = ?1 and device_key > ?2 and device_key <= ?3 limit ?4) found",
                )?
                .query_row([*no, keys.after, keys.to, most], read)?,
            Posting::Value { attribute, value } => self
                .connection
                .prepare_cached(
                    "select count(*) from (select 1 from device_attributes
                     where attribute = ?1 and value = ?5
                     and device_key > ?2 and device_key <= ?3 limit ?4) found",
                )?
                .query_row(params![*attribute, keys.after, keys.to, most, value], read)?,
        };
        Ok(count)
    }

    /// Reads the next devices of the platform, at most `limit`.
    fn slice_of_range(&self, keys: Keys, limit: usize) -> Result<Slice, StoreError> {
        let rows = self.rows_in_range(keys, limit)?;
        let is_full = rows.len() >= limit;
        let to = rows.last().filter(|_| is_full).map_or(keys.to, |row| row.key);
        Ok(Slice { to, looked_at: rows.len(), rows })
    }

    /// Reads the next devices of a cover, at most `limit`.
    fn slice_of_cover(
        &self,
        postings: &[Posting],
        keys: Keys,
        limit: usize,
    ) -> Result<Slice, StoreError> {
        let (devices, to) = self.next_keys(postings, keys, limit)?;
        let rows = self.rows_of(&devices)?;
        Ok(Slice { to, looked_at: rows.len(), rows })
    }

    /// Looks at the next devices of the platform, at most [`KEYS_PER_BATCH_MAX`], and reads those that the
    /// filter keeps, at most `limit`.
    fn filtered_slice(
        &self,
        filter: &FieldFilter<'_>,
        keys: Keys,
        limit: usize,
    ) -> Result<Slice, StoreError> {
        let end = self
            .connection
            .prepare_cached(
                "select key from device_fields where key > ?1 and key <= ?2
                 order by key limit 1 offset ?3",
            )?
            .query_row([keys.after, keys.to, KEYS_PER_BATCH_MAX as i64 - 1], |row| row.get(0))
            .optional()?
            .unwrap_or(keys.to);
        let range = Keys { after: keys.after, to: end };
        let rows = filter.read(self.connection, &self.columns(), range, limit)?;
        match rows.last() {
            Some(last) if rows.len() >= limit => {
                let to = last.key;
                let looked_at = self
                    .connection
                    .prepare_cached(
                        "select count(*) from device_fields where key > ?1 and key <= ?2",
                    )?
                    .query_row([keys.after, to], |row| row.get::<i64>(0))?;
                Ok(Slice { rows, to, looked_at: looked_at as usize })
            }
            // At the end of the range there can be fewer, which makes no difference: nothing follows.
            Some(_) | None => Ok(Slice { rows, to: end, looked_at: KEYS_PER_BATCH_MAX }),
        }
    }

    /// The next devices in any of the lists, in order, at most `limit`; and the last key that was
    /// looked at.
    fn next_keys(
        &self,
        postings: &[Posting],
        keys: Keys,
        limit: usize,
    ) -> Result<(Vec<i64>, i64), StoreError> {
        let (mut devices, mut to) = (Vec::new(), keys.to);
        for posting in postings {
            let listed = self.devices_of(posting, keys, limit)?;
            if listed.len() >= limit {
                to = to.min(listed.last().copied().unwrap_or(to));
            }
            devices.extend(listed);
        }
        devices.sort_unstable();
        devices.dedup();
        // After the end of a list that was cut, further devices are unknown.
        devices.truncate(devices.partition_point(|key| *key <= to));
        if devices.len() > limit {
            devices.truncate(limit);
            to = devices.last().copied().unwrap_or(to);
        }
        Ok((devices, to))
    }

    fn devices_of(
        &self,
        posting: &Posting,
        keys: Keys,
        limit: usize,
    ) -> Result<Vec<i64>, StoreError> {
        let read = |row: &Row<'_>| row.get::<i64>(0);
        let limit = limit as i64;
        let devices = match posting {
            Posting::Tag(no) => self
                .connection
                .prepare_cached(
                    "select device_key from device_tags where tag_no = ?1
                     and device_key > ?2 and device_key <= ?3 and value = 1
                     order by device_key limit ?4",
                )?
                .query_map([*no, keys.after, keys.to, limit], read)?
                .collect::<sql::Result<Vec<_>>>()?,
            Posting::Value { attribute, value } => self
                .connection
                .prepare_cached(
                    "select device_key from device_attributes where attribute = ?1 and value = ?5
                     and device_key > ?2 and device_key <= ?3 order by device_key limit ?4",
                )?
                .query_map(params![*attribute, keys.after, keys.to, limit, value], read)?
                .collect::<sql::Result<Vec<_>>>()?,
        };
        Ok(devices)
    }

    /// The columns that [`FieldRow::read`] reads, and their tables. Texts are most of the cost of a scan,
    /// so only those that the condition tests are read.
    fn columns(&self) -> String {
        let condition = &self.matching.condition;
        let column = |field, name| if condition.uses(field) { name } else { "null" };
        format!(
            "f.key, f.user_no is not null, f.timezone, f.created_at, f.registered_at, {}, {}, {}, {}
             from device_fields f",
            column(Field::Country, "f.country"),
            column(Field::Language, "f.language"),
            column(Field::AppVersion, "f.app_version"),
            column(Field::OsVersion, "f.os_version"),
        )
    }

    /// Reads the fields of the first devices of a range.
    fn rows_in_range(&self, keys: Keys, limit: usize) -> Result<Vec<FieldRow>, StoreError> {
        let rows = self
            .connection
            .prepare_cached(&format!(
                "select {} where f.key > ?1 and f.key <= ?2 order by f.key limit ?3",
                self.columns()
            ))?
            .query_map([keys.after, keys.to, limit as i64], FieldRow::read)?
            .collect::<sql::Result<Vec<_>>>()?;
        Ok(rows)
    }

    /// Reads the fields of devices. `keys` are sorted.
    fn rows_of(&self, keys: &[i64]) -> Result<Vec<FieldRow>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        if let Some([first, last]) = range_of(keys) {
            let mut rows =
                self.rows_in_range(Keys { after: first - 1, to: last }, usize::MAX >> 1)?;
            rows.retain(|row| keys.binary_search(&row.key).is_ok());
            return Ok(rows);
        }
        let rows = self
            .connection
            .prepare_cached(&format!(
                "select {} where f.key in {NUMBERS} order by f.key",
                self.columns()
            ))?
            .query_map([list_of(keys)], FieldRow::read)?
            .collect::<sql::Result<Vec<_>>>()?;
        Ok(rows)
    }
}

/// Reads all attributes of devices: the key, the number of the attribute and the stored value. `keys` are
/// sorted.
pub(super) fn attribute_rows(
    connection: &Connection,
    keys: &[i64],
) -> Result<Vec<(i64, i64, String)>, StoreError> {
    let read = |row: &Row<'_>| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, row.get(2)?));
    let rows = match range_of(keys) {
        Some([first, last]) => connection
            .prepare_cached(
                "select device_key, attribute, value from device_attributes
                 where device_key >= ?1 and device_key <= ?2",
            )?
            .query_map([first, last], read)?
            .collect::<sql::Result<Vec<_>>>()?,
        None => connection
            .prepare_cached(&format!(
                "select device_key, attribute, value from device_attributes
                 where device_key in {NUMBERS}"
            ))?
            .query_map([list_of(keys)], read)?
            .collect::<sql::Result<Vec<_>>>()?,
    };
    Ok(rows)
}

/// The first and the last of some devices, if it is cheaper to read all devices between them than to
/// look each up. `keys` are sorted.
pub(in crate::store) fn range_of(keys: &[i64]) -> Option<[i64; 2]> {
    let (first, last) = (*keys.first()?, *keys.last()?);
    let span = last - first + 1;
    (span <= KEYS_PER_DEVICE_IN_RANGE_MAX * keys.len() as i64).then_some([first, last])
}

impl FieldRow {
    pub(super) fn read(row: &Row<'_>) -> sql::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            has_user: row.get(1)?,
            timezone: row.get(2)?,
            created_at: Timestamp(row.get(3)?),
            last_active_at: Timestamp(row.get(4)?),
            country: row.get(5)?,
            language: row.get(6)?,
            app_version: row.get(7)?,
            os_version: row.get(8)?,
        })
    }

    pub(super) fn subject<'a>(
        &'a self,
        tags: &'a [bool],
        attributes: &'a [Option<AttributeValue>],
    ) -> Subject<'a> {
        Subject {
            platform: DeviceKey(self.key).platform(),
            language: self.language.as_deref(),
            country: self.country.as_deref(),
            app_version: self.app_version.as_deref(),
            os_version: self.os_version.as_deref(),
            timezone: self.timezone,
            created_at: self.created_at,
            last_active_at: self.last_active_at,
            has_user: self.has_user,
            tags,
            attributes,
        }
    }
}
