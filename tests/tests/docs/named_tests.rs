//! The tests that a document names must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{read, root};

/// The least number of words in the name of a test. A shorter name in a table is a name of the API.
const WORDS_MIN: usize = 4;

/// Adds the names of all functions in the sources below a folder to `found`.
pub(super) fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    for path in entries.map(|entry| entry.expect("the folder is read").path()) {
        if path.is_dir() && !path.ends_with("target") {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
            let names = source.lines().filter_map(|line| line.split_once("fn ")?.1.split_once('('));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

/// The names of tests in the last column of a document's tables.
fn named(document: &str) -> Vec<String> {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let last = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit('|').next());
    let words = last.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned));
    words.filter(|word| word.split('_').count() >= WORDS_MIN && !word.contains(' ')).collect()
}

#[test]
fn every_hazard_names_an_existing_test() {
    let mut existing = BTreeSet::new();
    for package in ["notify-core", "notify-server", "tests"] {
        functions(&root().join(package), &mut existing);
    }
    let document = read("docs/delivery.md");
    let named = named(&document);
    assert_eq!(named.len(), 21, "a test for each trap that there can be on SQLite: {named:?}");
    let missing: Vec<_> = named.iter().filter(|name| !existing.contains(*name)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}
