//! Rebuilds the server when a migration is added: `embed_migrations!` does not notice new files.

fn main() {
    println!("cargo:rerun-if-changed=src/store/sqlite/migrations");
    println!("cargo:rerun-if-changed=src/store/postgres/migrations");
}
