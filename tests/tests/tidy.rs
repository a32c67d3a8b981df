//! Rules of the source tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The most lines of a source file, without tests.
const FILE_LINES_MAX: usize = 1_000;

/// The sources of the product.
const PRODUCT: [&str; 6] = [
    "notify-core/src",
    "notify-sandbox/src",
    "notify-server/src",
    "notify-client/src",
    "notify-cli/src",
    "notify-testing/src",
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

/// The crates of a lock file, each with its version.
fn locked(file: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(file)).expect("the lock file is readable");
    let value = |line: Option<&str>, key: &str| -> Option<String> {
        Some(line?.strip_prefix(key)?.trim_matches('"').to_owned())
    };
    let packages = text.split("[[package]]\n").skip(1).map(|package| {
        let mut lines = package.lines();
        let name = value(lines.next(), "name = ").expect("a package has a name");
        (name, value(lines.next(), "version = ").expect("a package has a version"))
    });
    packages.collect()
}

/// The fuzz targets are a workspace of their own, so their lock file can fall behind.
#[test]
fn fuzz_targets_use_the_crates_of_the_product() {
    let is_own =
        |name: &str| name.starts_with("notify-") || ["libfuzzer-sys", "arbitrary"].contains(&name);
    let product = locked("Cargo.lock");
    let missing: Vec<_> = locked("fuzz/Cargo.lock")
        .into_iter()
        .filter(|package| !is_own(&package.0) && !product.contains(package))
        .collect();
    let remedy = "cp Cargo.lock fuzz/ && cargo metadata --manifest-path fuzz/Cargo.toml";
    assert!(missing.is_empty(), "not in Cargo.lock, run `{remedy}`: {missing:?}");
}

#[test]
fn each_fuzz_target_has_seeds_and_is_built() {
    let names = |folder: &str| {
        let entries = fs::read_dir(root().join(folder)).expect("the folder is readable");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("the entry is readable").file_name())
            .map(|name| name.into_string().expect("names are UTF-8").replace(".rs", ""))
            .collect();
        names.sort();
        names
    };
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("readable");
    let mut built: Vec<&str> =
        manifest.lines().filter_map(|line| line.strip_prefix("path = \"targets/")).collect();
    built.sort_unstable();
    let targets = names("fuzz/targets");
    assert_eq!(names("fuzz/corpus"), targets);
    assert_eq!(built, targets.iter().map(|name| format!("{name}.rs\"")).collect::<Vec<_>>());
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

/// The packages of the workspace and of its dependencies, as cargo resolves them with all features.
fn cargo_metadata() -> Value {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--all-features", "--offline"])
        .args(["--filter-platform", &target])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The packages that a package uses at run time, itself included.
fn closure<'a>(metadata: &'a Value, name: &str) -> BTreeMap<&'a str, &'a Value> {
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .iter()
        .map(|package| (package["id"].as_str().expect("an id"), package))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"], "nodes")
        .iter()
        .map(|node| (node["id"].as_str().expect("an id"), node))
        .collect();
    let mut open: Vec<&str> =
        packages.iter().filter(|(_, package)| package["name"] == name).map(|(id, _)| *id).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            let at_run_time =
                |dep: &&Value| list(dep, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
            let used = list(nodes[id], "deps").iter().filter(at_run_time);
            open.extend(used.map(|dep| dep["pkg"].as_str().expect("an id")));
        }
    }
    found.into_iter().map(|id| (id, packages[id])).collect()
}

fn rust_version(package: &Value) -> Vec<u32> {
    let version = package["rust_version"].as_str().unwrap_or_default();
    let numbers = version.split('.').map_while(|number| number.parse().ok());
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.resize(3, 0);
    numbers
}

/// The newest dependency sets the Rust version that the SDK asks for. Clippy checks the SDK's own code against
/// it (`incompatible_msrv`).
#[test]
fn the_sdk_asks_for_the_rust_version_that_its_dependencies_need() {
    let metadata = cargo_metadata();
    for sdk in ["notify-core", "notify-client"] {
        let closure = closure(&metadata, sdk);
        let is_own = |package: &Value| package["source"].is_null();
        let own = closure.values().find(|package| package["name"] == sdk).expect("the package");
        let others = closure.values().filter(|package| !is_own(package));
        let newest = others.max_by_key(|package| rust_version(package)).expect("a dependency");
        assert_eq!(
            rust_version(own),
            rust_version(newest),
            "{sdk} asks for another version than {}",
            newest["name"]
        );
    }
}

/// A package on crates.io has only its own files, and symbolic links do not survive every way of copying a
/// source tree. So packages have copies.
#[test]
fn packages_have_copies_of_the_licences() {
    let metadata = cargo_metadata();
    let mut copies = Vec::new();
    for package in list(&metadata, "packages") {
        // `null` means any registry, and an empty list means none.
        if package["source"].is_null() && package["publish"].is_null() {
            let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
            let folder = manifest.parent().expect("a folder");
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
                copies.push((folder.join(licence), licence));
            }
        }
    }
    assert!(!copies.is_empty(), "no package can be published");
    for (copy, original) in copies {
        let text = fs::read(root().join(original)).expect("the original is readable");
        if std::env::var_os("NOTIFY_WRITE_DOCS").is_some() {
            fs::write(&copy, &text).expect("the copy can be written");
        }
        assert!(
            fs::read(&copy).is_ok_and(|found| found == text),
            "{} is not {original}: run this test with NOTIFY_WRITE_DOCS=1",
            copy.display()
        );
    }
}
