//! Translates the statements of the store, which are written for SQLite, to PostgreSQL, and keeps
//! them prepared. The two differ only in a few words.

use std::collections::HashMap;

use tokio_postgres::Statement;
use tokio_postgres::types::Type as PgType;

use crate::store::sql::{NUMBERS, TEXTS, Type, Value, table_of};

/// How a statement is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementKind {
    /// As it is.
    Plain,
    /// As an insert that draws the key of its row from a sequence and returns the key. `$1` is the
    /// prefix of the key.
    InsertWithKey,
}

/// The statements of a connection.
#[derive(Default)]
pub(super) struct Statements {
    /// The index of each statement in `translated`, by its text for SQLite.
    indexes: HashMap<Box<str>, usize>,
    translated: Vec<Translated>,
}

/// A statement in the dialect of PostgreSQL.
struct Translated {
    sql: String,
    /// The prepared statements by the types of their parameters; usually one.
    prepared: Vec<Prepared>,
}

struct Prepared {
    parameter_types: Vec<Type>,
    kind: StatementKind,
    statement: Statement,
}

impl Statements {
    /// Returns the index of a statement. Translates and adds a new statement.
    pub(super) fn intern(&mut self, sql: &str) -> usize {
        if let Some(index) = self.indexes.get(sql) {
            return *index;
        }
        let index = self.translated.len();
        self.translated.push(Translated { sql: to_postgres_sql(sql), prepared: Vec::new() });
        self.indexes.insert(sql.into(), index);
        index
    }

    /// The prepared statement for the types of these parameters, if it is prepared already.
    pub(super) fn prepared(
        &self,
        index: usize,
        values: &[Value<'_>],
        kind: StatementKind,
    ) -> Option<Statement> {
        let matches_parameters = |prepared: &&Prepared| {
            prepared.kind == kind
                && prepared.parameter_types.iter().copied().eq(values.iter().map(Value::kind))
        };
        let prepared = self.translated[index].prepared.iter().find(matches_parameters)?;
        Some(prepared.statement.clone())
    }

    /// The text to prepare for these parameters, and the types of the parameters, so that
    /// PostgreSQL does not infer them.
    pub(super) fn to_prepare(
        &self,
        index: usize,
        values: &[Value<'_>],
        kind: StatementKind,
    ) -> (String, Vec<PgType>) {
        let sql = &self.translated[index].sql;
        let sql = match kind {
            StatementKind::Plain => sql.clone(),
            StatementKind::InsertWithKey => drawing_key(sql),
        };
        (sql, values.iter().map(|value| type_of(value.kind())).collect())
    }

    /// Stores a prepared statement.
    pub(super) fn keep(
        &mut self,
        index: usize,
        values: &[Value<'_>],
        kind: StatementKind,
        statement: Statement,
    ) {
        let parameter_types = values.iter().map(Value::kind).collect();
        self.translated[index].prepared.push(Prepared { parameter_types, kind, statement });
    }
}

/// The PostgreSQL type of a column.
pub(super) fn type_of(kind: Type) -> PgType {
    match kind {
        Type::Integer => PgType::INT8,
        Type::Text => PgType::TEXT,
        Type::Blob => PgType::BYTEA,
    }
}

/// Translates a statement. `?1` becomes `$1`, and `instr` becomes `strpos`. `max` with two
/// arguments becomes `greatest`. `json_each` becomes `json_array_elements_text`, and a search in a list
/// becomes one in an array: PostgreSQL mostly searches an index for the elements of an array, but prefers to
/// read all rows and to join them with a list if it takes a table for small. Hints for the query planner of
/// SQLite are removed. `for update skip locked` is a comment for SQLite.
pub(super) fn to_postgres_sql(sql: &str) -> String {
    let in_array = |list: &str| format!("= any (array{list})");
    let sql = &sql
        .replace(&format!("in {NUMBERS}"), &in_array(NUMBERS))
        .replace(&format!("in {TEXTS}"), &in_array(TEXTS));
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql.as_str();
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("indexed by ") {
            let name = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            rest = &after[name.unwrap_or(after.len())..];
        } else if let Some(after) = rest.strip_prefix("/* for update skip locked */") {
            out.push_str("for update skip locked");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("instr(") {
            out.push_str("strpos(");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("json_each(") {
            out.push_str("json_array_elements_text(");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("max(") {
            out.push_str(if has_two_arguments(after) { "greatest(" } else { "max(" });
            rest = after;
        } else {
            out.push(if next == '?' { '$' } else { next });
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// Changes an insert so that it draws the key of its row from a sequence and returns the key.
fn drawing_key(sql: &str) -> String {
    let sequence = sequence(table_of(sql));
    let (columns, rest) = sql.split_once("values ($1,").expect("a number is the first value");
    format!("{columns}values ($1 | nextval('{sequence}'),{rest} returning no")
}

/// The name that PostgreSQL gives the sequence of an identity column.
pub(in crate::store) fn sequence(table: &str) -> String {
    format!("{table}_no_seq")
}

/// Whether a call has more than one argument. `arguments` begins after the opening parenthesis.
fn has_two_arguments(arguments: &str) -> bool {
    let mut depth = 0_u32;
    for c in arguments.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            ',' if depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_translated() {
        for (sqlite, postgres) in [
            ("select ?2, ?10 from t", "select $2, $10 from t"),
            ("from t indexed by t_due where a = ?1", "from t  where a = $1"),
            ("select max(no) from t", "select max(no) from t"),
            ("select max(coalesce(a, 0)) from t", "select max(coalesce(a, 0)) from t"),
            ("set a = max(a, ?1)", "set a = greatest(a, $1)"),
            (
                "max(coalesce(a, 0), (select max(no) from t))",
                "greatest(coalesce(a, 0), (select max(no) from t))",
            ),
            ("limit 1 /* for update skip locked */", "limit 1 for update skip locked"),
            ("where instr(name, ?1) > 0", "where strpos(name, $1) > 0"),
            (
                "where name in (select value from json_each(json(?1)))",
                "where name = any (array(select value from json_array_elements_text(json($1))))",
            ),
        ] {
            assert_eq!(to_postgres_sql(sqlite), postgres);
        }
    }

    #[test]
    fn parameters_are_compiled_for_by_type() {
        let mut statements = Statements::default();
        let insert = "insert into t (no, a, b) values (?1, ?2, ?3) on conflict (a) do nothing";
        let index = statements.intern(insert);
        assert_eq!(statements.intern(insert), index);
        let values = [Value::Integer(1), Value::Null(Type::Text), Value::Blob(b"x")];
        let (sql, types) = statements.to_prepare(index, &values, StatementKind::InsertWithKey);
        assert_eq!(
            sql,
            "insert into t (no, a, b) values ($1 | nextval('t_no_seq'), $2, $3) \
             on conflict (a) do nothing returning no"
        );
        assert_eq!(types, [PgType::INT8, PgType::TEXT, PgType::BYTEA]);
        let prepared = statements.prepared(index, &values, StatementKind::InsertWithKey);
        assert!(prepared.is_none());
    }
}
