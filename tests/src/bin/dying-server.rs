//! A `notify-server` that ends at the point in `NOTIFY_DIES_AT`, such as `checkpoint written 2`. The three
//! words are the operation, its stage and the number of the hit (see `notify_server::failpoint`). With
//! `NOTIFY_HAS_MADE_UP_MIGRATION`, it is a later version, which has one more migration. Without these
//! variables it is an ordinary server.

use anyhow::{Context, Result};
use notify_server::store::sqlite;
use notify_server::{cli, commands, failpoint};

fn main() -> Result<()> {
    if let Ok(point) = std::env::var("NOTIFY_DIES_AT") {
        let words: Vec<&str> = point.split(' ').collect();
        let [operation, stage, hit] = words[..] else { anyhow::bail!("{point}: is not a point") };
        failpoint::die_at(operation, stage, hit.parse().context("the hit is a number")?);
    }
    if std::env::var_os("NOTIFY_HAS_MADE_UP_MIGRATION").is_some() {
        sqlite::use_made_up_migration();
    }
    let matches = cli::command().get_matches();
    let config = cli::settings(&matches, &|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(commands::perform(cli::action(&matches), config))
}
