//! Which database the kit's servers work on: SQLite in their folder, or a PostgreSQL database that
//! belongs to the folder. Whole suites run on either: `NOTIFY_TEST_BACKEND=postgres`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use notify_server::config::{Config, Sources};
use notify_server::store::postgres::testing::{TestCluster, TestDatabase};

/// Selects the backend of every server that does not select one itself.
const VARIABLE: &str = "NOTIFY_TEST_BACKEND";
/// Bytes of a master key.
const KEY_BYTES: usize = 32;

/// Databases by the data folder that they belong to: a server that is started again on the same folder
/// gets the same one. They are deleted with this process.
static INSTALLATIONS: LazyLock<Mutex<HashMap<PathBuf, Installation>>> =
    LazyLock::new(Mutex::default);

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A file in the data folder.
    Sqlite,
    /// A database of a server that this process starts.
    Postgres,
}

impl Backend {
    /// What the environment selects; SQLite by default.
    ///
    /// # Panics
    /// When it selects something else than `sqlite` or `postgres`.
    #[must_use]
    pub fn chosen() -> Self {
        match std::env::var(VARIABLE).as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("{VARIABLE}={other}: neither sqlite nor postgres"),
        }
    }
}

/// Calls a function with the database of a folder.
///
/// # Errors
/// When there is none.
pub(crate) fn with_database_of<T>(
    data_dir: &Path,
    look: impl FnOnce(&TestDatabase) -> T,
) -> Result<T> {
    let all = INSTALLATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let its = all.get(data_dir).context("a server was started on this folder")?;
    Ok(look(its.database()))
}

/// A PostgreSQL database in the place of a data folder's file.
pub struct Installation {
    database: TestDatabase,
    master_key: String,
}

impl Installation {
    /// A new, empty one.
    ///
    /// # Panics
    /// When there is no PostgreSQL.
    #[must_use]
    pub fn make() -> Self {
        Self { database: TestCluster::shared().database(), master_key: new_master_key() }
    }

    /// Its database.
    #[must_use]
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// Its database and key, as settings.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { database_url: self.database.url(), master_key: self.master_key.clone() }
    }
}

/// Settings of a server on PostgreSQL.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `--database-url`.
    pub database_url: String,
    /// `NOTIFY_MASTER_KEY`.
    pub master_key: String,
}

fn new_master_key() -> String {
    let key: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(KEY_BYTES).collect();
    BASE64_STANDARD.encode(key)
}

impl Settings {
    /// Settings of an empty database, with a new master key.
    #[must_use]
    pub fn new(database_url: String) -> Self {
        Self { database_url, master_key: new_master_key() }
    }

    /// Settings of the database of a folder, which is created by the first call; `None` on
    /// SQLite.
    #[must_use]
    pub fn of(backend: Backend, data_dir: &Path) -> Option<Self> {
        match backend {
            Backend::Sqlite => None,
            Backend::Postgres => {
                let mut all = INSTALLATIONS.lock().unwrap_or_else(PoisonError::into_inner);
                let its = all.entry(data_dir.to_owned()).or_insert_with(Installation::make);
                Some(its.settings())
            }
        }
    }

    /// A configuration with these, and defaults for the rest.
    ///
    /// # Errors
    /// When the server rejects them.
    pub fn config(&self) -> Result<Config> {
        let flag = |name: &str| (name == "database-url").then(|| self.database_url.clone());
        let variable = |name: &str| (name == "NOTIFY_MASTER_KEY").then(|| self.master_key.clone());
        Ok(Config::load(&Sources { flag: &flag, variable: &variable })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Launch, TestServer};

    /// Fails in the database unless it has applications.
    const HAS_APPS: &str = "select 1 / count(*) from apps";

    #[tokio::test]
    async fn in_process_and_child_servers_use_the_database_of_their_folder() -> Result<()> {
        let installation = Installation::make();
        let settings = installation.settings();
        let folder = tempfile::tempdir()?;
        let launch = Launch::on(folder.path()).installation(&settings);
        let process = launch.start().await?;
        anyhow::ensure!(process.api_key.is_some(), "an empty database is a first start");
        anyhow::ensure!(process.terminate().await?.success());
        installation.database().execute(HAS_APPS);
        anyhow::ensure!(!folder.path().join("notify.db").exists(), "nothing in the folder");

        let again = launch.start().await?;
        anyhow::ensure!(again.api_key.is_none(), "it finds what it left");
        anyhow::ensure!(again.terminate().await?.success());

        let mut server = TestServer::start_on(Backend::Postgres, |_| {}).await;
        let key = server.api_key().to_owned();
        server.restart().await;
        let caller = server.caller();
        anyhow::ensure!(caller.get("/v1/tags").await.ok()["tags"].is_array(), "{key}");
        anyhow::ensure!(!server.data_dir().join("notify.db").exists(), "nothing in the folder");
        server.stop().await;
        Ok(())
    }
}
