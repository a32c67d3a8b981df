//! T15: a primary is killed under load, and its synchronous standby is promoted. No accepted notification is
//! lost, callers get responses in time, and the server finds the new primary without help. Then the killed
//! primary becomes the standby, and the test repeats.
//!
//! `NOTIFY_PROMOTION_RUNS=20` makes more promotions; `NOTIFY_CRASH_SEED` repeats the times of an earlier run.

use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use notify_tests::{Cluster, Settings, until};

use crate::db_outage::Served;
use crate::setting;

/// The longest time of load before each kill.
const BEFORE_MS: u64 = 2_000;

/// A primary and its synchronous standby. The primary commits nothing without the standby.
struct Pair {
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    async fn make() -> Result<Self> {
        let primary = Cluster::make().await?;
        let standby = Cluster::standby_of(&primary).await?;
        let mut pair = Self { primary, standby };
        pair.synchronise().await?;
        Ok(pair)
    }

    /// Makes commits wait for the standby from now on. A copy made after it would wait for a
    /// standby of its own.
    async fn synchronise(&mut self) -> Result<()> {
        self.primary.query("alter system set synchronous_standby_names = '*'").await?;
        self.primary.query("select pg_reload_conf()").await?;
        until("commits wait for the standby", async || {
            let state = self.primary.query("select sync_state from pg_stat_replication").await?;
            Ok((state == "sync").then_some(()))
        })
        .await
    }

    /// The URL with both servers, always in the same order.
    fn url(&self) -> String {
        let (primary, standby) = (self.primary.port(), self.standby.port());
        format!(
            "postgres://postgres@127.0.0.1:{primary},127.0.0.1:{standby}/postgres\
             ?target_session_attrs=read-write&sslmode=disable"
        )
    }

    /// Makes the killed server a standby of the promoted one.
    async fn rebuild(&mut self) -> Result<()> {
        std::mem::swap(&mut self.primary, &mut self.standby);
        self.standby.follow(&self.primary).await?;
        self.synchronise().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_has_everything_that_was_accepted() -> Result<()> {
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    let runs: u32 = setting("NOTIFY_PROMOTION_RUNS").unwrap_or(1);
    println!("T15, promotion: NOTIFY_PROMOTION_RUNS={runs} NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let mut pair = Pair::make().await?;
    let mut served = Served::start(folder.path(), &Settings::new(pair.url()), &mut rng).await?;
    let (mut again, mut within) = (Duration::ZERO, Duration::ZERO);
    for nth in 0..runs {
        let name = format!("promotion-{nth}");
        if nth > 0 {
            pair.rebuild().await.with_context(|| name.clone())?;
        }
        served.load.go_on(Duration::from_millis(rng.u64(..BEFORE_MS))).await?;
        pair.primary.kill().await?;
        let answers = served.probe(&name).await?;
        pair.standby.promote().await.with_context(|| name.clone())?;
        let took = served.recovered(&name).await?;
        println!("{name}: answers within {:.1?}, on again after {took:.1?}", answers.within);
        (again, within) = (again.max(took), within.max(answers.within));
    }
    let verdict = served.judge().await?;
    println!(
        "T15, promotion: {runs} kills of the primary, {} pairs, 0 lost, 0 repeats, answers within \
         {within:.1?}, on again within {again:.1?}",
        verdict.pairs
    );
    Ok(())
}
