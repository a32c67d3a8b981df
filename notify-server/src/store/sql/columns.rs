//! The columns of a row with their names. The statements that write a row, and those that write a set of rows,
//! are made from one list, so a column is named once.

use std::fmt::Write as _;

use crate::store::sql::value::{Param, Value};

/// A column and its value.
pub(in crate::store) type Column<'v> = (&'static str, Value<'v>);

/// A column with the value of a parameter.
pub(in crate::store) fn column<'v, P: Param + ?Sized>(
    name: &'static str,
    param: &'v P,
) -> Column<'v> {
    (name, param.value())
}

/// The names of the columns, separated by commas.
pub(in crate::store) fn names(columns: &[Column<'_>]) -> String {
    listed(columns, |text, _, name| text.push_str(name))
}

/// The names with the alias of their table: `g.country, g.language`.
pub(in crate::store) fn names_of(table: &str, columns: &[Column<'_>]) -> String {
    listed(columns, |text, _, name| {
        let _ = write!(text, "{table}.{name}");
    })
}

/// As many parameters as there are columns: `?2, ?3`.
pub(in crate::store) fn placeholders(first: usize, columns: &[Column<'_>]) -> String {
    listed(columns, |text, place, _| {
        let _ = write!(text, "?{}", first + place);
    })
}

/// Sets the columns to parameters: `country = ?2, language = ?3`.
pub(in crate::store) fn assignments(first: usize, columns: &[Column<'_>]) -> String {
    listed(columns, |text, place, name| {
        let _ = write!(text, "{name} = ?{}", first + place);
    })
}

/// Sets the columns to those of another row: `country = excluded.country`.
pub(in crate::store) fn replacements(row: &str, columns: &[Column<'_>]) -> String {
    listed(columns, |text, _, name| {
        let _ = write!(text, "{name} = {row}.{name}");
    })
}

/// The values, for the parameters of a statement.
pub(in crate::store) fn values<'v>(columns: &[Column<'v>]) -> Vec<Value<'v>> {
    columns.iter().map(|(_, value)| *value).collect()
}

fn listed(columns: &[Column<'_>], add: impl Fn(&mut String, usize, &str)) -> String {
    let mut text = String::new();
    for (place, (name, _)) in columns.iter().enumerate() {
        if place > 0 {
            text.push_str(", ");
        }
        add(&mut text, place, name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_made_from_the_names() {
        let columns = [column("country", "CH"), column("timezone", &None::<i32>)];
        assert_eq!(names(&columns), "country, timezone");
        assert_eq!(names_of("g", &columns), "g.country, g.timezone");
        assert_eq!(placeholders(2, &columns), "?2, ?3");
        assert_eq!(assignments(2, &columns), "country = ?2, timezone = ?3");
        assert_eq!(
            replacements("excluded", &columns),
            "country = excluded.country, timezone = excluded.timezone"
        );
        assert_eq!(names(&[]), "");
    }
}
