//! Random events from a seed, all mixed: answers of every class, cancellations, registrations, erasures,
//! tags, changing providers, storage failures, stops and crashes. In the end every notification has
//! ended, and its counts add up.

use std::collections::HashMap;
use std::time::Duration;

use notify_core::{
    CreateNotification, DeviceId, NotificationContent, NotificationId, NotificationRecord,
    NotificationStatus, ProviderKind, RegisterDevice, Request,
};

use super::rig::{Rig, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, Scope, SendResult};
use crate::store::StoreError;
use crate::store::sqlite::Fault;

const DEVICES: usize = 60;
const STEPS: usize = 120;

/// The answer to the n-th attempt at a token, the same for the same seed.
fn answer(seed: u64, token: &str, attempt: usize) -> SendResult {
    let text = token.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
    let mut rng = fastrand::Rng::with_seed(text.wrapping_add(attempt as u64));
    let after = rng.bool().then(|| Duration::from_secs(rng.u64(1..90)));
    let reason = "it says so".into();
    match rng.u8(0..100) {
        0..8 => SendResult::Retry { reason, after, outcome: Processing::Failed },
        8..12 => SendResult::Retry { reason, after: None, outcome: Processing::NotProcessed },
        12..15 => SendResult::Retry { reason, after: None, outcome: Processing::Unknown },
        15..18 => SendResult::Throttle { reason, after, scope: Scope::Provider },
        18..20 => SendResult::Throttle { reason, after, scope: Scope::Address },
        20..23 => SendResult::Unregistered { reason, ambiguous: false, since: None },
        23..25 => SendResult::InvalidMessage { reason },
        25..27 => SendResult::Unknown { reason },
        27..28 => SendResult::AuthRejected { reason },
        _ => delivered(),
    }
}

struct RandomizedRun {
    rig: Rig,
    rng: fastrand::Rng,
    sent: Vec<NotificationId>,
    crashes: usize,
}

impl RandomizedRun {
    async fn new(seed: u64) -> Self {
        let mut rig = Rig::new(6).await;
        rig.config.max_unacked = 9;
        rig.config.page_rows = 7;
        rig.config.lane_devices_max = 20;
        rig.config.lane_dispatches_max = 3;
        rig.config.lane_retries_max = 5;
        rig.config.checkpoint_outcomes = 4;
        rig.config.start_batch = 2;
        rig.provider
            .script(move |token, attempt| ScriptedAnswer::Answer(answer(seed, token, attempt)));
        rig.devices(DEVICES).await;
        rig.start();
        Self { rig, rng: fastrand::Rng::with_seed(seed), sent: Vec::new(), crashes: 0 }
    }

    fn name(&mut self) -> String {
        format!("d{:05}", self.rng.usize(0..DEVICES))
    }

    async fn step(&mut self) {
        let name = self.name();
        match self.rng.u8(0..100) {
            0..18 => self.notify().await,
            18..24 if !self.sent.is_empty() => {
                let id = self.sent[self.rng.usize(0..self.sent.len())].clone();
                let now = self.rig.clock.now();
                let canceled = self.rig.store.cancel_notification(self.rig.app, id, now).await;
                assert!(
                    matches!(
                        canceled,
                        Ok(()) | Err(StoreError::Refused(_)) | Err(StoreError::Unavailable(_))
                    ),
                    "{canceled:?}"
                );
            }
            24..34 => self.register(RegisterDevice::android(&name, format!("token-{name}"))).await,
            34..40 => {
                let other = self.name();
                self.register(RegisterDevice::android(&name, format!("token-{other}"))).await;
            }
            40..44 => {
                let mut off = RegisterDevice::android(&name, format!("token-{name}"));
                off.push_disabled = Some(true);
                self.register(off).await;
            }
            44..47 => self.register(RegisterDevice::ios(&name, "00ff")).await,
            47..52 => {
                let id = DeviceId::new(&name).unwrap();
                let now = self.rig.clock.now();
                let _ = self.rig.store.delete_device(self.rig.app, id, now).await;
            }
            52..62 => {
                let tag = notify_core::Tag {
                    name: "vip".into(),
                    kind: notify_core::TagType::Bool,
                    value: self.rng.bool(),
                };
                let id = DeviceId::new(&name).unwrap();
                let _ = self.rig.store.set_tags(self.rig.app, id, vec![tag], None).await;
            }
            62..66 => {
                let id = DeviceId::new(&name).unwrap();
                let _ = self.rig.store.remove_tag(self.rig.app, id, "vip".into()).await;
            }
            66..68 => self.rig.database.fail(Fault::FailCommit(self.rng.u32(1..4))),
            68..69 => self.rig.database.fail(Fault::LoseCommitReply(self.rng.u32(1..4))),
            69..72 => self.rig.database.fail(Fault::RollBackAtWrite(self.rng.u32(1..6))),
            72..74 => self.configure().await,
            74..76 => {
                self.rig.stop().await;
                self.rig.start();
            }
            76..78 => {
                self.rig.crash().await;
                self.crashes += 1;
                self.rig.start();
            }
            _ => self.rig.clock.advance(Duration::from_millis(self.rng.u64(1..20_000))),
        }
    }

    async fn notify(&mut self) {
        let names: Vec<String> = (0..self.rng.usize(1..9)).map(|_| self.name()).collect();
        let tagged = self.rng.u8(0..4) == 0;
        let request = CreateNotification {
            text: Some("Hello".into()),
            platforms: Some(vec!["android".into(), "ios".into()]),
            android_device_ids: self.rng.bool().then_some(names),
            ttl_seconds: (self.rng.u8(0..5) == 0).then(|| self.rng.u32(1..300)),
            send_at: (self.rng.u8(0..5) == 0)
                .then(|| self.rig.clock.now().plus_ms(self.rng.i64(0..60_000))),
            content: NotificationContent {
                tags: tagged.then(|| vec!["vip".into()]),
                ..NotificationContent::default()
            },
            ..CreateNotification::default()
        };
        if let Ok(id) = self.rig.try_accept(request).await {
            self.sent.push(id);
        }
    }

    async fn register(&self, device: RegisterDevice) {
        let now = self.rig.clock.now();
        let valid = device.validate(now).unwrap();
        // This may fail, because the test may have made storage fail.
        let _ = self.rig.store.register_device(self.rig.app, valid, now, None).await;
    }

    async fn configure(&mut self) {
        let provider = self.rng.bool().then(|| self.rig.provider.clone());
        // This may fail, because the test may have made storage fail.
        let _ = self.rig.try_configure(ProviderKind::Fcm, provider).await;
    }

    /// Advances the clock until every notification has ended.
    async fn end(&mut self) -> Vec<NotificationRecord> {
        // No faults are left, and the provider is configured.
        while self.rig.store.check().await.is_err() {}
        while self.rig.store.check().await.is_err() {}
        let mut records = Vec::new();
        let mut progress = self.rig.progress();
        let all_ended = async {
            loop {
                progress.borrow_and_update();
                records.clear();
                for id in &self.sent {
                    records.push(self.rig.read(id).await);
                }
                if records.iter().all(|record| record.completed_at.is_some()) {
                    return;
                }
                // Nothing changes any more, so the engine waits for the clock.
                let settled = tokio::time::timeout(Duration::from_millis(60), progress.changed());
                if settled.await.is_err() {
                    self.rig.clock.advance(Duration::from_secs(20));
                }
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), all_ended).await;
        let open: Vec<_> = records.iter().filter(|record| record.completed_at.is_none()).collect();
        assert!(ended.is_ok(), "{} are stuck, such as {:?}", open.len(), open.first());
        records
    }
}

fn check(record: &NotificationRecord) {
    let counts = record.counts;
    let ended =
        counts.sent + counts.failed + counts.unregistered + counts.expired + counts.canceled;
    assert_eq!((counts.targeted, counts.pending), (ended, 0), "{record:?}");
    let failures: u64 = record.failures.iter().map(|failure| failure.count).sum();
    assert_eq!(failures, counts.failed + counts.unregistered, "{record:?}");
    let status = record.status;
    assert!(matches!(status, NotificationStatus::Completed | NotificationStatus::Canceled));
}

async fn run_seed(seed: u64) {
    let mut run = RandomizedRun::new(seed).await;
    for _ in 0..STEPS {
        run.step().await;
    }
    let records = run.end().await;
    run.rig.stop().await;
    let mut deliveries = HashMap::<(String, String), usize>::new();
    for delivered in run.rig.provider.delivered() {
        *deliveries.entry(delivered).or_default() += 1;
    }
    for record in &records {
        check(record);
        let of_this = deliveries.iter().filter(|((id, _), _)| id == record.id.as_str());
        let sent = of_this.map(|(_, times)| *times as u64).sum::<u64>();
        assert!(
            record.counts.sent <= sent,
            "seed {seed}: more are recorded than were sent: {record:?}"
        );
    }
    let repeats: usize = deliveries.values().map(|times| times - 1).sum();
    assert!(repeats <= run.crashes * run.rig.config.max_unacked, "seed {seed}: {repeats} repeats");
}

/// Number of seeds in a run of the whole suite; `NOTIFY_STORM_SEEDS=200` runs more.
const SEEDS: u64 = 6;

#[tokio::test]
async fn every_notification_ends_with_consistent_counts() {
    let asked = std::env::var("NOTIFY_STORM_SEEDS").ok();
    let seeds = asked.map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    for seed in 1..=seeds {
        run_seed(seed).await;
    }
}
