//! Devices set aside because the service behind them takes nothing now, while the rest of the page
//! goes on.

use std::collections::VecDeque;
use std::sync::Arc;

use notify_core::Timestamp;

use super::page_task::PageRun;
use crate::delivery::job::Mode;
use crate::delivery::lane::Service;
use crate::store::AudienceDevice;

/// Devices of one page that are set aside, by service.
#[derive(Default)]
pub(super) struct Parked {
    by_service: Vec<(Arc<Service>, VecDeque<AudienceDevice>)>,
    len: usize,
    /// Some of them may have changed since they were read.
    stale: bool,
    /// When one of their services is to be looked at again.
    until: Option<Timestamp>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// What the page was read for holds for these as well: they were not read.
    pub(super) fn not_read(&mut self) {
        self.stale = true;
    }

    fn push(&mut self, service: &Arc<Service>, device: AudienceDevice, until: Option<Timestamp>) {
        self.len += 1;
        self.until = sooner(self.until, until);
        let place = self.by_service.iter_mut().find(|(known, _)| Arc::ptr_eq(known, service));
        match place {
            Some((_, devices)) => devices.push_back(device),
            None => self.by_service.push((service.clone(), VecDeque::from([device]))),
        }
    }

    /// Takes out, per service, as many as it has room for.
    fn take(
        &mut self,
        room: impl Fn(&Service, &AudienceDevice) -> Result<usize, Option<Timestamp>>,
    ) -> Vec<AudienceDevice> {
        let mut taken = Vec::new();
        self.until = None;
        for (service, devices) in &mut self.by_service {
            let probes_verified = service.wants_probe_of_verified();
            if let Some(verified) = probes_verified
                && let Some(place) =
                    devices.iter().position(|device| device.trust.is_verified() == verified)
            {
                devices.swap(0, place);
            }
            let Some(first) = devices.front() else { continue };
            match room(service, first) {
                // The probe alone: among others it would lose its place when they are read again.
                Ok(_) if probes_verified.is_some() => taken.extend(devices.pop_front()),
                Ok(room) => taken.extend(devices.drain(..room.min(devices.len()))),
                Err(until) => self.until = sooner(self.until, until),
            }
        }
        self.by_service.retain(|(_, devices)| !devices.is_empty());
        self.len -= taken.len();
        taken
    }
}

/// The sooner of two instants that may not be known.
fn sooner(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl PageRun {
    /// Sets the first device of the queue aside when the service behind it takes nothing now.
    /// Answers whether it did.
    pub(super) fn park(&mut self, mode: &Mode, now: Timestamp) -> bool {
        let Mode::Send { provider, .. } = mode else { return false };
        let Some(device) = self.queue.front() else { return false };
        let Some(service) = self.job.service_of(&self.lane, device) else { return false };
        let candidate = self.job.candidate(&self.lane, provider, device);
        let Err(until) = service.room(candidate, now) else { return false };
        if let Some(device) = self.queue.pop_front() {
            self.lane.parked_more(1);
            self.parked.push(&service, device, until);
        }
        true
    }

    /// Takes back those whose service takes something again, or that are not to be sent any more.
    pub(super) fn unpark(&mut self, now: Timestamp) {
        if self.parked.is_empty() {
            return;
        }
        let ends = self.job.canceled()
            || self.job.expired(now)
            || self.version != self.lane.provider_version();
        let provider = match &self.mode {
            Some(Mode::Send { provider, .. }) if !ends => Some(provider.clone()),
            Some(Mode::Send { .. } | Mode::Count { .. }) | None => None,
        };
        let (job, lane) = (self.job.clone(), self.lane.clone());
        let taken = self.parked.take(|service, device| match &provider {
            Some(provider) => service.room(job.candidate(&lane, provider, device), now),
            None => Ok(usize::MAX),
        });
        if taken.is_empty() {
            return;
        }
        self.lane.parked_fewer(taken.len());
        // They waited: their addresses are read again, with what else is left (trap 8).
        let age_ms = now.ms_since(self.read_at);
        if self.parked.stale || age_ms > self.lane.shared.config.address_age_ms_max {
            self.must_read();
        }
        for device in taken.into_iter().rev() {
            self.queue.push_front(device);
        }
        if self.parked.is_empty() {
            self.parked.stale = false;
        }
    }
}
