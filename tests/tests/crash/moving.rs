//! The move of an installation while it works. A server on SQLite is killed under load. Moves, which are
//! killed too, copy all rows to PostgreSQL. The work continues there and is then moved back to another file.
//! No accepted notification is lost, and the moves repeat no message.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;
use notify_tests::{Installation, Launch, RestartableServer};

use crate::load::{Load, script_errors};
use crate::{CREDIT, launch, setting};

/// The time for which each database serves.
const SERVED: Duration = Duration::from_secs(2);
/// The numbers of commits after which a move is killed and started again.
const KILLED_AT: [u32; 3] = [1, 4, 9];

/// Moves the database of a launch. The move is killed several times.
async fn moved(from: &Launch, to: &str) -> Result<()> {
    // In the environment, other users cannot see the password.
    let launch = from.clone().argument("move").variable("NOTIFY_MOVE_TO", to);
    for commits in KILLED_AT {
        let dies_at = format!("move committed {commits}");
        let dying = launch.clone().program("dying-server").variable("NOTIFY_DIES_AT", &dies_at);
        let (status, output) = dying.ended().await?;
        ensure!(status.code().is_none(), "it was to be killed at {commits}: {status} {output}");
    }
    let (status, output) = launch.answered().await?;
    ensure!(
        status.success() && output.contains("both databases hold the same"),
        "{status}: {output}"
    );
    for secret in ["postgres@", "password"] {
        ensure!(!output.contains(secret), "{output}");
    }
    let (status, output) = from.ended().await?;
    ensure!(!status.success() && output.contains("was moved to"), "{status}: {output}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_copied_between_backends_loses_nothing() -> Result<()> {
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let key = |launch: Launch| launch.variable("NOTIFY_MASTER_KEY", &settings.master_key);
    let file = key(launch(&folder.path().join("data")).on_file());
    let database = launch(&folder.path().join("unused")).installation(&settings);
    let back = key(launch(&folder.path().join("back")).on_file());

    let mut server = RestartableServer::start(file.clone()).await?;
    let mut load = Load::prepare(&server, 1, &folder.path().join("request_log")).await?;
    script_errors(&server, &mut rng)?;
    load.begin(&server, &mut rng);
    load.go_on(SERVED).await?;
    server.kill(CREDIT).await?;
    moved(&file, &settings.database_url).await?;
    server.launch = database.clone();
    server.start_again().await?;
    load.go_on(SERVED).await?;
    // A killed server counts as alive until its lease expires, and the move would wait for it.
    server.stop().await?;
    std::fs::create_dir(back.data_dir())?;
    moved(&database, &format!("sqlite:{}", back.data_dir().display())).await?;
    server.launch = back;
    server.start_again().await?;
    load.go_on(SERVED).await?;
    load.end().await?;
    load.drain(&server).await?;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    ensure!(verdict.repeated() <= CREDIT, "{} repeats of one kill", verdict.repeated());
    println!("{} pairs, 0 lost, {} repeats", verdict.pairs, verdict.repeated());
    server.stop().await?;
    server.sandbox.stop().await;
    Ok(())
}
