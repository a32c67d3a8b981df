//! Crashes while erased ids are removed from stored requests.

use anyhow::{Context, Result, ensure};
use notify_server::store::REQUESTS_PER_SLICE;
use notify_tests::{DatabaseInspector, RestartableServer, until};
use serde_json::json;

use super::{STAGES, dying, ensure_aborted};
use crate::{CREDIT, launch};

/// The stored requests that name the device. An erasure that searched all of them would be slow.
const REQUESTS: i64 = 10_000;

/// Stored requests that name the device `gone`. They ended in the year 2100, so none of them is expired.
fn many_requests() -> String {
    format!(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < {REQUESTS})
         insert into notifications (no, app_no, id, origin, status, created_at, request, platforms,
           names_devices, ttl_seconds)
         select (a.no << 43) | (1000000 + n.i), a.no, 'n' || n.i, 'created', 'completed',
           4102444800000, '{{\"text\":\"t\",\"device_ids\":[\"gone\"]}}', 1, 1, 0
         from apps a cross join n"
    )
}

#[tokio::test]
async fn an_erasure_reads_few_requests_at_once_and_continues_after_crashes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    let device = json!({"device_id": "gone", "platform": "android", "sdk_type": "android_push"});
    server.caller().post("/v1/devices", &device).await.ok();
    server.kill(CREDIT).await?;
    DatabaseInspector::of(folder.path())?.change(&many_requests())?;
    let number = |sql: &str| DatabaseInspector::of(folder.path())?.number(sql);
    let left = || number("select count(*) from notifications where request like '%gone%'");
    assert_eq!(left()?, REQUESTS);

    server.start_again().await?;
    server.caller().delete("/v1/devices/gone").await.ok();
    let pending = server.admin().get("/admin/v1/diagnostics").await.ok()["pending_erasures"].take();
    assert_eq!(pending["ids"], 1, "{pending}");
    ensure!(pending["oldest_at"].is_i64(), "{pending}");
    let shown_left = pending["requests_left"].as_i64().context("a number")?;
    let last = server.caller().get(&format!("/v1/notifications/n{REQUESTS}")).await;
    ensure!(!last.text.contains("gone"), "{}", last.text);
    server.kill(CREDIT).await?;

    // The erasure itself read one slice. The server has read others if it ran for ten seconds.
    let slice = i64::from(REQUESTS_PER_SLICE);
    let mut expected = left()?;
    ensure!((expected..=REQUESTS - slice).contains(&shown_left), "{shown_left} {expected}");
    ensure!(expected > slice, "{expected}");
    for (stage, removed) in STAGES.into_iter().zip([0, slice]) {
        let dying = dying(folder.path(), "remove_erased_ids", stage, 1);
        ensure_aborted(server.ended_at_start(&dying, CREDIT).await?).context(stage)?;
        expected -= removed;
        assert_eq!(left()?, expected, "{stage}");
    }
    server.start_again().await?;
    until("the ids are removed", async || {
        let pending = &server.admin().get("/admin/v1/diagnostics").await.ok()["pending_erasures"];
        Ok((pending["ids"] == 0).then_some(()))
    })
    .await?;
    server.stop().await?;
    assert_eq!((left()?, number("select count(*) from erased_ids")?), (0, 0));
    Ok(())
}
