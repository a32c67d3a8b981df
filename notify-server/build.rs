//! Rebuilds the server when a migration is added, because `embed_migrations!` does not notice new files, and
//! finds the reference of the API.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src/store/sqlite/migrations");
    println!("cargo:rerun-if-changed=src/store/postgres/migrations");
    // Read when the script runs: a build folder that several checkouts share may have it compiled for another.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let package = Path::new(&package);
    // A package has only its own files, so it gets a copy of the document when it is published.
    let reference = [package.join("api.md"), package.join("../docs/api.md")]
        .into_iter()
        .find(|path| path.is_file())
        .expect("the package or the repository has the document");
    println!("cargo:rerun-if-changed={}", reference.display());
    println!("cargo:rustc-env=SERVER_API_REFERENCE={}", reference.display());
}
