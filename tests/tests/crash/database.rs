//! T15: the connection to PostgreSQL fails under load in all ways in which a network fails. Callers get
//! responses in time, no accepted notification is lost or repeated, and the server recovers without help.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use notify_tests::{Fault, FaultProxy, Installation, Settings, Side, until};

use crate::db_outage::Served;
use crate::setting;

/// The duration of the load before, during and after each fault.
const SPELL: Duration = Duration::from_millis(1_500);
/// The latency of a database in another city.
const FAR: Duration = Duration::from_millis(20);
/// The bytes after which a connection breaks: enough for several statements.
const FEW_BYTES: u64 = 20_000;

/// A fault of the network or of the database.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// All bytes are delayed, in both directions.
    Far,
    /// All connections are reset repeatedly.
    Cut,
    /// Connections break after some statements, often within a statement.
    Short,
    /// All bytes are lost, and neither side notices.
    Blackhole,
    /// The connections close on the database's side, and the server does not notice.
    LostServer,
    /// The connections close on the server's side, and the database does not notice.
    LostClient,
    /// The database ends every session.
    Terminated,
}

impl Trouble {
    const ALL: [Self; 7] = [
        Self::Far,
        Self::Cut,
        Self::Short,
        Self::Blackhole,
        Self::LostServer,
        Self::LostClient,
        Self::Terminated,
    ];

    /// Applies the fault for a while. Returns the longest time that a caller waited for a response.
    async fn pass(self, rig: &mut Rig, nth: u32) -> Result<Duration> {
        let proxy = &rig.proxy;
        match self {
            Self::Far => proxy.set(Fault::Delay(FAR)),
            Self::Short => proxy.set(Fault::CutAfter(FEW_BYTES)),
            Self::Blackhole => proxy.set(Fault::Blackhole),
            Self::LostServer => proxy.hang_up(Side::Server),
            Self::LostClient => proxy.hang_up(Side::Client),
            Self::Cut | Self::Terminated => {}
        }
        for _ in 0..4 {
            match self {
                Self::Cut => rig.proxy.cut_all(),
                Self::Terminated => rig.terminate(),
                Self::Far | Self::Short | Self::Blackhole | Self::LostServer | Self::LostClient => {
                }
            }
            rig.served.load.go_on(SPELL / 4).await?;
        }
        let answers = rig.served.probe(&format!("during-{self:?}-{nth}")).await?;
        let is_away = matches!(self, Self::Blackhole);
        ensure!(!is_away || !answers.is_ready, "/readyz says that it is ready");
        rig.proxy.set(Fault::Pass);
        Ok(answers.within)
    }
}

/// A server under load, whose database is behind a proxy with faults.
struct Rig {
    installation: Installation,
    proxy: FaultProxy,
    served: Served,
}

impl Rig {
    async fn start(folder: &std::path::Path, rng: &mut Rng) -> Result<Self> {
        let installation = Installation::make();
        let direct = installation.settings();
        let mut url = url::Url::parse(&direct.database_url)?;
        let port = url.port().context("the url has a port")?;
        let proxy = FaultProxy::start(SocketAddr::from(([127, 0, 0, 1], port))).await?;
        ensure!(url.set_port(Some(proxy.address().port())).is_ok(), "a url with a host");
        let behind = Settings { database_url: url.into(), ..direct };
        let served = Served::start(folder, &behind, rng).await?;
        Ok(Self { installation, proxy, served })
    }

    /// Ends all sessions of the database except the session of this query.
    fn terminate(&self) {
        self.installation.database().execute(
            "select pg_terminate_backend(pid) from pg_stat_activity
              where datname = current_database() and pid <> pg_backend_pid()",
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_faults_to_the_database_lose_and_repeat_nothing() -> Result<()> {
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    let runs: u32 = setting("NOTIFY_DATABASE_RUNS").unwrap_or(1);
    println!("T15, the line: NOTIFY_DATABASE_RUNS={runs} NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let mut rig = Rig::start(folder.path(), &mut rng).await?;
    let (mut longest, mut answer) = (Duration::ZERO, Duration::ZERO);
    for nth in 0..runs {
        let mut troubles = Trouble::ALL;
        rng.shuffle(&mut troubles);
        for trouble in troubles {
            rig.served.load.go_on(SPELL).await.with_context(|| format!("before {trouble:?}"))?;
            answer = answer.max(trouble.pass(&mut rig, nth).await?);
            longest = longest.max(rig.served.recovered(&format!("{trouble:?}-{nth}")).await?);
        }
    }
    let Rig { served, proxy, .. } = rig;
    let verdict = served.judge().await?;
    println!(
        "T15, the line: {runs} × {} troubles, {} pairs, 0 lost, 0 repeats, answers within {answer:.1?}, on \
         again within {longest:.1?}",
        Trouble::ALL.len(),
        verdict.pairs
    );
    // Only the proxy still holds the connections that lost bytes.
    proxy.cut_all();
    until("no connection is left", async || Ok((proxy.open_connections() == 0).then_some(()))).await
}
