//! `notify-server confirm-clock`: the clock leapt, and it is right now.

use anyhow::{Context, ensure};

use crate::app::open_store;
use crate::config::Config;

use super::print;

/// Makes the servers of the database trust their clock. They check once a minute while they distrust it.
pub(super) async fn confirm(config: &Config) -> anyhow::Result<()> {
    let database = config.database();
    let is_there = config.database_url.is_some() || database.exists();
    ensure!(is_there, "there is no database at {}", database.display());
    let store = open_store(config, false).await?;
    let is_confirmed = store.confirm_clock().await.context("the clock was not confirmed")?;
    store.close().await;
    print(if is_confirmed {
        "the clock is confirmed: running servers apply this within a minute"
    } else {
        "the clock is trusted already: there is nothing to confirm"
    })
}
