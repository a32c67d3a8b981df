//! The names of fields in the documents are names that the API and the programs have.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::named_tests::functions;
use super::{read, root};

/// Documents for users of the API and the programs.
const DOCUMENTS: [&str; 17] = [
    "README.md",
    "docs/api.md",
    "docs/apps.md",
    "docs/campaign-files.md",
    "docs/cli.md",
    "docs/configuration.md",
    "docs/console.md",
    "docs/delivery.md",
    "docs/import.md",
    "docs/operations.md",
    "docs/rust.md",
    "docs/sandbox.md",
    "docs/self-hosting.md",
    "docs/web.md",
    "notify-client/README.md",
    "notify-core/README.md",
    "notify-testing/README.md",
];

/// Names of other programs, which no source of ours contains.
const FOREIGN: [&str; 14] = [
    // PostgreSQL, PgBouncer.
    "default_pool_size",
    "max_wal_size",
    "pg_sequences",
    "synchronous_standby_names",
    "wal_compression",
    // An icon of the reader's app.
    "ic_notification",
    // Messenger's names of webhook fields.
    "messaging_optins",
    "messaging_postbacks",
    "messaging_referrals",
    // A directive of nginx.
    "proxy_pass",
    // A language in a spelling that is refused.
    "pt_br",
    // Tables of rpush.
    "rpush_apps",
    "rpush_feedback",
    // A metric of the library for processes.
    "process_start_time_seconds",
];

/// The beginning of the names of metrics, which the code composes. Another test reads them from a server.
const METRIC: &str = "notify_";

/// Every word of our sources that is a name: no comments.
fn names_in_sources() -> BTreeSet<String> {
    fn add(folder: &Path, names: &mut BTreeSet<String>) {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        for path in entries.map(|entry| entry.expect("the folder is read").path()) {
            if path.is_dir() {
                add(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"));
                let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                names.extend(code.flat_map(|line| line.split(|c| !is_part(c))).map(str::to_owned));
            }
        }
    }
    let mut names = BTreeSet::new();
    for folder in [
        "notify-cli/src",
        "notify-client/src",
        "notify-core/src",
        "notify-sandbox/src",
        "notify-server/src",
        "notify-testing/src",
    ] {
        add(&root().join(folder), &mut names);
    }
    // The documents name tests too.
    functions(&root().join("notify-server"), &mut names);
    functions(&root().join("tests"), &mut names);
    names
}

/// The text of a document without its fenced blocks.
fn prose(document: &str) -> String {
    let (mut is_open, mut prose) = (false, String::new());
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            is_open = !is_open;
        } else if !is_open {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_part)
}

/// The names in code spans that have several words.
fn long_names(prose: &str) -> impl Iterator<Item = &str> {
    let spans = prose.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.filter(|span| is_name(span) && span.contains('_') && !span.starts_with(METRIC))
}

/// The names that the text calls fields, or tells the reader to set.
fn called_fields(prose: &str) -> impl Iterator<Item = &str> {
    const BEFORE: [&str; 6] = ["set ", "set the ", "sets ", "sets the ", "field ", "the fields "];
    prose.lines().flat_map(|line| {
        let parts: Vec<&str> = line.split('`').collect();
        let called = parts.windows(2).step_by(2).filter(|pair| {
            is_name(pair[1]) && BEFORE.iter().any(|before| pair[0].to_lowercase().ends_with(before))
        });
        called.map(|pair| pair[1]).collect::<Vec<_>>()
    })
}

/// The names of fields, parameters and values of the API.
fn names_of_the_api() -> BTreeSet<String> {
    fn add(value: &Value, names: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    names.insert(name.clone());
                    add(value, names);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| add(item, names)),
            Value::String(text) => {
                names.insert(text.clone());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let openapi: Value = serde_json::from_str(&notify_server::strict_openapi_json()).expect("JSON");
    let mut names = BTreeSet::new();
    add(&openapi, &mut names);
    names
}

/// The names in the first column of tables of fields.
fn table_fields(prose: &str) -> Vec<String> {
    let (mut is_table, mut fields) = (false, Vec::new());
    for line in prose.lines() {
        if !line.starts_with('|') {
            is_table = false;
        } else if line.starts_with("| field |") {
            is_table = true;
        } else if is_table {
            let cell = line.trim_start_matches('|').split('|').next().unwrap_or_default();
            let names = cell.split('`').skip(1).step_by(2).filter(|name| is_name(name));
            fields.extend(names.map(str::to_owned));
        }
    }
    fields
}

#[test]
fn names_in_the_documents_exist() {
    let known = names_in_sources();
    let mut unknown = Vec::new();
    for document in DOCUMENTS {
        let prose = prose(&read(document));
        for name in long_names(&prose) {
            if !known.contains(name) && !FOREIGN.contains(&name) {
                unknown.push(format!("{document}: {name}"));
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
}

#[test]
fn fields_in_the_documents_are_fields_of_the_api() {
    let known = names_of_the_api();
    let mut unknown = Vec::new();
    for document in DOCUMENTS {
        let prose = prose(&read(document));
        let rows = if document == "docs/api.md" { table_fields(&prose) } else { Vec::new() };
        for name in called_fields(&prose).map(str::to_owned).chain(rows) {
            if !known.contains(&name) && !FOREIGN.contains(&&*name) {
                unknown.push(format!("{document}: {name}"));
            }
        }
    }
    assert_eq!(unknown, Vec::<String>::new());
}
