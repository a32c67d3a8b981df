//! Keeping a page true (trap 8): addresses and states are read when their turn comes.

use std::collections::VecDeque;

use notify_core::Timestamp;

use super::PageRun;
use crate::reasons;
use crate::store::{AudienceDevice, DeviceKey, Settled, Source, StoreError, Zone};

impl PageRun {
    pub(super) fn must_read_again(&self, now: Timestamp) -> bool {
        !self.fresh
            || self.mark.take_stale()
            || self.version != self.lane.provider_version()
            || now.ms_since(self.read_at) > self.lane.shared.config.address_age_ms_max
    }

    /// Has the devices read again before any of them goes out.
    pub(super) fn must_read(&mut self) {
        self.fresh = false;
        self.read_at = Timestamp(0);
    }

    /// Reads what is left of the page as it is now (trap 8). The first time the devices are those
    /// that came with the claim, if they are young enough.
    pub(super) async fn read_again(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let version = self.lane.provider_version();
        self.mode = Some(self.job.mode(&self.lane).await?);
        self.version = version;
        let young = now.ms_since(self.read_at) <= shared.config.address_age_ms_max;
        if self.fresh || !young || self.mark.take_stale() {
            let Some(first) = self.queue.iter().map(|device| device.key).min() else {
                return Ok(());
            };
            let from = DeviceKey(first.0 - 1);
            let devices = shared.store.read_range(&self.job.dispatch, from, self.page.to).await?;
            self.read_at = now;
            self.parked.not_read();
            self.take_over(devices).await?;
        }
        self.leave_out_moved().await?;
        self.fresh = true;
        Ok(())
    }

    /// Takes the new state of the devices that wait. One that is gone counts as canceled (B20); one
    /// that lost the tag, or left the zone, is not targeted any more.
    async fn take_over(&mut self, devices: Vec<AudienceDevice>) -> Result<(), StoreError> {
        let mut old: Vec<AudienceDevice> = self.queue.iter().cloned().collect();
        old.sort_by_key(|device| device.key);
        let mut new = devices.into_iter().peekable();
        let (mut queue, mut missing) = (VecDeque::with_capacity(old.len()), Vec::new());
        for before in old {
            while new.next_if(|device| device.key < before.key).is_some() {}
            if let Some(device) = new.next_if(|device| device.key == before.key) {
                queue.push_back(device);
            } else if self.job.targets(&before) {
                missing.push(before.key);
            }
        }
        let untagged = self.untagged(&missing).await?;
        self.queue = queue;
        for key in missing {
            if untagged.binary_search(&key).is_err() {
                self.count(key, Settled::Canceled, reasons::DEVICE_DELETED.into());
            }
        }
        Ok(())
    }

    /// Those of these devices that are there, without the tag or the zone by which they were found.
    async fn untagged(&mut self, keys: &[DeviceKey]) -> Result<Vec<DeviceKey>, StoreError> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(Vec::new());
        };
        match (&self.job.dispatch.source, self.job.dispatch.zone) {
            (Source::Platform, Zone::Everybody) | (Source::Named { .. }, _) => {
                return Ok(Vec::new());
            }
            (Source::Tag(_), _) | (Source::Platform, Zone::Offset(_) | Zone::Sweep) => {}
        }
        let (before, last) = (DeviceKey(first.0 - 1), *last);
        let dispatch = self.job.naming(keys.to_vec());
        let devices = self.lane.shared.store.read_range(&dispatch, before, last).await?;
        Ok(devices.into_iter().map(|device| device.key).collect())
    }

    /// Leaves out devices whose address got it already, under another device.
    pub(super) async fn leave_out_moved(&mut self) -> Result<(), StoreError> {
        for device in &mut self.queue {
            if self.job.targets(device)
                && (self.job.reached_before(device, &self.lane.shared).await?
                    || self.job.had_in_another_zone(device, &self.lane.shared).await?)
            {
                device.eligible = false;
            }
        }
        Ok(())
    }
}
