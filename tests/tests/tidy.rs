//! Rules of the source tree.

use std::fs;
use std::path::{Path, PathBuf};

/// The most lines of a source file, without tests.
const FILE_LINES_MAX: usize = 1_000;

/// The sources of the product.
const PRODUCT: [&str; 5] = [
    "notify-core/src",
    "notify-sandbox/src",
    "notify-server/src",
    "notify-client/src",
    "notify-cli/src",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package has a parent").to_owned()
}

fn rust_files(below: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(below)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the entry is readable").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target" && name != ".git") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).expect("below the root");
                let name = name.to_str().expect("names are UTF-8").to_owned();
                files.push((name, fs::read_to_string(&path).expect("sources are UTF-8")));
            }
        }
    }
    assert!(!files.is_empty(), "nothing below {below}");
    files
}

fn is_test(name: &str) -> bool {
    name.contains("/tests") || name.starts_with("tests/") || name.starts_with("bench/")
}

/// The simulation of the engine also implements the engine's dependencies.
fn is_simulation(name: &str) -> bool {
    name.contains("delivery/simulation/")
}

/// A folder, the names that it must not use, and the reason.
const LAYERS: &[(&str, &[&str], &str)] = &[
    (
        "notify-core/src",
        &["tokio", "std::net", "std::fs", "SystemTime", "Instant::now"],
        "core does no I/O and reads no clock",
    ),
    ("notify-client/src", &["notify_server"], "client and server never meet"),
    ("notify-cli/src", &["notify_server"], "the command speaks to the server over the SDK"),
    (
        "notify-server/src/api",
        &["crate::providers", "crate::delivery", "rusqlite", "store::sql", "store::postgres"],
        "the API sees neither provider, engine nor backend",
    ),
    (
        "notify-server/src/delivery",
        &["crate::api", "rusqlite", "store::sql", "store::postgres"],
        "the engine sees the store's methods alone",
    ),
    (
        "notify-server/src/providers",
        &["crate::api", "crate::store", "crate::delivery", "rusqlite"],
        "a provider never sees a row",
    ),
    (
        "notify-server/src/webhooks",
        &["crate::api", "rusqlite", "store::sql", "store::postgres"],
        "the webhook engine sees the store's methods alone",
    ),
    (
        "notify-server/src/enrichment",
        &[
            "crate::api",
            "crate::delivery",
            "crate::providers",
            "rusqlite",
            "store::sql",
            "store::postgres",
        ],
        "enrichment sees the store's methods and the guard alone",
    ),
    (
        "notify-server/src/payload",
        &["crate::api", "crate::store", "crate::delivery", "crate::providers", "tokio"],
        "payloads are pure",
    ),
    (
        "notify-server/src/provider_config",
        &["crate::api", "crate::delivery", "crate::providers", "tokio"],
        "a configuration is checked without connecting to anything",
    ),
    (
        "notify-server/src/store",
        &[
            "crate::api",
            "crate::delivery",
            "crate::enrichment",
            "crate::providers",
            "crate::payload",
            "tracing::",
        ],
        "the store serves, and does not log",
    ),
    ("notify-sandbox/src", &["notify_server"], "the sandbox shares no code with what it checks"),
];

#[test]
fn layers_depend_downwards_only() {
    let mut broken = Vec::new();
    for (folder, forbidden, why) in LAYERS {
        for (name, text) in rust_files(folder) {
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                if name.contains("/tests") || is_simulation(&name) {
                    continue;
                }
                if let Some(word) = forbidden.iter().find(|word| code.contains(**word)) {
                    broken.push(format!("{name}:{}: names {word} ({why})", number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The places that may name a database driver: the backends, and the layer over which operations run.
const DRIVERS: &[(&str, &[&str])] = &[
    ("rusqlite", &["store/sqlite/", LAYER[0], LAYER[1]]),
    ("tokio_postgres", &["store/postgres/", LAYER[0], LAYER[1]]),
];
const LAYER: [&str; 2] = ["store/sql/connection.rs", "store/sql/error.rs"];

#[test]
fn store_operations_name_no_driver() {
    let mut broken = Vec::new();
    for (name, text) in rust_files("notify-server/src") {
        for (driver, places) in DRIVERS {
            if text.contains(driver) && !places.iter().any(|place| name.contains(place)) {
                broken.push(format!("{name}: {driver}"));
            }
        }
    }
    assert!(broken.is_empty(), "drivers outside their backends: {broken:?}");
}

/// A database that is brought up to date by number is so on both, and one can be copied to the other.
#[test]
fn backends_have_the_same_migrations() {
    let names = |backend: &str| {
        let folder = root().join("notify-server/src/store").join(backend).join("migrations");
        let files = fs::read_dir(folder).expect("the folder is readable");
        let mut names: Vec<_> =
            files.map(|file| file.expect("the entry is readable").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("sqlite"), names("postgres"));
}

#[test]
fn source_files_are_at_most_1000_lines() {
    let mut broken = Vec::new();
    for folder in PRODUCT {
        for (name, text) in rust_files(folder) {
            let lines = text.lines().count();
            if lines > FILE_LINES_MAX && !is_test(&name) && !name.contains("contract/") {
                broken.push(format!("{name}: {lines} lines"));
            }
        }
    }
    assert!(broken.is_empty(), "over {FILE_LINES_MAX} lines:\n{}", broken.join("\n"));
}

#[test]
fn every_module_has_a_doc_comment() {
    let mut broken = Vec::new();
    for folder in [
        "notify-core",
        "notify-sandbox",
        "notify-server",
        "notify-client",
        "notify-cli",
        "examples",
        "tests",
        "bench",
    ] {
        for (name, text) in rust_files(folder) {
            if !text.starts_with("//!") {
                broken.push(name);
            }
        }
    }
    assert!(broken.is_empty(), "without a module doc: {broken:?}");
}

/// Users of the SDK have neither the specification nor the list that such a number is a row of.
#[test]
fn public_documentation_cites_no_internal_row() {
    let is_row = |word: &str| {
        let digits = word.strip_prefix('B').map(|rest| rest.trim_end_matches(char::is_alphabetic));
        digits.is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let mut broken = Vec::new();
    for folder in ["notify-core/src", "notify-client/src"] {
        for (name, text) in rust_files(folder) {
            for (number, line) in (1..).zip(text.lines()) {
                let line = line.trim_start();
                let is_public = line.starts_with("///") || line.starts_with("//!");
                let mut words = line.split(|letter: char| !letter.is_alphanumeric());
                if is_public && (words.any(is_row) || line.contains("spec ")) {
                    broken.push(format!("{name}:{number}: {line}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn tests_wait_on_events_and_do_not_sleep() {
    let mut broken = Vec::new();
    for (name, text) in rust_files(".") {
        if !is_test(&name) || name.ends_with("tidy.rs") || name.starts_with("bench/") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if line.contains("sleep(") {
                broken.push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(broken.is_empty(), "sleeping: {broken:?}");
}

#[test]
fn no_open_task_and_no_ignored_test_is_left() {
    let mut broken = Vec::new();
    for (name, text) in rust_files(".") {
        if name.ends_with("tidy.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            for word in ["todo!(", "unimplemented!(", "FIXME", "TODO", "#[ignore", "dbg!("] {
                if line.contains(word) {
                    broken.push(format!("{name}:{}: {word}", number + 1));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn discouraged_names_are_not_used() {
    // (synonym, the word that the glossary of ARCHITECTURE.md has for it)
    let synonyms =
        [("fn do_", "a verb"), ("Manager", "what it manages"), ("Helper", "what it does")];
    let mut broken = Vec::new();
    for folder in PRODUCT {
        for (name, text) in rust_files(folder) {
            for (number, line) in text.lines().enumerate() {
                for (synonym, word) in synonyms {
                    if line.contains(synonym) {
                        broken.push(format!("{name}:{}: {synonym} (say {word})", number + 1));
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
