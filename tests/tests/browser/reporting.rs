//! Reports that could not be sent: how many the browser keeps, and that it sends them when the network
//! returns.

use anyhow::{Context, Result};
use notify_core::Engagement;
use notify_tests::until;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::worker::{act, counted, offline, order, sent, shown};

/// The number of reports that a browser keeps.
const REPORTS_KEPT_MAX: usize = 200;
/// The tag of the Background Sync that sends the reports.
const SYNC_TAG: &str = "notify-reports";
/// The types of the unsent reports, oldest first.
async fn kept(stage: &mut Stage) -> Result<Vec<String>> {
    let all = stage.stored("reports", "getAll()").await?;
    let kind = |report: &Value| Some(report["type"].as_str()?.to_owned());
    Ok(all.as_array().context("a list")?.iter().filter_map(kind).collect())
}

#[tokio::test]
async fn reports_are_sent_when_the_network_returns_without_a_visit() -> Result<()> {
    let mut stage = Stage::set("").await?;
    stage.subscribe().await?;
    let worker = stage.chromium.worker(&stage.site.origin).await?;
    offline(&mut stage, &worker, true).await?;
    let (id, _) = sent(&mut stage, &order()).await?;
    shown(&mut stage).await?;
    act(&mut stage, &worker, "notificationclick", "").await?;
    // A message that had to be delivered again (see `sent`) has been reported as received again.
    let mut kept = kept(&mut stage).await?;
    kept.dedup();
    assert_eq!(kept, ["received", "opened"]);
    counted(&stage, &id, Engagement::default()).await?;
    let (chromium, page) = (&mut stage.chromium, stage.page.clone());
    let tags = "navigator.serviceWorker.ready.then(({ sync }) => sync.getTags())";
    until("the browser is asked to wake the worker", async || {
        Ok((chromium.run(&page, tags).await? == json!([SYNC_TAG])).then_some(()))
    })
    .await?;

    offline(&mut stage, &worker, false).await?;
    // The browser dispatches this event when it is online again.
    let origin = stage.site.origin.clone();
    let registration = stage.chromium.registration(&page, &origin).await?;
    let wake = json!({"origin": format!("{origin}/"), "registrationId": registration,
        "tag": SYNC_TAG, "lastChance": false});
    stage.chromium.call(Some(&page), "ServiceWorker.dispatchSyncEvent", wake).await?;
    counted(&stage, &id, Engagement { received: 1, opened: 1, ..Engagement::default() }).await?;
    stage.reports_sent().await?;
    stage.stop().await
}

#[tokio::test]
async fn only_the_newest_unsent_reports_are_kept() -> Result<()> {
    let mut stage = Stage::set("").await?;
    stage.subscribe().await?;
    let (client, mut ids) = (stage.server.client(), Vec::new());
    for _ in 0..2 {
        let made = client.notifications().create(&order()).await?;
        stage.server.completed(&made.id).await?;
        ids.push(made.id);
    }
    let [oldest, newest] = &ids[..] else { anyhow::bail!("{ids:?}") };
    let (page, worker) = (stage.page.clone(), stage.chromium.worker(&stage.site.origin).await?);
    offline(&mut stage, &page, true).await?;
    // The browser itself is online, so it wakes the worker at once to send.
    offline(&mut stage, &worker, true).await?;
    // One that falls out, what fills the place, and one that stays.
    let report = format!(
        "(async () => {{
            await Notify.report('opened', '{}');
            for (let number = 1; number < {REPORTS_KEPT_MAX}; number += 1) {{
                await Notify.report('received', `unknown-${{number}}`);
            }}
            await Notify.report('clicked', '{}');
        }})()",
        oldest.as_str(),
        newest.as_str()
    );
    stage.run(&report).await?;
    let kept = kept(&mut stage).await?;
    assert_eq!(kept.len(), REPORTS_KEPT_MAX);
    assert_eq!((&*kept[0], &*kept[REPORTS_KEPT_MAX - 1]), ("received", "clicked"));

    offline(&mut stage, &worker, false).await?;
    offline(&mut stage, &page, false).await?;
    stage.reload().await?;
    counted(&stage, newest, Engagement { clicked: 1, ..Engagement::default() }).await?;
    counted(&stage, oldest, Engagement::default()).await?;
    stage.reports_sent().await?;
    stage.stop().await
}
