//! The database of the kit's servers: SQLite in the data folder, or a PostgreSQL database that belongs to the
//! data folder. `NOTIFY_TEST_BACKEND=postgres` runs whole suites on PostgreSQL.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use notify_server::config::{Config, Sources};
use notify_server::store::postgres::testing::{TestCluster, TestDatabase};

/// The environment variable that selects the backend of every test that does not select a backend itself.
const VARIABLE: &str = "NOTIFY_TEST_BACKEND";
/// The schema of the installations on PostgreSQL. `public` does not exist, so that the suites find code that
/// assumes this schema. The tests of the store use `public`.
const SCHEMA: &str = "notify";
/// The length of a master key, in bytes.
const KEY_BYTES: usize = 32;

/// The databases by their data folder. A server that is started again on the same folder gets the same
/// database. The databases are deleted when this process ends.
static INSTALLATIONS: LazyLock<Mutex<HashMap<PathBuf, Installation>>> =
    LazyLock::new(Mutex::default);

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A file in the data folder.
    Sqlite,
    /// A database on a PostgreSQL server that this process starts.
    Postgres,
}

impl Backend {
    /// The backend that `NOTIFY_TEST_BACKEND` selects; SQLite by default.
    ///
    /// # Panics
    /// When the variable is neither `sqlite` nor `postgres`.
    #[must_use]
    pub fn chosen() -> Self {
        match std::env::var(VARIABLE).as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("{VARIABLE}={other}: neither sqlite nor postgres"),
        }
    }
}

/// Calls `use_database` with the PostgreSQL database of a data folder and returns the result.
///
/// # Errors
/// When the folder has no PostgreSQL database.
pub(crate) fn with_database_of<T>(
    data_dir: &Path,
    use_database: impl FnOnce(&TestDatabase) -> T,
) -> Result<T> {
    let installations = INSTALLATIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let installation =
        installations.get(data_dir).context("no server was started on this folder")?;
    Ok(use_database(installation.database()))
}

/// Creates a PostgreSQL database with an empty schema.
///
/// # Panics
/// When PostgreSQL is not installed.
#[must_use]
pub fn empty_database() -> TestDatabase {
    TestCluster::shared().database_with_schema(SCHEMA)
}

/// A PostgreSQL database and its master key.
pub struct Installation {
    database: TestDatabase,
    master_key: String,
}

impl Installation {
    /// Creates a database with an empty schema, and a master key.
    ///
    /// # Panics
    /// When PostgreSQL is not installed.
    #[must_use]
    pub fn make() -> Self {
        Self { database: empty_database(), master_key: new_master_key() }
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// The settings with which a server uses the database.
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

    /// The settings of the database of a data folder. The first call creates the database. `None` on SQLite.
    #[must_use]
    pub fn of(backend: Backend, data_dir: &Path) -> Option<Self> {
        match backend {
            Backend::Sqlite => None,
            Backend::Postgres => {
                let mut installations =
                    INSTALLATIONS.lock().unwrap_or_else(PoisonError::into_inner);
                let installation =
                    installations.entry(data_dir.to_owned()).or_insert_with(Installation::make);
                Some(installation.settings())
            }
        }
    }

    /// A server configuration with these settings and defaults for all others.
    ///
    /// # Errors
    /// When the server rejects the settings.
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
        anyhow::ensure!(again.api_key.is_none(), "a second start finds the keys of the first");
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
