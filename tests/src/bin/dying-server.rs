//! `notify-server` that ends at the point in `NOTIFY_DIES_AT`: `what stage hit`, such as `checkpoint
//! written 2` (see `notify_server::failpoint`). Without it, an ordinary server.

use anyhow::{Context, Result};
use notify_server::{cli, commands, failpoint};

fn main() -> Result<()> {
    if let Ok(point) = std::env::var("NOTIFY_DIES_AT") {
        let words: Vec<&str> = point.split(' ').collect();
        let [what, stage, hit] = words[..] else { anyhow::bail!("{point}: is no point") };
        failpoint::die_at(what, stage, hit.parse().context("the hit is a number")?);
    }
    let matches = cli::command().get_matches();
    let config = cli::settings(&matches, &|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(commands::perform(cli::action(&matches), config))
}
