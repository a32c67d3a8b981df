//! Deferred devices: their upstream accepts no messages now, so the page sets them aside and continues
//! with its other devices.

use std::collections::VecDeque;
use std::sync::Arc;

use notify_core::Timestamp;

use crate::delivery::lane::{Lane, Upstream};
use crate::store::AudienceDevice;

/// The deferred devices of one page, by upstream. The lane counts them until they are taken out or
/// this value is dropped.
pub(crate) struct Deferred {
    lane: Arc<Lane>,
    by_upstream: Vec<(Arc<Upstream>, VecDeque<AudienceDevice>)>,
    len: usize,
    /// Whether some of the devices may have changed since they were read.
    is_stale: bool,
    /// When the first upstream may accept messages again; `None` if no time is known.
    recheck_at: Option<Timestamp>,
}

impl Deferred {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self { lane, by_upstream: Vec::new(), len: 0, is_stale: false, recheck_at: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// When the first upstream may accept messages again; `None` if no time is known.
    pub(crate) fn recheck_at(&self) -> Option<Timestamp> {
        self.recheck_at
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Marks the deferred devices as stale. The page calls this after it has read its queue again
    /// without them: changes of the deferred devices before that read are no longer tracked.
    pub(crate) fn mark_stale(&mut self) {
        self.is_stale = true;
    }

    /// Defers a device. `recheck_at`: when its upstream may accept messages again, if a time is known.
    pub(crate) fn push(
        &mut self,
        upstream: &Arc<Upstream>,
        device: AudienceDevice,
        recheck_at: Option<Timestamp>,
    ) {
        self.lane.add_deferred(1);
        self.len += 1;
        self.recheck_at = earlier(self.recheck_at, recheck_at);
        match self.by_upstream.iter_mut().find(|(other, _)| Arc::ptr_eq(other, upstream)) {
            Some((_, devices)) => devices.push_back(device),
            None => self.by_upstream.push((upstream.clone(), VecDeque::from([device]))),
        }
    }

    /// Takes out devices whose upstream accepts messages again. `capacity` gets an upstream and the device
    /// that would be sent to first. It returns how many deliveries the upstream accepts now; if none, it
    /// returns when to check again, if a time is known.
    pub(crate) fn take(
        &mut self,
        capacity: impl Fn(&Upstream, &AudienceDevice) -> Result<usize, Option<Timestamp>>,
    ) -> Vec<AudienceDevice> {
        let mut taken = Vec::new();
        self.recheck_at = None;
        for (upstream, devices) in &mut self.by_upstream {
            let probe_address = upstream.next_probe_address();
            if let Some(probe_address) = probe_address {
                let position =
                    devices.iter().position(|device| probe_address.matches(device.trust));
                if let Some(position) = position {
                    devices.swap(0, position);
                }
            }
            let Some(first) = devices.front() else { continue };
            match capacity(upstream, first) {
                // Only the probe is taken. If other devices went along, the page would read and sort
                // its queue again, and another device could become the probe.
                Ok(_) if probe_address.is_some() => taken.extend(devices.pop_front()),
                Ok(capacity) => taken.extend(devices.drain(..capacity.min(devices.len()))),
                Err(recheck_at) => self.recheck_at = earlier(self.recheck_at, recheck_at),
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

/// The earlier of two times; `None` if neither is known.
fn earlier(first: Option<Timestamp>, second: Option<Timestamp>) -> Option<Timestamp> {
    first.into_iter().chain(second).min()
}
