//! Which devices the database leaves out of a scan, because of their fields.

use std::collections::BTreeSet;

use notify_core::{Condition, FieldTest, Node, RangeTest, TimeTest, Timestamp, ValueTest};

use super::matching::{FieldRow, Keys};
use crate::store::StoreError;
use crate::store::sql::{self, Connection, list_of, params};

/// The most values of a field that a filter leaves out.
const VALUES_MAX: usize = 256;

/// A filter in SQL that keeps every device that meets a condition, and leaves out most others.
///
/// It uses the tests of fields that each matching device meets. The database compares times and
/// numbers. It cannot compare versions or languages, so the filter learns which texts failed a test, and
/// leaves out the devices that have one of them.
#[derive(Default)]
pub(super) struct FieldFilter<'c> {
    at: Timestamp,
    country: TextFilter<'c>,
    language: TextFilter<'c>,
    app_version: TextFilter<'c>,
    os_version: TextFilter<'c>,
    timezone: Range,
    created_at: Range,
    last_active_at: Range,
    has_user: Option<bool>,
}

/// The tests of a text field.
#[derive(Default)]
struct TextFilter<'c> {
    /// A device without the field fails each of them.
    tests: Vec<&'c FieldTest>,
    /// The texts that failed a test; `None` if no device failed one yet.
    failed: Option<BTreeSet<String>>,
}

/// The bounds of a number. A device without the field is in no range.
#[derive(Default)]
struct Range {
    at_least: Option<i64>,
    below: Option<i64>,
}

impl<'c> FieldFilter<'c> {
    /// `at` is the instant for which the condition is evaluated.
    pub(super) fn new(condition: &'c Condition, at: Timestamp) -> Self {
        let mut filter = Self { at, ..Self::default() };
        filter.add(condition.root());
        filter
    }

    fn add(&mut self, node: &'c Node) {
        match node {
            Node::All(nodes) => nodes.iter().for_each(|node| self.add(node)),
            Node::Field(test) => self.add_test(test),
            Node::Any(_) | Node::Not(_) | Node::Tag(_) | Node::Attribute { .. } => {}
        }
    }

    fn add_test(&mut self, test: &'c FieldTest) {
        match test {
            // The filter has no form for these; and all keys of a range are of one platform.
            FieldTest::Platform(_)
            | FieldTest::Country(ValueTest::Exists(false))
            | FieldTest::Language(ValueTest::Exists(false))
            | FieldTest::AppVersion(RangeTest::Exists(false))
            | FieldTest::OsVersion(RangeTest::Exists(false))
            | FieldTest::Timezone(RangeTest::Exists(false)) => {}
            FieldTest::Country(_) => self.country.tests.push(test),
            FieldTest::Language(_) => self.language.tests.push(test),
            FieldTest::AppVersion(_) => self.app_version.tests.push(test),
            FieldTest::OsVersion(_) => self.os_version.tests.push(test),
            FieldTest::Timezone(RangeTest::Exists(true)) => self.timezone.at_least(i64::MIN),
            FieldTest::Timezone(RangeTest::AtLeast(bound)) => {
                self.timezone.at_least(i64::from(*bound));
            }
            FieldTest::Timezone(RangeTest::Below(bound)) => self.timezone.below(i64::from(*bound)),
            FieldTest::Timezone(RangeTest::OneOf(offsets)) => {
                if let (Some(least), Some(most)) = (offsets.iter().min(), offsets.iter().max()) {
                    self.timezone.at_least(i64::from(*least));
                    self.timezone.below(i64::from(*most) + 1);
                }
            }
            FieldTest::CreatedAt(test) => self.created_at.add(*test, self.at),
            FieldTest::LastActiveAt(test) => self.last_active_at.add(*test, self.at),
            FieldTest::User(exists) => self.has_user = Some(*exists),
        }
    }

    /// Whether it leaves out more devices after it has seen some that fail.
    pub(super) fn can_learn(&self) -> bool {
        self.texts().iter().any(|text| !text.tests.is_empty())
    }

    /// Whether it leaves out no device.
    pub(super) fn is_empty(&self) -> bool {
        self.texts().iter().all(|text| text.failed.is_none())
            && [&self.timezone, &self.created_at, &self.last_active_at]
                .iter()
                .all(|range| range.at_least.is_none() && range.below.is_none())
            && self.has_user.is_none()
    }

    fn texts(&self) -> [&TextFilter<'c>; 4] {
        [&self.country, &self.language, &self.app_version, &self.os_version]
    }

    /// Learns from a device that does not meet the condition.
    pub(super) fn learn(&mut self, row: &FieldRow) {
        let at = self.at;
        self.country.learn(row, row.country.as_deref(), at);
        self.language.learn(row, row.language.as_deref(), at);
        self.app_version.learn(row, row.app_version.as_deref(), at);
        self.os_version.learn(row, row.os_version.as_deref(), at);
    }

    /// Reads the first devices of a range that it keeps, at most `limit`. `columns` are those of
    /// [`FieldRow::read`] with their tables.
    ///
    /// The text of the statement does not depend on the condition, because PostgreSQL keeps each text
    /// prepared: a test that the condition does not have is an absent parameter.
    pub(super) fn read(
        &self,
        connection: &Connection,
        columns: &str,
        keys: Keys,
        limit: usize,
    ) -> Result<Vec<FieldRow>, StoreError> {
        let [country, language, app_version, os_version] = self.texts().map(TextFilter::list);
        let texts = |parameter| format!("(select value from json_each(json(?{parameter})))");
        let sql = format!(
            "select {columns} where f.key > ?1 and f.key <= ?2
             and (?4 is null or (f.country is not null and f.country not in {}))
             and (?5 is null or (f.language is not null and f.language not in {}))
             and (?6 is null or (f.app_version is not null and f.app_version not in {}))
             and (?7 is null or (f.os_version is not null and f.os_version not in {}))
             and (?8 is null or f.timezone >= ?8) and (?9 is null or f.timezone < ?9)
             and (?10 is null or f.created_at >= ?10) and (?11 is null or f.created_at < ?11)
             and (?12 is null or f.registered_at >= ?12)
             and (?13 is null or f.registered_at < ?13)
             and (?14 is null or (f.user_no is not null) = (?14 = 1))
             order by f.key limit ?3",
            texts(4),
            texts(5),
            texts(6),
            texts(7),
        );
        let limit = limit as i64;
        let params = params![
            keys.after,
            keys.to,
            limit,
            country,
            language,
            app_version,
            os_version,
            self.timezone.at_least,
            self.timezone.below,
            self.created_at.at_least,
            self.created_at.below,
            self.last_active_at.at_least,
            self.last_active_at.below,
            self.has_user,
        ];
        let rows = connection
            .prepare_cached(&sql)?
            .query_map(params, FieldRow::read)?
            .collect::<sql::Result<Vec<_>>>()?;
        Ok(rows)
    }
}

impl TextFilter<'_> {
    fn learn(&mut self, row: &FieldRow, text: Option<&str>, at: Timestamp) {
        let failed = self.failed.as_ref();
        let is_known = failed.is_some_and(|failed| text.is_none_or(|text| failed.contains(text)));
        let is_full = failed.is_some_and(|failed| failed.len() >= VALUES_MAX);
        if is_known || is_full {
            return;
        }
        let subject = row.subject(&[], &[]);
        if self.tests.iter().any(|test| !test.matches(&subject, at)) {
            self.failed.get_or_insert_default().extend(text.map(str::to_owned));
        }
    }

    /// The texts that failed, as a JSON array.
    fn list(&self) -> Option<String> {
        let failed = self.failed.as_ref()?;
        Some(list_of(&failed.iter().collect::<Vec<_>>()))
    }
}

impl Range {
    fn at_least(&mut self, bound: i64) {
        self.at_least = self.at_least.max(Some(bound));
    }

    fn below(&mut self, bound: i64) {
        self.below = Some(self.below.map_or(bound, |below| below.min(bound)));
    }

    fn add(&mut self, test: TimeTest, now: Timestamp) {
        if let Some(bound) = test.at_least(now) {
            self.at_least(bound.0);
        }
        if let TimeTest::Below(bound) = test {
            self.below(bound.0);
        }
    }
}
