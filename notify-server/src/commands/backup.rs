//! `notify-server backup`: a consistent copy while the server runs.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::config::Config;
use crate::store::sqlite::backup as copy;

use super::{master_key_place, print};

/// Copies the database to a new file.
pub(super) async fn backup(config: &Config, file: PathBuf) -> anyhow::Result<()> {
    ensure!(
        config.database_url.is_none(),
        "a PostgreSQL database is copied by its own tool: pg_dump --format=custom; keep the master \
         key too, in another place"
    );
    let database = config.database();
    ensure!(database.exists(), "there is no database at {}", database.display());
    ensure!(!file.exists(), "{} exists already", file.display());
    let target = file.clone();
    let copying = tokio::task::spawn_blocking(move || copy(&database, &target));
    copying.await.context("the copy was interrupted")?.context("the database was not copied")?;
    print(&format!("copied to {}", file.display()))?;
    let master_key = master_key_place(config);
    print(&format!(
        "keep the master key too, in another place: {master_key}; without it the copy's provider \
         credentials cannot be opened"
    ))
}
