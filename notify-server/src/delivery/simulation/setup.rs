//! The initial state of a seed: a database, limits, applications and devices.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use notify_core::{AppChange, AppId, NewApp, OnCrash, ProviderKind};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::conditions::Condition;
use super::defects::Defect;
use super::device_requests::{log_in, register, tag};
use super::keys::{KeyChange, change_keys};
use super::requests::{Process, configure};
use super::run::Server;
use super::world::{Service, lock};
use crate::clock::Clock;
use crate::delivery::EngineConfig;
use crate::store::sqlite;
/// A temporary folder, in memory if possible.
pub(super) fn workspace() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder for the store")
}

/// The database file of an empty store. It is made once and copied for each seed, because creating the
/// tables takes as long as running a seed.
pub(super) fn empty_store() -> &'static [u8] {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let folder = workspace();
        let path = folder.path().join("notify.db");
        drop(sqlite::open_inline(&path).expect("the store opens"));
        // Moves the write-ahead log into the file.
        sqlite::execute_raw(&path, "pragma wal_checkpoint(truncate)");
        std::fs::read(&path).expect("the store is written")
    })
}

/// Small limits, so that few devices reach all of them.
pub(super) fn config(rng: &mut fastrand::Rng, defect: Option<Defect>) -> EngineConfig {
    let limit = match defect {
        Some(Defect::UnackedLimitExceeded) => 4,
        Some(_) | None => rng.usize(1..48),
    };
    let page_rows = rng.u32(1..40);
    let checkpoint_outcomes = rng.usize(1..12);
    let checkpoint_every = Duration::from_millis(rng.u64(1..200));
    EngineConfig {
        max_unacked: limit,
        max_unacked_without_dedup: rng.usize(1..12),
        page_rows,
        checkpoint_outcomes,
        checkpoint_every,
        page_checkpoint_every: checkpoint_every * 2,
        lease_ms: if rng.bool() { 15_000 } else { rng.i64(1_000..15_000) },
        searches_max: 1,
        lane_devices_max: rng.usize(1..80),
        lane_pages_max: rng.usize(1..8),
        lane_retries_max: rng.u32(1..12),
        lane_retry_rows_max: if rng.u8(0..3) == 0 { rng.u64(1..24) } else { 10_000 },
        lane_streams_max: rng.usize(1..48),
        lane_dispatches_max: rng.usize(1..5),
        start_batch: rng.u32(1..5),
        address_age_ms_max: match defect {
            Some(Defect::ChangesMissed) => 60_000,
            Some(_) | None => EngineConfig::default().address_age_ms_max,
        },
        overlooked: match defect {
            Some(Defect::Overlooks(overlooked)) => Some(overlooked),
            Some(_) | None => None,
        },
        ..EngineConfig::default()
    }
}

impl Server {
    /// Creates applications, their providers and devices, without faults.
    pub(super) async fn set_up(&mut self, process: &Process) {
        let mut tasks = JoinSet::new();
        for number in 0..self.rng.u8(1..3) {
            let id = AppId(Uuid::from_u128(self.rng.u128(..)));
            let new = NewApp { name: format!("Shop {number}"), language: "en".into() };
            let now = process.clock.now();
            let app = process.store.create_app(id, new, None, now).await.expect("no fault is set");
            lock(&self.world).apps.push((app, id));
            let lifetime_ms = self.rng.bool().then(|| self.rng.i64(1_000..3_600_000));
            change_keys(process.clone(), KeyChange::Add { app: id, lifetime_ms }).await;
            if self.rng.bool() {
                let skip = AppChange { on_crash: Some(OnCrash::Skip), ..AppChange::default() };
                process.store.change_app(id, skip).await.expect("no fault is set");
                lock(&self.world).skips.insert(app);
            }
            for kind in ProviderKind::ALL {
                let service = Service::new(Condition::random(&mut self.rng), 5);
                lock(&self.world).services.insert((app, kind), service);
                if self.rng.u8(0..8) > 0 {
                    tasks.spawn(configure(process.clone(), app, kind, Some(0)));
                } else {
                    lock(&self.world).was_missing.push((app, kind));
                }
            }
            let devices = if self.rng.u8(0..12) == 0 { 160 } else { self.rng.usize(6..50) };
            for number in 0..devices {
                let platform = self.script.platform();
                let name = self.script.name(platform, number);
                let state = self.script.new_state(platform);
                let process = process.clone();
                let tagged = self.rng.u8(0..3) == 0;
                let user = self.rng.bool().then(|| self.script.user());
                tasks.spawn(async move {
                    register(process.clone(), app, name.clone(), state).await;
                    if tagged {
                        tag(process.clone(), app, name.clone(), Some(true)).await;
                    }
                    if user.is_some() {
                        log_in(process, app, name, user).await;
                    }
                });
            }
        }
        while tasks.join_next().await.is_some() {}
    }
}
