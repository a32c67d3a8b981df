//! Tables of changes to a valid body, with the expected violations.

use notify_core::{Request, Timestamp};
use serde_json::Value;

/// 2026-01-01T00:00:00Z.
pub(crate) const NOW: Timestamp = Timestamp(1_767_225_600_000);

/// JSON pointer of the change, new value as JSON (`-` removes the field), and expected violations.
pub(crate) type Row<'t> = (&'t str, &'t str, &'t [&'t str]);

/// The violations of a body; empty when it is accepted.
pub(crate) fn errors_of<R: Request>(body: &str) -> Vec<String> {
    R::parse(body.as_bytes(), NOW).err().map(|errors| errors.into_vec()).unwrap_or_default()
}

/// A body with one change.
pub(crate) fn changed(base: &Value, pointer: &str, value: &str) -> String {
    let mut body = base.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer begins with a slash");
    let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has no parent"));
    match (parent, value) {
        (Value::Object(object), "-") => drop(object.remove(name)),
        (Value::Object(object), value) => {
            object.insert(name.to_owned(), serde_json::from_str(value).unwrap());
        }
        (Value::Array(list), value) => {
            list[name.parse::<usize>().unwrap()] = serde_json::from_str(value).unwrap();
        }
        (other, _) => panic!("{pointer}: {other} has no members"),
    }
    body.to_string()
}

/// Checks that the base is accepted, and the violations of each change.
pub(crate) fn check<R: Request>(base: &Value, rows: &[Row<'_>]) {
    assert_eq!(errors_of::<R>(&base.to_string()), [""; 0], "{base}");
    for (pointer, value, expected) in rows {
        let body = changed(base, pointer, value);
        assert_eq!(errors_of::<R>(&body), *expected, "{pointer} = {value}: {body}");
    }
}

/// Checks that each field refuses values of all types but the expected one.
pub(crate) fn check_types<R: Request>(base: &Value, fields: &[(&str, &str)]) {
    for (pointer, expected) in fields {
        let wrong = ["7", "true", "\"text\"", "[]", "{}"];
        for value in wrong.into_iter().filter(|value| !is_of(value, expected)) {
            let path = pointer[1..].replace('/', ".");
            let errors = errors_of::<R>(&changed(base, pointer, value));
            let line = format!("{path}: expected {expected}");
            assert!(errors.contains(&line), "{pointer} = {value}: {errors:?}");
        }
    }
}

fn is_of(value: &str, expected: &str) -> bool {
    match value {
        "7" => matches!(expected, "a whole number" | "a number"),
        "true" => expected == "true or false",
        "\"text\"" => expected == "a string",
        "[]" => expected == "a list",
        _ => expected == "an object",
    }
}
