//! A `notify-server` that ends at the point in `NOTIFY_DIES_AT`, such as `checkpoint written 2`. The three
//! words are the operation, its stage and the number of the hit (see `notify_server::failpoint`). Without
//! the variable it is an ordinary server.

use anyhow::{Context, Result};
use notify_server::{cli, commands, failpoint};

fn main() -> Result<()> {
    if let Ok(point) = std::env::var("NOTIFY_DIES_AT") {
        let words: Vec<&str> = point.split(' ').collect();
        let [operation, stage, hit] = words[..] else { anyhow::bail!("{point}: is not a point") };
        failpoint::die_at(operation, stage, hit.parse().context("the hit is a number")?);
    }
    let matches = cli::command().get_matches();
    let config = cli::settings(&matches, &|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(commands::perform(cli::action(&matches), config))
}
