//! Keeping a page true (trap 8): addresses and states are read when their turn comes.

use notify_core::Timestamp;

use super::PageRun;
use crate::store::{AudienceDevice, DeviceKey, Settled, StoreError};

impl PageRun {
    pub(super) fn must_read_again(&self, now: Timestamp) -> bool {
        !self.fresh
            || self.mark.take_stale()
            || now.ms_since(self.read_at) > self.lane.shared.config.address_age_ms_max
    }

    /// Reads what is left of the page as it is now (trap 8). The first time the devices are those
    /// that came with the claim, if they are young enough.
    pub(super) async fn read_again(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        self.mode = Some(self.job.mode(&self.lane).await?);
        let young = now.ms_since(self.read_at) <= shared.config.address_age_ms_max;
        if self.fresh || !young || self.mark.take_stale() {
            let Some(first) = self.queue.iter().map(|device| device.key).min() else {
                return Ok(());
            };
            let from = DeviceKey(first.0 - 1);
            let devices = shared.store.read_range(&self.job.dispatch, from, self.page.to).await?;
            self.read_at = now;
            self.take_over(devices);
        }
        self.fresh = true;
        self.leave_out_moved().await
    }

    /// Takes the new state of the devices that wait. One that is gone counts as canceled (B20).
    pub(super) fn take_over(&mut self, devices: Vec<AudienceDevice>) {
        let mut new = devices.into_iter().peekable();
        let mut old: Vec<AudienceDevice> = std::mem::take(&mut self.queue).into();
        old.sort_by_key(|device| device.key);
        for before in old {
            while new.next_if(|device| device.key < before.key).is_some() {}
            if let Some(device) = new.next_if(|device| device.key == before.key) {
                self.queue.push_back(device);
            } else if self.job.targets(&before) {
                self.count(before.key, Settled::Canceled, "device_deleted".into());
            }
        }
    }

    /// Leaves out devices whose address came from a device of this dispatch that got it already
    /// (B22, trap 8): the phone must not get the same notification twice.
    pub(super) async fn leave_out_moved(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let dispatch = self.job.dispatch.no;
        for device in &mut self.queue {
            let Some((from, since)) = device.taken_from else { continue };
            if since < self.job.dispatch.due_at || !self.job.targets(device) {
                continue;
            }
            let sent = shared.marks.has_started(dispatch, from)
                || shared
                    .store
                    .delivery_outcome(dispatch, from)
                    .await?
                    .is_some_and(|outcome| outcome.settled == Settled::Sent);
            if sent {
                device.eligible = false;
            }
        }
        Ok(())
    }
}
