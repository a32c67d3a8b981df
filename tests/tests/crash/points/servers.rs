//! The points of a server among others: it says that it lives, and that it leaves.

use anyhow::{Context, Result, ensure};
use notify_tests::Installation;

use super::{STAGES, dying, ensure_aborted};
use crate::launch;

/// What is ended here.
pub(super) fn operations() -> Vec<&'static str> {
    vec!["heartbeat", "leave"]
}

#[tokio::test]
async fn a_server_that_ends_while_it_says_that_it_lives_or_leaves_is_in_nobodys_way() -> Result<()>
{
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let normal = launch(folder.path()).installation(&settings);
    normal.start().await?.terminate().await?;
    for stage in STAGES {
        let dying = dying(folder.path(), "heartbeat", stage, 1).installation(&settings);
        // It may listen for a moment before that.
        let status = match dying.begin().await? {
            Ok(running) => running.ended().await?,
            Err(status) => status,
        };
        ensure_aborted(status).with_context(|| format!("heartbeat {stage}"))?;
    }
    for stage in STAGES {
        let server =
            dying(folder.path(), "leave", stage, 1).installation(&settings).start().await?;
        server.ask_to_stop().await?;
        ensure_aborted(server.ended().await?).with_context(|| format!("leave {stage}"))?;
    }
    let server = normal.start().await?;
    let status = server.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}
