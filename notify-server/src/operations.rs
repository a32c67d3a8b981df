//! Diagnostics for operators: the readiness of the server, its metrics, and the check of a
//! provider's credentials. The API reaches the delivery engine, the providers and the certificates
//! through this module.

mod readiness;

use std::sync::Arc;
use std::time::Duration;

use notify_core::{AppId, ProviderKind, Timestamp};
use tokio::time::{Instant, timeout};

pub(crate) use self::readiness::Readiness;
use crate::certificates::Certificates;
use crate::clock::{SharedClock, TrustedClock};
use crate::delivery::EngineHandle;
use crate::error_chain::error_chain;
use crate::provider_source::StoredProviders;
use crate::providers::CredentialCheck;
use crate::store::{AppQueue, Queue, Queues, SharedStore, StoreError};
use crate::telemetry::{
    AppQueueSample, Metrics, MetricsFormat, ProcessSample, QueueSample, Sample,
};

/// Longest wait for the store to count the queues when metrics are requested.
const QUEUES_WAIT: Duration = Duration::from_secs(2);
/// How long a sample is reused.
const SAMPLE_KEPT: Duration = Duration::from_secs(1);
/// Longest check of a provider. It is shorter than an attempt, because the caller waits for the
/// result.
const CHECK_WAIT: Duration = Duration::from_secs(25);

/// Diagnostics for operators.
pub(crate) struct Operations {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    pub(crate) trusted_clock: Arc<TrustedClock>,
    pub(crate) engine: EngineHandle,
    pub(crate) providers: Arc<StoredProviders>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Readiness,
    /// `None`: the server has no TLS.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// When the server started.
    pub(crate) started_at: Timestamp,
    pub(crate) last_sample: tokio::sync::Mutex<Option<(Instant, Arc<Sample>)>>,
}

impl Operations {
    /// The reasons why the server is not ready; empty if the server is ready.
    pub(crate) async fn readiness_problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.readiness.problem().await.into_iter().collect();
        if !self.engine.is_running() {
            problems.push("the delivery engine has ended".to_owned());
        }
        problems
    }

    /// When the TLS certificate expires, if there is one and its expiry is known.
    pub(crate) fn certificate_not_after(&self) -> Option<Timestamp> {
        self.certificates.as_ref()?.not_after()
    }

    /// The number of servers on the same database, this one included, as of the last heartbeat.
    pub(crate) fn servers(&self) -> u32 {
        self.engine.servers()
    }

    /// How far the clock jumped ahead, in milliseconds; 0 if the operator confirmed the jump or
    /// there was none.
    pub(crate) fn clock_leap_ms(&self) -> u64 {
        u64::try_from(self.trusted_clock.leap().as_millis()).unwrap_or(u64::MAX)
    }

    /// How far the clock is ahead of the providers', in milliseconds; negative if it is behind. `None` before the
    /// first response of a provider.
    pub(crate) fn clock_ahead_ms(&self) -> Option<i64> {
        self.providers.providers.remote_time().ms_behind(self.clock.wall())
    }

    /// The text of `/metrics`. Requests within a second share one sample.
    pub(crate) async fn metrics(&self, format: MetricsFormat) -> String {
        let sample = {
            let mut last = self.last_sample.lock().await;
            match &*last {
                Some((at, sample)) if at.elapsed() < SAMPLE_KEPT => sample.clone(),
                Some(_) | None => {
                    let sample = Arc::new(self.collect().await);
                    *last = Some((Instant::now(), sample.clone()));
                    sample
                }
            }
        };
        self.metrics.encode(&sample, format)
    }

    async fn collect(&self) -> Sample {
        let now = self.clock.now();
        let age_seconds = |due_at: Option<Timestamp>| {
            seconds(due_at.map_or(0, |due_at| now.ms_since(due_at).max(0)))
        };
        let queue_sample = |queue: Queue| QueueSample {
            provider: queue.platform.provider(),
            sending: queue.sending,
            retry_due: queue.retry_due,
            retry_waiting: queue.retry_waiting,
            oldest_due_age_seconds: age_seconds(queue.oldest_due_at),
        };
        let app_queue_sample = |queue: AppQueue| AppQueueSample {
            app: queue.app,
            open: queue.open,
            oldest_due_age_seconds: age_seconds(queue.oldest_due_at),
        };
        let queues = self.queues(now).await;
        let (queues, app_queues) = queues.map_or((None, None), |queues| {
            let platforms = queues.platforms.into_iter().map(queue_sample);
            let apps = queues.apps.into_iter().map(app_queue_sample);
            (Some(platforms.collect()), Some(apps.collect()))
        });
        let ages = self.providers.providers.token_ages_ms();
        Sample {
            app_queues,
            process: tokio::task::spawn_blocking(ProcessSample::read).await.ok().flatten(),
            started_at: self.started_at,
            queues,
            lane_statuses: self.engine.lane_statuses(),
            connections: self.providers.providers.connections(),
            token_ages: ages.into_iter().map(|(kind, age_ms)| (kind, seconds(age_ms))).collect(),
            busy: self.store.busy(),
            commits: self.store.commits(),
            servers: self.engine.servers(),
            clock_leap_seconds: self.trusted_clock.leap().as_secs_f64(),
            certificate_not_after: self.certificate_not_after(),
        }
    }

    /// The queues. Also reads the ids of applications that were counted for the first time. `None` if storage
    /// does not respond.
    async fn queues(&self, now: Timestamp) -> Option<Queues> {
        let apps = self.metrics.apps();
        let reading = async {
            let unnamed = apps.unnamed();
            if !unnamed.is_empty() {
                apps.name(self.store.app_ids(unnamed).await?);
            }
            self.store.queues(now).await
        };
        match timeout(QUEUES_WAIT, reading).await {
            Ok(Ok(queues)) => Some(queues),
            Ok(Err(error)) => {
                tracing::warn!(cause = error_chain(&error), "the queues cannot be read");
                None
            }
            Err(_) => {
                tracing::warn!("the queues were not read in time");
                None
            }
        }
    }

    /// Checks the credentials of a provider. The check runs in its own task: a caller that
    /// disconnects must not close the connection that is being opened.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the provider is not configured.
    pub(crate) async fn check(
        &self,
        app: AppId,
        provider: ProviderKind,
    ) -> Result<CredentialCheck, StoreError> {
        let provider = self.providers.provider_for_check(app, provider).await?;
        let clock = self.clock.clone();
        let checking = tokio::spawn(timeout(CHECK_WAIT, async move {
            let check = provider.check().await;
            check.with_clock(provider.clock_ahead_ms(clock.wall()))
        }));
        Ok(match checking.await {
            Ok(Ok(check)) => check,
            Ok(Err(_)) => CredentialCheck::failed("the provider did not answer in time"),
            Err(error) => {
                tracing::error!(%error, "the check of a provider panicked");
                CredentialCheck::failed(
                    "the check failed with an internal error; see the server's log",
                )
            }
        })
    }
}

fn seconds(ms: i64) -> f64 {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0)).as_secs_f64()
}
