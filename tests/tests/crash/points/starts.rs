//! The crash points of a first start, of any start, of a stop, and of the commands.

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_tests::{Caller, DatabaseInspector, Launch, RestartableServer};
use serde_json::json;

use super::{STAGES, dying, ensure_aborted};
use crate::{CREDIT, launch};

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    vec![
        "bootstrap",
        "replace_unshown_keys",
        "keys_shown",
        "add_admin_key",
        "touch_keys",
        "keep_clock",
        "confirm_clock",
        "delete_expired",
        "remove_erased_ids",
        "correct_offsets",
        "resume_erasing",
        "claim_feeds",
        "finish_feed",
    ]
}

fn admin_key_create(launch: &Launch) -> Launch {
    launch.clone().argument("admin-key").argument("create").argument("--json")
}

#[tokio::test]
async fn keys_that_a_crashed_first_start_did_not_show_are_shown_by_the_next() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for operation in ["bootstrap", "replace_unshown_keys"] {
        for stage in STAGES {
            let (status, output) = dying(folder.path(), operation, stage, 1).answered().await?;
            ensure_aborted(status).with_context(|| format!("{operation} {stage}"))?;
            assert_eq!(output, "", "{operation} {stage}");
        }
    }
    let mut shown = Vec::new();
    for stage in STAGES {
        let (status, output) = dying(folder.path(), "keys_shown", stage, 1).answered().await?;
        ensure_aborted(status).with_context(|| format!("keys_shown {stage}"))?;
        let key = output.lines().find_map(|line| line.strip_prefix("admin key: "));
        shown.push(key.with_context(|| format!("{stage}: {output}"))?.to_owned());
    }
    let server = launch(folder.path()).start().await?;
    assert_eq!(server.admin_key, None, "they were shown");
    for key in shown {
        let apps = Caller::admin(&server.origin, &key).get("/admin/v1/apps").await.ok();
        assert_eq!(apps["apps"].as_array().map(Vec::len), Some(1), "{apps}");
    }
    server.kill().await
}

#[tokio::test]
async fn a_clock_confirmation_is_atomic() -> Result<()> {
    let folder = tempfile::tempdir()?;
    launch(folder.path()).start().await?.kill().await?;
    let doubts =
        || DatabaseInspector::of(folder.path())?.number("select clock_in_doubt from installation");
    DatabaseInspector::of(folder.path())?.change("update installation set clock_in_doubt = 1")?;
    for (stage, left) in STAGES.into_iter().zip([1, 0]) {
        let command = dying(folder.path(), "confirm_clock", stage, 1).argument("confirm-clock");
        let (status, output) = command.answered().await?;
        ensure_aborted(status).with_context(|| format!("confirm_clock {stage}"))?;
        assert_eq!((doubts()?, output.as_str()), (left, ""), "{stage}");
    }
    let (status, output) = launch(folder.path()).argument("confirm-clock").answered().await?;
    ensure!(status.success(), "{status}");
    assert!(output.contains("there is nothing to confirm"), "{output}");
    Ok(())
}

#[tokio::test]
async fn the_creation_of_an_admin_key_is_atomic() -> Result<()> {
    let folder = tempfile::tempdir()?;
    launch(folder.path()).start().await?.kill().await?;
    let keys = || DatabaseInspector::of(folder.path())?.number("select count(*) from admin_keys");
    for (stage, made) in STAGES.into_iter().zip([0, 1]) {
        let before = keys()?;
        let command = admin_key_create(&dying(folder.path(), "add_admin_key", stage, 1));
        let (status, output) = command.answered().await?;
        ensure_aborted(status).with_context(|| format!("add_admin_key {stage}"))?;
        assert_eq!((keys()? - before, output.as_str()), (made, ""), "{stage}");
    }
    Ok(())
}

#[tokio::test]
async fn a_crash_during_a_stop_loses_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    let device = json!({"device_id": "d", "platform": "android", "sdk_type": "android_push"});
    server.caller().post("/v1/devices", &device).await.ok();
    server.kill(CREDIT).await?;
    for stage in STAGES {
        server.start_again_as(&dying(folder.path(), "touch_keys", stage, 1)).await?;
        // The last use of a key is written at the stop.
        server.caller().get("/v1/devices/d").await.ok();
        server.running()?.ask_to_stop().await?;
        ensure_aborted(server.ended(CREDIT).await.with_context(|| format!("touch_keys {stage}"))?)?;
    }
    server.start_again().await?;
    server.caller().get("/v1/devices/d").await.ok();
    server.stop().await?;
    DatabaseInspector::of(folder.path())?;
    Ok(())
}

#[tokio::test]
async fn crashed_starts_continue_retention_and_erasure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    let made = server.admin().post("/admin/v1/apps", &json!({"name": "gone"})).await.ok();
    let path = format!("/admin/v1/apps/{}", made["id"].as_str().context("an id")?);
    server.kill(CREDIT).await?;
    for operation in ["keep_clock", "delete_expired"] {
        for stage in STAGES {
            let dying = dying(folder.path(), operation, stage, 1);
            ensure_aborted(server.ended_at_start(&dying, CREDIT).await?)
                .with_context(|| format!("{operation} {stage}"))?;
        }
    }
    for stage in STAGES {
        let erased = "insert into erased_ids (app_no, kind, id, last_no, searched_to, erased_at)
            select min(no), 0, 'gone', 0, 0, 0 from apps where true on conflict do nothing";
        DatabaseInspector::of(folder.path())?.change(erased)?;
        let dying = dying(folder.path(), "remove_erased_ids", stage, 1);
        ensure_aborted(server.ended_at_start(&dying, CREDIT).await?)
            .with_context(|| format!("remove_erased_ids {stage}"))?;
    }
    for stage in STAGES {
        DatabaseInspector::of(folder.path())?
            .change("update installation set zone_offsets = null")?;
        let dying = dying(folder.path(), "correct_offsets", stage, 1);
        ensure_aborted(server.ended_at_start(&dying, CREDIT).await?)
            .with_context(|| format!("correct_offsets {stage}"))?;
    }
    server.start_again_as(&dying(folder.path(), "delete_app", "committed", 1)).await?;
    ensure!(server.admin().send(&Method::DELETE, &path, "").await.is_err(), "it ended");
    ensure_aborted(server.ended(CREDIT).await?)?;
    for stage in STAGES {
        let dying = dying(folder.path(), "resume_erasing", stage, 1);
        ensure_aborted(server.ended_at_start(&dying, CREDIT).await?)
            .with_context(|| format!("resume_erasing {stage}"))?;
    }
    server.start_again().await?;
    assert_eq!(server.admin().send(&Method::GET, &path, "").await?.status, 404);
    server.stop().await?;
    let left = "select count(*) from apps where status = 'erasing'";
    let left_ids = "select count(*) from erased_ids";
    assert_eq!(DatabaseInspector::of(folder.path())?.number(left)?, 0, "nothing is half erased");
    assert_eq!(DatabaseInspector::of(folder.path())?.number(left_ids)?, 0);
    let corrected = "select count(*) from installation where zone_offsets is not null";
    assert_eq!(DatabaseInspector::of(folder.path())?.number(corrected)?, 1);
    Ok(())
}

#[tokio::test]
async fn a_feed_fetch_interrupted_anywhere_is_repeated() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    server.kill(CREDIT).await?;
    for operation in ["claim_feeds", "finish_feed"] {
        for stage in STAGES {
            let name = format!("{operation} {stage}");
            let dies = dying(folder.path(), operation, stage, 1);
            // The feed that the process before left may be fetched before the server listens.
            let status = match server.begin_again_as(&dies, CREDIT).await? {
                Some(status) => status,
                None => {
                    // The port is closed. The response may be lost with the process.
                    let url = format!("http://127.0.0.1:1/{operation}/{stage}");
                    let body = json!({"url": url, "name": "f"}).to_string();
                    let _ = server.caller().send(&Method::POST, "/v1/feeds", body).await;
                    server.ended(CREDIT).await.with_context(|| name.clone())?
                }
            };
            ensure_aborted(status).with_context(|| name.clone())?;
            // Claims expire by the clock. The test lets them expire at once.
            let written = "update feeds set next_fetch_at = 0 where status = 'pending'";
            DatabaseInspector::of(folder.path())?.change(written)?;
        }
    }
    server.start_again().await?;
    let caller = server.caller();
    notify_tests::until("every feed was fetched", async || {
        let listed = caller.get("/v1/feeds").await.ok();
        let feeds = listed["feeds"].as_array().context("feeds")?;
        // The feed of the process before is due at a start. The start may end before the test requests
        // another feed.
        let is_done = !feeds.is_empty() && feeds.iter().all(|feed| feed["status"] == "failing");
        Ok(is_done.then_some(()))
    })
    .await?;
    server.stop().await?;
    DatabaseInspector::of(folder.path())?;
    Ok(())
}
