//! Devices that a page defers because their upstream accepts no messages now, while the rest of the
//! page continues.

use std::collections::VecDeque;
use std::sync::Arc;

use notify_core::Timestamp;

use crate::delivery::lane::{Lane, Upstream};
use crate::store::AudienceDevice;

/// The deferred devices of one page, by upstream. They count in their lane until they are taken out
/// or this is dropped.
pub(crate) struct Deferred {
    lane: Arc<Lane>,
    by_upstream: Vec<(Arc<Upstream>, VecDeque<AudienceDevice>)>,
    len: usize,
    /// Whether some of them may have changed since they were read.
    is_stale: bool,
    /// When to check the first of their upstreams again, if that is known.
    until: Option<Timestamp>,
}

impl Deferred {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self { lane, by_upstream: Vec::new(), len: 0, is_stale: false, until: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.until
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// The rest of the page was read again and these were not, so changes to them are unknown.
    pub(crate) fn mark_stale(&mut self) {
        self.is_stale = true;
    }

    pub(crate) fn push(
        &mut self,
        service: &Arc<Upstream>,
        device: AudienceDevice,
        until: Option<Timestamp>,
    ) {
        self.lane.add_deferred(1);
        self.len += 1;
        self.until = earlier(self.until, until);
        match self.by_upstream.iter_mut().find(|(known, _)| Arc::ptr_eq(known, service)) {
            Some((_, devices)) => devices.push_back(device),
            None => self.by_upstream.push((service.clone(), VecDeque::from([device]))),
        }
    }

    /// Takes out as many devices of each upstream as it has room for.
    pub(crate) fn take(
        &mut self,
        room: impl Fn(&Upstream, &AudienceDevice) -> Result<usize, Option<Timestamp>>,
    ) -> Vec<AudienceDevice> {
        let mut taken = Vec::new();
        self.until = None;
        for (service, devices) in &mut self.by_upstream {
            let probes_verified = service.wants_probe_of_verified();
            if let Some(verified) = probes_verified
                && let Some(place) =
                    devices.iter().position(|device| device.trust.is_verified() == verified)
            {
                devices.swap(0, place);
            }
            let Some(first) = devices.front() else { continue };
            match room(service, first) {
                // Only the probe: with others it would lose its place when they are read again.
                Ok(_) if probes_verified.is_some() => taken.extend(devices.pop_front()),
                Ok(room) => taken.extend(devices.drain(..room.min(devices.len()))),
                Err(until) => self.until = earlier(self.until, until),
            }
        }
        self.by_upstream.retain(|(_, devices)| !devices.is_empty());
        self.len -= taken.len();
        self.is_stale &= self.len > 0;
        if !taken.is_empty() {
            self.lane.remove_deferred(taken.len());
        }
        taken
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.lane.remove_deferred(self.len);
    }
}

/// The earlier of two times that may not be known.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
