//! What differs between two templates, by path.

use serde_json::{Map, Value};

/// Most paths that are told of one campaign.
const PATHS_MAX: usize = 20;

/// The paths at which they differ, in order; the last one says when there are more.
pub(super) fn paths(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    objects(before, after, "", &mut found);
    if found.len() > PATHS_MAX {
        let more = found.len() - PATHS_MAX;
        found.truncate(PATHS_MAX);
        found.push(format!("and {more} more"));
    }
    found
}

fn objects(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    path: &str,
    found: &mut Vec<String>,
) {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{name}");
        values(before.get(name), after.get(name), path, found);
    }
}

fn values(before: Option<&Value>, after: Option<&Value>, path: String, found: &mut Vec<String>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            objects(before, after, &path, found);
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) if before.len() == after.len() => {
            for (place, (before, after)) in before.iter().zip(after).enumerate() {
                values(Some(before), Some(after), format!("{path}[{place}]"), found);
            }
        }
        (before, after) if before == after => {}
        _ => found.push(path),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_have_their_paths() {
        let object = |value: Value| value.as_object().unwrap().clone();
        let before = object(json!({"a": 1, "b": {"c": [1, {"d": 2}], "e": 1}, "f": [1]}));
        let after = object(json!({"a": 1, "b": {"c": [1, {"d": 3}]}, "f": [1, 2], "g": null}));
        assert_eq!(paths(&before, &after), ["b.c[1].d", "b.e", "f", "g"]);
        assert!(paths(&before, &before).is_empty());
        let many: Vec<i32> = (0..30).collect();
        let fewer: Vec<i32> = (1..31).collect();
        let told = paths(&object(json!({"l": many})), &object(json!({"l": fewer})));
        assert_eq!((told.len(), told.last().unwrap().as_str()), (21, "and 10 more"));
    }
}
