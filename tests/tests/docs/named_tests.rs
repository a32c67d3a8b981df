//! The tests that a document names must exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::links::document_paths;
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

/// The pieces of code in the last column of a document's tables.
fn code_in_last_column(document: &str) -> impl Iterator<Item = &str> {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let last = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit('|').next());
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

/// The names of tests in the last column of a document's tables.
fn named(document: &str) -> Vec<String> {
    let words = code_in_last_column(document).map(str::to_owned);
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

/// The folders of the packages that have tests, by the names that `cargo -p` takes.
const PACKAGES: [(&str, &str); 7] = [
    ("notify-core", "notify-core"),
    ("notify-push-server", "notify-server"),
    ("notify-client", "notify-client"),
    ("notify-push-cli", "notify-cli"),
    ("notify-sandbox", "notify-sandbox"),
    ("notify-testing", "notify-testing"),
    ("notify-tests", "tests"),
];
/// The options of `cargo test` that take a value.
const OPTIONS_WITH_VALUE: [&str; 3] = ["-p", "--test", "--skip"];

/// The tests that a command runs.
#[derive(Debug, Default, PartialEq)]
struct Selection {
    /// The package; `None` is every package.
    package: Option<String>,
    /// The suite below `tests`; `None` is every suite and the library.
    suite: Option<String>,
    /// A part of the path of a test.
    filter: Option<String>,
}

impl Selection {
    /// The selection of a command that begins with `cargo test`.
    fn of_command(command: &str) -> Self {
        let command = command.split('#').next().unwrap_or_default();
        let mut words = command.split_whitespace().skip(2);
        let mut selection = Self::default();
        while let Some(word) = words.next() {
            let value = OPTIONS_WITH_VALUE.contains(&word).then(|| words.next()).flatten();
            match (word, value.map(str::to_owned)) {
                ("-p", package) => selection.package = package,
                ("--test", suite) => selection.suite = suite,
                (filter, None) if !filter.starts_with('-') => {
                    selection.filter = Some(filter.to_owned());
                }
                _ => {}
            }
        }
        selection
    }

    /// The selection of the short form in a table: `lib slow::`, or the name of a suite with a part of the path.
    fn of_short_form(text: &str) -> Self {
        let (suite, filter) = text
            .split_once(' ')
            .map_or((text, None), |(suite, filter)| (suite, Some(filter.to_owned())));
        let (package, suite) = match suite {
            "lib" => ("notify-push-server", None),
            suite => ("notify-tests", Some(suite.to_owned())),
        };
        Self { package: Some(package.to_owned()), suite, filter }
    }

    /// Whether there is a test that the command runs.
    fn finds_a_test(&self) -> bool {
        let folders = PACKAGES
            .iter()
            .filter(|(name, _)| self.package.as_ref().is_none_or(|package| package == name));
        folders.map(|(_, folder)| root().join(folder)).any(|folder| {
            let sources = match &self.suite {
                None => [vec![folder.join("src")], entries(&folder.join("tests"))].concat(),
                Some(suite) => {
                    let folder = folder.join("tests");
                    vec![folder.join(suite), folder.join(format!("{suite}.rs"))]
                }
            };
            let filter = self.filter.as_deref().unwrap_or_default();
            sources.iter().any(|source| has_test(source, "", filter))
        })
    }
}

/// The entries of a folder; none if it does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.expect("the folder is read").path()).collect()
}

/// Whether a source, or one in a folder, has a test whose path has this part. `module` is the path of the source.
fn has_test(source: &Path, module: &str, part: &str) -> bool {
    if source.is_dir() {
        return entries(source).iter().any(|path| {
            let name = path.file_stem().expect("an entry has a name").to_string_lossy();
            let is_root = ["mod", "main", "lib"].contains(&&*name);
            let inner = if is_root { module.to_owned() } else { format!("{module}{name}::") };
            has_test(path, &inner, part)
        });
    }
    if source.extension().is_none_or(|extension| extension != "rs") {
        return false;
    }
    let Ok(text) = fs::read_to_string(source) else { return false };
    let mut inner = module.to_owned();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("mod tests {") {
            inner = format!("{module}tests::");
        } else if line.starts_with("#[") {
            let names_test = line.contains("test") && !line.starts_with("#[cfg(");
            is_test |= names_test || line.starts_with("#[apply(");
        } else if let Some((_, name)) = line.split_once("fn ") {
            let name = name.split(['(', '<']).next().unwrap_or_default();
            if is_test && format!("{inner}{name}").contains(part) {
                return true;
            }
            is_test = false;
        }
    }
    false
}

/// The commands of a document that run tests, each to the end of its line or of its code.
fn test_commands(document: &str) -> Vec<&str> {
    let commands = document.match_indices("cargo test");
    commands.map(|(at, _)| document[at..].split(['\n', '`']).next().unwrap_or_default()).collect()
}

#[test]
fn each_command_in_the_documents_finds_a_test() {
    let (mut count, mut useless) = (0, Vec::new());
    for path in document_paths() {
        let document = read(&path);
        for command in test_commands(&document) {
            count += 1;
            if !Selection::of_command(command).finds_a_test() {
                useless.push(format!("{path}: {command}"));
            }
        }
    }
    let document = read("docs/reliability.md");
    let forms = code_in_last_column(&document);
    for form in forms.filter(|form| !form.starts_with("scripts/") && !form.starts_with("cargo ")) {
        count += 1;
        if !Selection::of_short_form(form).finds_a_test() {
            useless.push(format!("docs/reliability.md: {form}"));
        }
    }
    assert!(count > 50, "only {count} commands");
    assert!(useless.is_empty(), "no test is found by:\n{}", useless.join("\n"));
}

#[test]
fn a_command_that_finds_no_test_is_noticed() {
    for command in [
        "cargo test -p notify-push-server simulation::whatever",
        "cargo test -p notify-tests --test no_such_suite",
        "cargo test -p no-such-package",
    ] {
        assert!(!Selection::of_command(command).finds_a_test(), "{command}");
    }
    for command in [
        "cargo test --workspace  # all of them",
        "cargo test -p notify-push-server simulation::nothing_is_lost",
        "cargo test --release -p notify-tests --test scale -- --nocapture",
    ] {
        assert!(Selection::of_command(command).finds_a_test(), "{command}");
    }
    assert!(!Selection::of_short_form("lib no_such_module::").finds_a_test());
}
