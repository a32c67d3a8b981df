//! Crash points of single-device notifications, whose pages are opened at their start and which are settled
//! in groups. The process ends between the statements and the commit of both operations, and after the
//! commit.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_client::notify_core::{
    CreateNotification, NotificationId, NotificationStatus, RegisterDevice,
};
use notify_tests::{RestartableServer, until};

use super::{dying, ensure_aborted};
use crate::load::{Load, settle};
use crate::{CREDIT, FEW, launch};

/// The number of sends until the process ends. The sends after the first one find their application's lane
/// ready.
const SENDS_MAX: u32 = 200;
/// The operations at which the process ends, and the number of the hit. The start that opens pages is not the
/// first one.
const POINTS: [(&str, &[u32]); 2] = [("start", &[2, 4]), ("finish_pages", &[1, 3])];

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    POINTS.iter().map(|(operation, _)| *operation).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_point_of_a_single_send_loses_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir)).await?;
    let load = Load::prepare_with(&server, 1, &folder.path().join("request_log"), FEW).await?;
    let key = load.tenants[0].api_key.clone();
    server.client_of(&key)?.devices().register(&RegisterDevice::android("one", "single")).await?;
    server.kill(CREDIT).await?;
    let mut accepted = BTreeMap::new();
    for (what, hits) in POINTS {
        for (stage, hit) in
            super::STAGES.iter().flat_map(|stage| hits.iter().map(move |hit| (stage, *hit)))
        {
            let name = format!("{what}-{stage}-{hit}");
            let dying = dying(server.launch.data_dir(), what, stage, hit);
            let status = match server.begin_again_as(&dying, CREDIT).await? {
                Some(status) => status,
                None => {
                    send_until_it_ends(&server.client_of(&key)?, &name, &mut accepted).await;
                    server.ended(CREDIT).await.with_context(|| format!("{name} is reached"))?
                }
            };
            ensure_aborted(status).context(name)?;
        }
    }
    server.start_again().await?;
    let client = server.client_of(&key)?;
    for (id, text) in &accepted {
        let completed = until("it completes", async || {
            let record = client.notifications().get(id).await?;
            Ok((record.status == NotificationStatus::Completed).then_some(record))
        });
        let counts = completed.await.with_context(|| text.clone())?.counts;
        ensure!((counts.targeted, counts.sent) == (1, 1), "{text}: {counts:?}");
    }
    ensure!(accepted.len() > POINTS.len(), "{} were accepted", accepted.len());
    settle(server, &data_dir).await
}

/// Sends one notification after another until the process has ended, and logs the accepted ones. Each send
/// waits until the one before is completed, so that it finds its lane idle.
async fn send_until_it_ends(
    client: &Client,
    name: &str,
    accepted: &mut BTreeMap<NotificationId, String>,
) {
    for number in 0..SENDS_MAX {
        let text = format!("{name}-{number}");
        let notification =
            CreateNotification::to_devices(["one"], [], &text).expect("a device is named");
        let Ok(created) = client.notifications().create(&notification).await else { return };
        accepted.insert(created.id.clone(), text);
        let completion = until("it completes, or the server ends", async || {
            let record = client.notifications().get(&created.id).await?;
            Ok((record.status == NotificationStatus::Completed).then_some(()))
        });
        if completion.await.is_err() {
            return;
        }
    }
}
