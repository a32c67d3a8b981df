//! Metrics by application (`--metrics-apps`). A bounded number of applications have series of their own, and
//! all others share one. The label is the id of the application: names can repeat and change, and `/metrics`
//! needs no key.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify_core::AppId;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::store::{AppNo, Outcome};
use crate::telemetry::delivery::OTHER;

/// The largest `--metrics-apps`. Each application has nine series: 4,509 at most, with those of `other`.
pub(crate) const METRICS_APPS_MAX: usize = 500;

/// The queue of one application.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AppQueueSample {
    pub(crate) app: AppNo,
    /// Deliveries that began and have no outcome.
    pub(crate) open: u64,
    /// Age of the oldest overdue work, in seconds; 0 if there is none.
    pub(crate) oldest_due_age_seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppLabel {
    app: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    app: String,
    outcome: &'static str,
}

/// Metrics by application, shared by clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct AppMetrics(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    apps_max: usize,
    slots: Mutex<Slots>,
    series: Series,
}

/// What was counted so far. An application gets a slot when it is first counted, as long as there are free
/// slots, and keeps it.
#[derive(Debug, Default)]
struct Slots {
    apps: HashMap<AppNo, Slot>,
    other: Counts,
}

#[derive(Debug, Default)]
struct Slot {
    /// The id, as soon as it was read from the store. The delivery engine counts by number.
    id: Option<AppId>,
    counts: Counts,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    accepted: u64,
    refused_calls: u64,
    ended: [u64; Outcome::ALL.len()],
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.refused_calls += other.refused_calls;
        for (sum, count) in self.ended.iter_mut().zip(other.ended) {
            *sum += count;
        }
    }
}

/// The series that show the counts and the last sample of the queues.
#[derive(Debug, Default)]
struct Series {
    accepted: Family<AppLabel, Counter>,
    refused_calls: Family<AppLabel, Counter>,
    ended: Family<OutcomeLabels, Counter>,
    depth: Family<AppLabel, Gauge>,
    oldest: Family<AppLabel, Gauge<f64, AtomicU64>>,
}

impl AppMetrics {
    /// Metrics for at most `apps_max` applications.
    pub(super) fn new(apps_max: usize) -> Self {
        Self(Arc::new(Shared { apps_max, ..Shared::default() }))
    }

    /// Registers the metrics, unless no application has series of its own.
    pub(super) fn register(&self, registry: &mut Registry) {
        if self.apps_max() == 0 {
            return;
        }
        let Series { accepted, refused_calls, ended, depth, oldest } = &self.0.series;
        let help = "Notifications accepted for delivery, by application";
        registry.register("app_notifications_accepted", help, accepted.clone());
        let help = "Calls of apps and browsers refused by a rate limit, by application";
        registry.register("app_device_calls_refused", help, refused_calls.clone());
        let help = "Deliveries that ended, by application";
        registry.register("app_deliveries", help, ended.clone());
        let help = "Deliveries without an outcome, by application; counted up to a bound";
        registry.register("app_queue_depth", help, depth.clone());
        let help = "Age of the oldest work that is due and not done, by application";
        let name = "app_oldest_due_age";
        registry.register_with_unit(name, help, Unit::Seconds, oldest.clone());
    }

    /// The most applications that have series of their own.
    pub(crate) fn apps_max(&self) -> usize {
        self.0.apps_max
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives slots to applications before any is counted.
    pub(crate) fn reserve(&self, apps: impl IntoIterator<Item = (AppNo, AppId)>) {
        let mut slots = self.slots();
        for (app, id) in apps.into_iter().take(self.apps_max()) {
            slots.apps.insert(app, Slot { id: Some(id), counts: Counts::default() });
        }
    }

    /// Counts a notification.
    pub(super) fn accepted(&self, app: AppNo) {
        self.count(app, |counts| counts.accepted += 1);
    }

    /// Counts a call of an app or a browser that was refused.
    pub(super) fn refused_call(&self, app: AppNo) {
        self.count(app, |counts| counts.refused_calls += 1);
    }

    /// Counts deliveries that ended.
    pub(super) fn ended(&self, app: AppNo, outcome: Outcome, count: u64) {
        let mut outcomes = Outcome::ALL.iter();
        let index = outcomes.position(|other| *other == outcome).expect("ALL has every outcome");
        self.count(app, |counts| counts.ended[index] += count);
    }

    fn count(&self, app: AppNo, add: impl FnOnce(&mut Counts)) {
        if self.apps_max() == 0 {
            return;
        }
        let Slots { apps, other } = &mut *self.slots();
        // Keys that earlier versions wrote contain no application number. They count as `other`.
        let has_room = apps.len() < self.apps_max() && app.0 > 0;
        match apps.get_mut(&app) {
            Some(slot) => add(&mut slot.counts),
            None if has_room => add(&mut apps.entry(app).or_default().counts),
            None => add(other),
        }
    }

    /// The applications whose ids are not known yet.
    pub(crate) fn unnamed(&self) -> Vec<AppNo> {
        let slots = self.slots();
        slots.apps.iter().filter(|(_, slot)| slot.id.is_none()).map(|(app, _)| *app).collect()
    }

    /// Sets the ids of applications. An application that was deleted before its id was read gives up its slot.
    pub(crate) fn name(&self, ids: Vec<(AppNo, Option<AppId>)>) {
        let Slots { apps, other } = &mut *self.slots();
        for (app, id) in ids {
            match id {
                Some(_) => {
                    if let Some(slot) = apps.get_mut(&app) {
                        slot.id = id;
                    }
                }
                None => {
                    if let Some(slot) = apps.remove(&app) {
                        other.add(&slot.counts);
                    }
                }
            }
        }
    }

    /// Sets all series to the counts so far, and to a sample of the queues. Without a sample there are no
    /// series of queues. An application without an id appears when its id is known.
    pub(super) fn show(&self, queues: Option<&[AppQueueSample]>) {
        let slots = self.slots();
        let series = &self.0.series;
        series.depth.clear();
        series.oldest.clear();
        if self.apps_max() == 0 {
            return;
        }
        let named = slots.apps.values().filter_map(|slot| Some((slot.id?.to_string(), slot)));
        let named = named.map(|(label, slot)| (label, &slot.counts));
        for (app, counts) in named.chain([(OTHER.to_owned(), &slots.other)]) {
            let label = AppLabel { app: app.clone() };
            if queues.is_some() {
                drop(series.depth.get_or_create(&label));
                drop(series.oldest.get_or_create(&label));
            }
            raise(&series.accepted.get_or_create(&label), counts.accepted);
            raise(&series.refused_calls.get_or_create(&label), counts.refused_calls);
            for (outcome, count) in Outcome::ALL.into_iter().zip(counts.ended) {
                let labels = OutcomeLabels { app: app.clone(), outcome: outcome.as_str() };
                raise(&series.ended.get_or_create(&labels), count);
            }
        }
        for queue in queues.unwrap_or_default() {
            let id = slots.apps.get(&queue.app).and_then(|slot| slot.id);
            let app = id.map_or_else(|| OTHER.to_owned(), |id| id.to_string());
            let label = AppLabel { app };
            let open = i64::try_from(queue.open).unwrap_or(i64::MAX);
            series.depth.get_or_create(&label).inc_by(open);
            let oldest = series.oldest.get_or_create(&label);
            oldest.set(oldest.get().max(queue.oldest_due_age_seconds));
        }
    }
}

/// Raises a counter to a total.
fn raise(counter: &Counter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}
