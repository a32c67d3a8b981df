//! Translates the statements of the store, which are written for SQLite, to PostgreSQL, and keeps
//! them prepared. The two differ only in a few words.

use std::collections::HashMap;

use tokio_postgres::Statement;
use tokio_postgres::types::Type as PgType;

use crate::store::sql::{Type, Value, table_of};

/// The statements of a connection.
#[derive(Default)]
pub(super) struct Statements {
    places: HashMap<Box<str>, usize>,
    texts: Vec<Text>,
}

struct Text {
    sql: String,
    /// The prepared statements by the types of their parameters; usually one.
    compiled: Vec<Compiled>,
}

struct Compiled {
    kinds: Vec<Type>,
    numbers: bool,
    statement: Statement,
}

impl Statements {
    /// Returns the index of a statement. Translates and adds a new statement.
    pub(super) fn intern(&mut self, sql: &str) -> usize {
        if let Some(intern) = self.places.get(sql) {
            return *intern;
        }
        let intern = self.texts.len();
        self.texts.push(Text { sql: to_postgres_sql(sql), compiled: Vec::new() });
        self.places.insert(sql.into(), intern);
        intern
    }

    /// The prepared statement for the types of these parameters, if there is one. `numbers` is set
    /// for an insert that draws a key with the prefix `$1` and returns it.
    pub(super) fn compiled(
        &self,
        text: usize,
        values: &[Value<'_>],
        numbers: bool,
    ) -> Option<Statement> {
        let fits = |compiled: &&Compiled| {
            compiled.numbers == numbers
                && compiled.kinds.iter().copied().eq(values.iter().map(Value::kind))
        };
        self.texts[text].compiled.iter().find(fits).map(|found| found.statement.clone())
    }

    /// The text to prepare for these parameters, and the types of the parameters, so that
    /// PostgreSQL does not infer them.
    pub(super) fn to_compile(
        &self,
        text: usize,
        values: &[Value<'_>],
        numbers: bool,
    ) -> (String, Vec<PgType>) {
        let sql = &self.texts[text].sql;
        let types = values.iter().map(|value| type_of(value.kind()));
        (if numbers { returning_id(sql) } else { sql.clone() }, types.collect())
    }

    /// Stores a prepared statement.
    pub(super) fn keep(
        &mut self,
        text: usize,
        values: &[Value<'_>],
        numbers: bool,
        statement: Statement,
    ) {
        let kinds = values.iter().map(Value::kind).collect();
        self.texts[text].compiled.push(Compiled { kinds, numbers, statement });
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
/// arguments becomes `greatest`. `json_each` becomes `json_array_elements_text`. Hints for the
/// query planner of SQLite are removed.
fn to_postgres_sql(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("indexed by ") {
            let name = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            rest = &after[name.unwrap_or(after.len())..];
        } else if let Some(after) = rest.strip_prefix("instr(") {
            out.push_str("strpos(");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("json_each(") {
            out.push_str("json_array_elements_text(");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("max(") {
            out.push_str(if is_of_two(after) { "greatest(" } else { "max(" });
            rest = after;
        } else {
            out.push(if next == '?' { '$' } else { next });
            rest = &rest[next.len_utf8()..];
        }
    }
    out
}

/// Changes an insert so that it draws the key of its row from a sequence and returns the key.
fn returning_id(sql: &str) -> String {
    let sequence = sequence(table_of(sql));
    let (columns, rest) = sql.split_once("values ($1,").expect("a number is the first value");
    format!("{columns}values ($1 | nextval('{sequence}'),{rest} returning no")
}

/// The name that PostgreSQL gives the sequence of an identity column.
pub(in crate::store) fn sequence(table: &str) -> String {
    format!("{table}_no_seq")
}

/// Whether a parenthesis contains more than one argument.
fn is_of_two(arguments: &str) -> bool {
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
            ("where instr(name, ?1) > 0", "where strpos(name, $1) > 0"),
            (
                "in (select value from json_each(json(?1)))",
                "in (select value from json_array_elements_text(json($1)))",
            ),
        ] {
            assert_eq!(to_postgres_sql(sqlite), postgres);
        }
    }

    #[test]
    fn parameters_are_compiled_for_by_type() {
        let mut statements = Statements::default();
        let insert = "insert into t (no, a, b) values (?1, ?2, ?3) on conflict (a) do nothing";
        let text = statements.intern(insert);
        assert_eq!(statements.intern(insert), text);
        let values = [Value::Integer(1), Value::Null(Type::Text), Value::Blob(b"x")];
        let (sql, types) = statements.to_compile(text, &values, true);
        assert_eq!(
            sql,
            "insert into t (no, a, b) values ($1 | nextval('t_no_seq'), $2, $3) \
             on conflict (a) do nothing returning no"
        );
        assert_eq!(types, [PgType::INT8, PgType::TEXT, PgType::BYTEA]);
        assert!(statements.compiled(text, &values, true).is_none());
    }
}
