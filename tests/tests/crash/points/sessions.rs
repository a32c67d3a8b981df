//! Crash points of the console's sessions.

use anyhow::{Result, ensure};
use notify_tests::{Operator, RestartableServer};

use super::{STAGES, dying, ensure_aborted};
use crate::{CREDIT, launch};

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    vec!["create_session", "end_session"]
}

async fn sessions(server: &RestartableServer) -> usize {
    let list = server.admin().get("/admin/v1/sessions").await.ok();
    list["sessions"].as_array().map_or(0, Vec::len)
}

fn origin(server: &RestartableServer) -> Result<String> {
    Ok(server.running()?.origin.clone())
}

#[tokio::test]
async fn a_session_exists_completely_or_not_at_all_when_the_process_ends() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    for (stage, created) in STAGES.into_iter().zip([0, 1]) {
        let before = sessions(&server).await;
        server.kill(CREDIT).await?;
        server.start_again_as(&dying(folder.path(), "create_session", stage, 1)).await?;
        let answered = Operator::sign_in(&origin(&server)?, &server.admin_key).await;
        ensure!(answered.is_err(), "it is answered though it ends there: {answered:?}");
        ensure_aborted(server.ended(CREDIT).await?)?;
        server.start_again().await?;
        ensure!(sessions(&server).await == before + created, "{stage}");
    }
    for (stage, is_ended) in STAGES.into_iter().zip([false, true]) {
        let operator = Operator::sign_in(&origin(&server)?, &server.admin_key).await?;
        let token = operator.token().await?;
        server.kill(CREDIT).await?;
        server.start_again_as(&dying(folder.path(), "end_session", stage, 1)).await?;
        // The address of a server changes with each start; a browser keeps its cookie.
        let browser = operator.moved_to(&origin(&server)?);
        let answered = browser.submit_as_is("sign-out", &[("token", token)]).await;
        ensure!(answered.is_err(), "it is answered though it ends there: {answered:?}");
        ensure_aborted(server.ended(CREDIT).await?)?;
        server.start_again().await?;
        let page = operator.moved_to(&origin(&server)?).get("").await;
        ensure!((page.status == 303) == is_ended, "{stage}: {page:?}");
    }
    server.stop().await?;
    server.sandbox.stop().await;
    Ok(())
}
