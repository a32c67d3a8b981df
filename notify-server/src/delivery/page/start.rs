//! Starting devices of a page: what needs no stream is settled, the rest waits for its place.

use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;

use super::{Flights, Landed, Obstacle, PageRun};
use crate::delivery::attempt::attempt;
use crate::delivery::gate::Admission;
use crate::delivery::job::Mode;
use crate::delivery::lane::InService;
use crate::providers::Reason;
use crate::reasons;
use crate::store::{DeviceKey, NewRetry, Settled};

impl PageRun {
    /// Starts devices until something stands in the way, and says what.
    pub(super) async fn start_what_may_start(&mut self, flights: &mut Flights) -> Obstacle {
        let shared = self.lane.shared.clone();
        loop {
            // Ahead of all that a change of the gate may be about: one that comes in while this
            // looks ends the wait at the gate.
            self.gate_changes.mark_unchanged();
            let now = shared.clock.now();
            self.unpark(now);
            if self.queue.is_empty() || shared.stop.asked() {
                // Places that nobody uses must not wait for the answers that are still to come.
                self.slot.let_go();
                self.credit.let_go();
                return match self.parked.is_empty() || shared.stop.asked() {
                    true => Obstacle::NoneLeft,
                    false => Obstacle::Services(self.parked.until()),
                };
            }
            if self.must_read_again(now) {
                // On its way before anything is awaited: what was decided under a lease must not lie
                // here until that is over (trap 5).
                while let Some(Some(landed)) = flights.next().now_or_never() {
                    self.land(landed);
                }
                if let Err(error) = self.read_again(now).await {
                    // Whatever was to be read is: what changed was taken note of already (trap 8).
                    self.must_read();
                    shared.storage_failed(&error).await;
                }
                continue;
            }
            let Some(mode) = self.mode.clone() else { continue };
            if self.job.canceled() && !matches!(mode, Mode::Count { .. }) {
                self.fresh = false;
                continue;
            }
            if let Some(obstacle) = self.settle_without_sending(&mode, now) {
                return obstacle;
            }
            let Mode::Send { provider, payload } = mode else { continue };
            let Some(device) = self.queue.pop_front() else { continue };
            let Some(address) = self.job.address(&device) else {
                self.count(device.key, Settled::Failed, reasons::NO_ADDRESS.into());
                continue;
            };
            self.lane.chat_started(device.key, now);
            self.slot.hand_over();
            self.credit.hand_over();
            self.in_flight += 1;
            self.mark.started(self.job.dispatch.no, device.key);
            let service = self.job.service_of(&self.lane, &device);
            let service = service.map(|service| InService::start(service, now));
            let (version, metrics) = (self.version, shared.metrics.clone());
            flights.push(
                async move {
                    let answer = attempt(&metrics, &provider, &payload, &address).await;
                    Landed { device, service, version, answer }
                }
                .boxed(),
            );
        }
    }

    /// Settles and skips what needs no stream; takes a place for the device that does. `None`: the
    /// first device of the queue has slot and credit, or the queue has come to its end.
    pub(super) fn settle_without_sending(
        &mut self,
        mode: &Mode,
        now: Timestamp,
    ) -> Option<Obstacle> {
        while let Some(device) = self.queue.front() {
            let key = device.key;
            if self.job.targets(device) {
                match mode {
                    Mode::Count { settled, reason } => self.count(key, *settled, reason.clone()),
                    Mode::Send { .. } if self.job.expired(now) => {
                        self.count(key, Settled::Expired, reasons::EXPIRED.into());
                    }
                    // One try (B19), and there is none to be had: it does not wait for the mend.
                    Mode::Send { .. }
                        if self.job.expires_at.is_none() && self.lane.gate.is_held(now) =>
                    {
                        self.count(key, Settled::Expired, reasons::CREDENTIALS_REFUSED.into());
                    }
                    Mode::Send { .. } if !self.job.reaches(device) => {
                        self.count(key, Settled::Failed, reasons::NO_ADDRESS.into());
                    }
                    Mode::Send { .. } if self.park(mode, now) => continue,
                    // Ahead of the gate: what goes through it may be the probe.
                    Mode::Send { .. } => match self.lane.chat_free(key, now) {
                        Ok(()) => break,
                        Err(due_at) => self.put_off(key, due_at, now),
                    },
                }
            } else {
                self.skipped += u64::from(self.job.names_devices());
            }
            self.queue.pop_front();
        }
        if self.queue.is_empty() { None } else { self.take_place(now).err() }
    }

    /// Takes slot and credit for one device, if lease and gate allow. The slot comes first, for
    /// everybody, so that nobody holds credit while it waits for a slot.
    pub(super) fn take_place(&mut self, now: Timestamp) -> Result<(), Obstacle> {
        let obstacle = if !self.lane.shared.standing.holds(now) {
            Some(Obstacle::Standing)
        } else if now >= self.page.lease_until || self.tenure != self.lane.shared.standing.tenure()
        {
            Some(Obstacle::Lease)
        } else {
            self.lane.has_retries_in_plenty().then_some(Obstacle::Retries)
        };
        if let Some(obstacle) = obstacle {
            // A place that is kept here is one that the retries wait for.
            self.slot.let_go();
            self.credit.let_go();
            return Err(obstacle);
        }
        self.lane.slots.set_limit(self.lane.slots_max());
        if !self.slot.has_place() {
            return Err(Obstacle::Slots);
        }
        if !self.credit.has_place() {
            return Err(Obstacle::Credit);
        }
        match self.lane.admit(now) {
            Admission::Go => Ok(()),
            Admission::Wait(until) => {
                self.slot.let_go();
                self.credit.let_go();
                Err(Obstacle::Gate(until))
            }
        }
    }

    /// A delivery that becomes a row of its own without having been tried.
    fn put_off(&mut self, key: DeviceKey, due_at: Timestamp, now: Timestamp) {
        self.try_again(NewRetry {
            key,
            attempts: 0,
            first_attempt_at: now,
            due_at,
            reason: reasons::PACED.into(),
            unknown_outcomes: 0,
        });
        self.done += 1;
    }

    /// A delivery that ends without being sent.
    pub(super) fn count(&mut self, key: DeviceKey, settled: Settled, reason: Reason) {
        self.batch.settle(key, settled, Some(reason), 0);
        self.done += 1;
    }
}
