//! Every seed of the fuzz targets has the properties.

use std::fs;
use std::path::Path;

fn for_each_seed(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut count = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        // Shown only if the check panics.
        println!("{}", path.display());
        check(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 0, "{} has no seeds", folder.display());
}

#[test]
fn seeds_of_the_json_reader() {
    for_each_seed("json", super::json);
}

#[test]
fn seeds_of_requests() {
    for_each_seed("requests", super::requests);
}

#[test]
fn seeds_of_audiences() {
    for_each_seed("audience", super::audience);
}
