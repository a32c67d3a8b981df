//! T15: PostgreSQL stops or freezes under load. It is stopped cleanly, it is stopped as in a crash, its main
//! process is killed, and its processes are suspended. Callers get responses in time, no accepted notification
//! is lost or repeated, and the server recovers without help.
//!
//! `NOTIFY_DATABASE_RUNS=50` makes more outages; `NOTIFY_CRASH_SEED` repeats the times of an earlier run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use notify_tests::{Cluster, Frozen, Settings, StopMode};

use crate::db_outage::{Answers, Served};
use crate::setting;

/// The longest time of load before each outage.
const BEFORE_MS: u64 = 2_000;
/// The shortest duration of an outage, in addition to the requests that are made during it.
const AWAY: Duration = Duration::from_millis(1_500);

/// The way in which the database fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// PostgreSQL is stopped cleanly.
    Fast,
    /// PostgreSQL is stopped as in a crash.
    Immediate,
    /// The postmaster is killed. The other processes then end.
    Killed,
    /// The postmaster is suspended. Open connections work, but no new ones can be made.
    Deaf,
    /// All processes are suspended.
    Frozen,
}

impl Outage {
    const ALL: [Self; 5] = [Self::Fast, Self::Immediate, Self::Killed, Self::Deaf, Self::Frozen];

    async fn begin(self, cluster: &mut Cluster) -> Result<()> {
        match self {
            Self::Fast => cluster.stop(StopMode::Fast).await,
            Self::Immediate => cluster.stop(StopMode::Immediate).await,
            Self::Killed => cluster.kill().await,
            Self::Deaf => cluster.freeze(Frozen::Postmaster).await,
            Self::Frozen => cluster.freeze(Frozen::All).await,
        }
    }

    async fn end(self, cluster: &mut Cluster) -> Result<()> {
        match self {
            Self::Fast | Self::Immediate | Self::Killed => cluster.start().await,
            Self::Deaf | Self::Frozen => cluster.thaw().await,
        }
    }

    /// Checks the responses to callers during this outage, and returns the last ones.
    async fn probe(self, served: &Served, name: &str) -> Result<Answers> {
        match self {
            // A request that needs a further connection gets a 503. The connections that stand serve others.
            Self::Deaf => served.until_served(name).await,
            // The other processes may need some time to end after the postmaster.
            Self::Killed => served.probe(name).await,
            Self::Fast | Self::Immediate | Self::Frozen => {
                let answers = served.probe(name).await?;
                ensure!(!answers.accepts && !answers.is_ready, "{name}: there is no database");
                Ok(answers)
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stops_or_freezes_loses_and_repeats_nothing() -> Result<()> {
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    let runs: u32 = setting("NOTIFY_DATABASE_RUNS").unwrap_or(1);
    println!("T15, outages: NOTIFY_DATABASE_RUNS={runs} NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let mut cluster = Cluster::make().await?;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", cluster.port());
    let mut served = Served::start(folder.path(), &Settings::new(url), &mut rng).await?;
    let (mut again, mut within) = (Duration::ZERO, Duration::ZERO);
    for nth in 0..runs {
        let mut outages = Outage::ALL;
        rng.shuffle(&mut outages);
        for outage in outages {
            let name = format!("{outage:?}-{nth}");
            served.load.go_on(Duration::from_millis(rng.u64(..BEFORE_MS))).await?;
            outage.begin(&mut cluster).await.with_context(|| name.clone())?;
            served.load.go_on(AWAY).await?;
            let answers = outage.probe(&served, &name).await?;
            outage.end(&mut cluster).await.with_context(|| name.clone())?;
            let took = served.recovered(&name).await?;
            println!("{name}: answers within {:.1?}, on again after {took:.1?}", answers.within);
            (again, within) = (again.max(took), within.max(answers.within));
        }
    }
    let verdict = served.judge().await?;
    println!(
        "T15, outages: {runs} × {}, {} pairs, 0 lost, 0 repeats, answers within {within:.1?}, on \
         again within {again:.1?}",
        Outage::ALL.len(),
        verdict.pairs
    );
    Ok(())
}
