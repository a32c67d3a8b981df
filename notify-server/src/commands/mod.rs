//! The subcommands. Their results go to standard output through `print`; the log goes to standard
//! error.

mod credentials;
mod healthcheck;
mod keys;
mod moving;
mod restoring;
#[cfg(feature = "sandbox")]
mod sandbox;
mod serve;
mod signals;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, ensure};

use crate::app::{AppError, open_store, refuse_missing_database};
use crate::cli::Action;
use crate::config::{Config, MASTER_KEY_FILE, MASTER_KEY_VARIABLE, unknown_variables};
use crate::store::{Store, sqlite};
use crate::telemetry::start_log;

/// Performs an action.
///
/// # Errors
/// When the action fails. The error is written for an operator.
pub async fn perform(action: Action, config: Config) -> anyhow::Result<()> {
    start_log(&config.log, config.log_format)?;
    if action == Action::Serve {
        for warning in unknown_variables(std::env::vars_os()) {
            tracing::warn!("{warning}");
        }
    }
    match action {
        Action::Serve => serve::serve(config).await,
        Action::CreateApp { name, json } => keys::create_app(&config, name, json).await,
        Action::CreateAdminKey { json } => keys::create_admin_key(&config, json).await,
        Action::OpenApi => print(&crate::openapi_json()),
        Action::Backup { file } => backup(&config, file).await,
        Action::Restore(restore) => restoring::run(&config, restore).await,
        Action::ConfirmClock => confirm_clock(&config).await,
        Action::ForgetCredentials => credentials::forget(&config).await,
        Action::Healthcheck { url } => healthcheck::check(&config, url).await,
        Action::Move { to } => moving::run(&config, to).await,
        Action::UndoMove => moving::undo(&config).await,
        #[cfg(feature = "sandbox")]
        Action::Sandbox { listen, with_server } => sandbox::run(listen, with_server).await,
    }
}

/// Opens the database, and creates it if it is missing. After it created a database, it prints the
/// data folder, because the operator may have meant another folder.
async fn open_or_create(config: &Config) -> anyhow::Result<Arc<Store>> {
    let is_new = config.database_url.is_none() && !config.database_path().exists();
    let store = open_store(config, false).await?;
    if is_new {
        let folder = std::path::absolute(&config.data_dir)?;
        let line = format!("created an installation in {}", folder.display());
        writeln!(std::io::stderr(), "{line}").context("cannot write to standard error")?;
    }
    Ok(store)
}

/// Opens the database. Refuses a folder without a database.
async fn open_existing(config: &Config) -> anyhow::Result<Arc<Store>> {
    let path = config.database_path();
    if config.database_url.is_none() && !path.exists() {
        refuse_missing_database(config, &path)?;
        return Err(AppError::NoInstallation(config.data_dir.clone()).into());
    }
    Ok(open_store(config, false).await?)
}

/// A description of where the master key of an installation is.
fn master_key_place(config: &Config) -> String {
    match (&config.master_key, &config.master_key_file) {
        (Some(_), _) => format!("the key in {MASTER_KEY_VARIABLE}"),
        (None, Some(file)) => file.display().to_string(),
        // A database on PostgreSQL has no key file next to it.
        (None, None) if config.database_url.is_some() => "the key that its servers had".to_owned(),
        (None, None) => config.data_dir.join(MASTER_KEY_FILE).display().to_string(),
    }
}

/// Writes a line to standard output. It is not an error if the reader of the output has ended.
fn print(line: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{line}").and_then(|()| output.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// `notify-server confirm-clock`: makes the servers of the database trust their clock again after
/// it jumped. Servers check for a confirmation once a minute while they do not trust the clock.
async fn confirm_clock(config: &Config) -> anyhow::Result<()> {
    let database = config.database_path();
    let exists = config.database_url.is_some() || database.exists();
    ensure!(exists, "there is no database at {}", database.display());
    let store = open_store(config, false).await?;
    let is_confirmed = store.confirm_clock().await.context("the clock was not confirmed")?;
    store.close().await;
    print(if is_confirmed {
        "the clock is confirmed: running servers apply this within a minute"
    } else {
        "the clock is trusted already: there is nothing to confirm"
    })
}

/// `notify-server backup`: copies the database to a new file. The copy is consistent, also while
/// the server runs.
async fn backup(config: &Config, file: PathBuf) -> anyhow::Result<()> {
    ensure!(
        config.database_url.is_none(),
        "a PostgreSQL database is copied by its own tool: pg_dump --format=custom --schema=NAME, by \
         default the schema public; keep the master key too, in another place"
    );
    let database = config.database_path();
    ensure!(database.exists(), "there is no database at {}", database.display());
    ensure!(!file.exists(), "{} exists already", file.display());
    let target = file.clone();
    let copying = tokio::task::spawn_blocking(move || sqlite::backup(&database, &target));
    copying.await.context("the copy was interrupted")?.context("the database was not copied")?;
    print(&format!("copied to {}", file.display()))?;
    let master_key = master_key_place(config);
    print(&format!(
        "keep the master key too, in another place: {master_key}; without it the copy's provider \
         credentials cannot be opened"
    ))
}
