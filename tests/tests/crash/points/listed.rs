//! Every operation that writes is ended somewhere here: the sources say which there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{calls, sending, servers, singles, starts, webhooks};

/// What every write goes through, and no operation itself.
const THE_WAY_IN: [&str; 2] = ["write", "write_once"];
/// Calls of the same name that write no row: locks, options of a file, a cursor's text.
const OTHERS: [&str; 4] = [".write()", ".write(true)", ".write(&", ".write(place"];

#[test]
fn every_operation_that_writes_is_ended_before_and_after_its_commit() {
    let listed: BTreeSet<String> = [
        calls::operations(),
        sending::operations(),
        starts::operations(),
        webhooks::operations(),
        servers::operations(),
        singles::operations(),
    ]
    .concat()
    .into_iter()
    .map(str::to_owned)
    .collect();
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("../notify-server/src/store/sql");
    let mut written = BTreeSet::new();
    for file in sources(&store) {
        operations_in(&fs::read_to_string(&file).expect("sources are UTF-8"), &mut written);
    }
    // Erased apps are resumed before there is a writer.
    written.insert("resume_erasing".to_owned());
    assert!(written.len() > 30, "the sources were found: {written:?}");
    assert_eq!(listed, written, "left: what is listed here, right: what the sources write");
}

/// The functions of a source in which a write begins.
fn operations_in(source: &str, found: &mut BTreeSet<String>) {
    let mut function = "";
    for line in source.lines() {
        if let Some((_, rest)) = line.split_once("fn ") {
            function = rest.split(['(', '<']).next().unwrap_or_default();
        }
        let writes = line.contains(".write(") || line.contains(".write_once(");
        let is_other = OTHERS.iter().any(|other| line.contains(other));
        if writes && !is_other && !THE_WAY_IN.contains(&function) {
            found.insert(function.to_owned());
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("the store is there") {
        let path = entry.expect("the entry is readable").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            files.push(path);
        }
    }
    files
}

#[test]
fn an_operation_is_found_however_its_write_is_laid_out() {
    let source = "
        async fn short(&self) { self.write(move |tx| one(tx)).await }
        async fn long<T>(
            &self,
        ) {
            let lock = self.lock.write();
            self.write_once(
                app,
                once, move |tx| {
        async fn reads(&self) { self.read(|tx| one(tx)).await }
        async fn write(&self) { self.writer.write(work).await }";
    let mut found = BTreeSet::new();
    operations_in(source, &mut found);
    assert_eq!(found, BTreeSet::from(["long".to_owned(), "short".to_owned()]));
}
