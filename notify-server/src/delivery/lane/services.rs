//! What lies behind one lane: push services, or the two hosts of APNs. Each has a gate and a count
//! of its own, so that one that refuses, fails or does not answer stops the devices behind it and
//! no others (B40).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use notify_core::{Platform, Timestamp};

use crate::delivery::gate::{Admission, Gate, GateState, Others};
use crate::delivery::news::News;
use crate::store::AppNo;
use crate::telemetry::Pause;

/// Most services that a lane tells apart: subscriptions name them, and anybody may subscribe.
/// Further ones share one gate.
const SERVICES_MAX: usize = 64;

/// The services behind a lane.
pub(crate) struct Services {
    known: Mutex<HashMap<Box<str>, Arc<Service>>>,
    probe_every_ms: i64,
    /// The other servers, where there may be some.
    among: Option<(Arc<News>, (AppNo, Platform))>,
}

/// One of them.
pub(crate) struct Service {
    pub(crate) gate: Gate,
    in_flight: AtomicUsize,
    refusals_in_a_row: AtomicU16,
}

impl Services {
    pub(crate) fn new(probe_every_ms: i64, among: Option<(Arc<News>, (AppNo, Platform))>) -> Self {
        Self { known: Mutex::default(), probe_every_ms, among }
    }

    /// The service of that name, unless it has to share one with others.
    pub(super) fn known(&self, name: &str) -> Option<Arc<Service>> {
        let service = self.of(name);
        let known = self.known.lock().expect("no holder of the services panics");
        known.contains_key(name).then_some(service)
    }

    /// Those of which other servers are told.
    pub(super) fn told(&self) -> Vec<(Box<str>, Arc<Service>)> {
        let known = self.known.lock().expect("no holder of the services panics");
        let named = known.iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, service)| (name.clone(), service.clone())).collect()
    }

    /// The service of that name.
    pub(crate) fn of(&self, name: &str) -> Arc<Service> {
        let mut known = self.known.lock().expect("no holder of the services panics");
        if let Some(service) = known.get(name) {
            return service.clone();
        }
        if known.len() >= SERVICES_MAX {
            // Anybody may name one: those of which nothing is to be remembered make room.
            known.retain(|_, service| Arc::strong_count(service) > 1 || service.is_remembered());
        }
        let name = if known.len() < SERVICES_MAX { name } else { "" };
        let service = known.entry(name.into()).or_insert_with(|| {
            // What several share is nobody's word about one of them.
            let among = self.among.clone().filter(|_| !name.is_empty());
            let others = among.map(|(news, of)| Others::new(news, of));
            Arc::new(Service {
                gate: Gate::new(self.probe_every_ms, others),
                in_flight: AtomicUsize::new(0),
                refusals_in_a_row: AtomicU16::new(0),
            })
        });
        service.clone()
    }

    /// Why deliveries behind one of them wait at that instant, if they do.
    pub(crate) fn closed(&self, now: Timestamp) -> Option<Pause> {
        let known = self.known.lock().expect("no holder of the services panics");
        // Of several the gravest: what somebody has to mend comes before what passes.
        known.values().filter_map(|service| service.gate.closed(now)).max()
    }

    /// Opens all of them: the provider was configured anew, or released.
    pub(crate) fn open(&self) {
        for service in self.known.lock().expect("no holder of the services panics").values() {
            service.gate.open();
            service.refusals_in_a_row.store(0, Ordering::Release);
        }
    }
}

impl Service {
    /// Whether it did anything that the next delivery has to know of.
    fn is_remembered(&self) -> bool {
        self.gate.state() != GateState::Open || self.refusals_in_a_row.load(Ordering::Acquire) > 0
    }

    /// How many deliveries more it takes now; with none, when to look again at the latest.
    ///
    /// # Errors
    /// When that is known; not when all its streams are in use: one that ends has others looked for.
    pub(crate) fn room(
        &self,
        slots: Option<usize>,
        now: Timestamp,
    ) -> Result<usize, Option<Timestamp>> {
        if let Admission::Wait(until) = self.gate.peek(now) {
            return Err(Some(until));
        }
        let in_flight = self.in_flight.load(Ordering::Acquire);
        match slots.unwrap_or(usize::MAX).saturating_sub(in_flight) {
            0 => Err(None),
            room => Ok(room),
        }
    }

    /// It refused our credentials: how often in a row now.
    pub(crate) fn refused(&self) -> u16 {
        let more = |refusals: u16| Some(refusals.saturating_add(1));
        let before = self.refusals_in_a_row.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        before.unwrap_or_default().saturating_add(1)
    }

    /// It said something else.
    pub(crate) fn answered(&self) {
        self.refusals_in_a_row.store(0, Ordering::Release);
        self.gate.answered();
    }
}

/// One delivery under way through a service: counted there until this goes.
pub(crate) struct InService(Arc<Service>);

impl InService {
    pub(crate) fn start(service: Arc<Service>, now: Timestamp) -> Self {
        // Looked at just before, on the same thread: this may be the probe.
        let _ = service.gate.admit(now);
        service.in_flight.fetch_add(1, Ordering::AcqRel);
        Self(service)
    }
}

impl std::ops::Deref for InService {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.0
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}
