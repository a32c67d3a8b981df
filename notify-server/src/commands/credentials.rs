//! `notify-server forget-credentials`: deletes the credentials that were sealed with a lost master
//! key. The providers stay configured without credentials, so that messages wait for new
//! credentials instead of failing.

use anyhow::ensure;
use notify_core::App;

use super::print;
use crate::app::{existing_master_key, open_store};
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::secrets::MasterKey;
use crate::store::{PageRequest, ProviderRow, Store};

/// Applications that are read at a time.
const APPS_PER_PAGE: u32 = 100;

/// Deletes all credentials that the current master key does not open. Without a master key, these
/// are all credentials.
pub(super) async fn forget(config: &Config) -> anyhow::Result<()> {
    let database = config.database_path();
    let exists = config.database_url.is_some() || database.exists();
    ensure!(exists, "there is no database at {}", database.display());
    let store = open_store(config, true).await?;
    let key = existing_master_key(config)?;
    let forgotten = forget_in(&store, key.as_ref()).await?;
    store.close().await;
    print(&format!(
        "forgot the credentials of {forgotten} providers; the other providers are unchanged"
    ))
}

/// Deletes all credentials in a database that the master key does not open. Returns the number of providers
/// that lost their credentials.
pub(super) async fn forget_in(store: &Store, key: Option<&MasterKey>) -> anyhow::Result<usize> {
    let (mut forgotten, mut cursor) = (0, None);
    loop {
        let page = store.list_apps(PageRequest { limit: APPS_PER_PAGE, cursor }).await?;
        for app in page.rows {
            forgotten += forget_of_app(store, key, &app).await?;
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(forgotten);
        }
    }
}

/// Deletes the credentials of an application that the master key does not open. Returns the number
/// of providers that lost their credentials.
async fn forget_of_app(store: &Store, key: Option<&MasterKey>, app: &App) -> anyhow::Result<usize> {
    let mut forgotten = 0;
    for row in store.providers(app.id).await? {
        let can_open = key.is_some_and(|key| key.open(app.id, row.provider, &row.sealed).is_ok());
        if can_open || row.sealed.is_empty() {
            continue;
        }
        let (provider, updated_at) = (row.provider, SystemClock::start().now());
        let empty = ProviderRow { provider, sealed: Vec::new(), updated_at };
        store.put_provider(app.id, empty).await?;
        print(&format!("forgot {} of {} ({})", provider.as_str(), app.name, app.id))?;
        forgotten += 1;
    }
    Ok(forgotten)
}
