//! Opening pages: the next one of a dispatch, and those that were left open.

use std::sync::Arc;

use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::unbounded_channel;

use super::Lane;
use super::run::{Finished, LaneRun};
use crate::delivery::job::Job;
use crate::delivery::page::{PageRun, Reading};
use crate::delivery::singles::{self, Singles};
use crate::store::{OpenPage, PageClaim, PageNo, Slice, StoreError};

impl LaneRun {
    /// Reads and claims the next page of a dispatch. Answers whether more is to come.
    pub(super) async fn open_next_page(&mut self, job: &Arc<Job>) -> Result<bool, StoreError> {
        let shared = self.lane.shared.clone();
        if shared.config.among_others && !self.follow(job).await? {
            return Ok(false);
        }
        let from = job.cursor();
        let mark = shared.marks.open(from, job.dispatch.until);
        let (read_at, tenure) = (shared.clock.now(), shared.standing.tenure());
        let slice = shared.store.read_slice(&job.dispatch, from, shared.config.page_rows).await?;
        let Slice { devices, to, end } = slice;
        mark.narrow(from, to);
        let claim = PageClaim {
            dispatch: job.dispatch.no,
            from,
            to,
            end,
            targeted: (devices.iter().filter(|device| job.targets(device)).count()
                + job.gone(&devices, from, to).len()) as u64,
            excluded: job.count_excluded(&devices),
            epoch: shared.epoch,
            lease_until: read_at.plus_ms(shared.config.lease_ms),
            at: read_at,
        };
        let _claiming = shared.claims.read().await;
        let page = match shared.store.open_page(claim).await {
            Ok(page) => page,
            // Another server was first: its turn comes again from where that one left off.
            Err(StoreError::Fenced) if shared.config.among_others => return Ok(true),
            // Somebody else moved the cursor: what is left is theirs, or is adopted.
            Err(StoreError::Fenced) => {
                shared.ask_for_adoption();
                return Ok(false);
            }
            // Erased with its application.
            Err(StoreError::NotFound) => return Ok(false),
            Err(error) => {
                // It may have been committed all the same.
                shared.ask_for_adoption();
                return Err(error);
            }
        };
        job.move_cursor(to);
        shared.committed();
        if end {
            shared.wake.notify_one();
        }
        // One without anybody to send to was finished when it was claimed: whoever becomes eligible
        // afterwards could be sent to but not counted.
        if claim.targeted > 0 {
            shared.page_opened(page.no);
            let reading = Reading { devices, read_at, mark, tenure };
            self.spawn_page(PageRun::fresh(self.lane.clone(), job.clone(), page, reading));
        }
        Ok(!end)
    }

    /// Goes to where the pages of all servers have come; false when none is left to open.
    async fn follow(&self, job: &Job) -> Result<bool, StoreError> {
        let Some(scan) = self.lane.shared.store.scan(job.dispatch.no).await? else {
            return Ok(false);
        };
        job.move_cursor(scan.cursor);
        if scan.canceled {
            job.cancel();
        }
        Ok(true)
    }

    /// Goes on with a page that another process, or a broken task of this one, left open.
    pub(super) async fn resume(&mut self, page: OpenPage) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let job = match Job::read(&shared, page.dispatch).await {
            Ok(job) => job,
            // Erased with its application.
            Err(StoreError::NotFound) => {
                shared.page_closed(page.no);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let done = shared.store.page_done(&page).await?;
        let mark = shared.marks.open(page.from, page.to);
        let read_at = shared.clock.now();
        let devices = shared.store.read_range(&job.dispatch, page.from, page.to).await?;
        // Among others it has to show first that the page is its own still: that was long ago.
        let reading = Reading { devices, read_at, mark, tenure: 0 };
        let run = PageRun::resumed(self.lane.clone(), job, page, reading, &done);
        self.spawn_page(run);
        Ok(())
    }

    /// Sends notifications to one device each: passes them to the task that does so, or starts one.
    pub(super) fn send_singles(&mut self, singles: Singles) {
        let singles = match &self.singles {
            Some(task) => match task.send(singles) {
                Ok(()) => return,
                Err(SendError(singles)) => singles,
            },
            None => singles,
        };
        let (task, incoming) = unbounded_channel();
        // Cannot fail: `incoming` is still open.
        let _ = task.send(singles);
        self.singles = Some(task);
        let lane = self.lane.clone();
        self.running.spawn(async move {
            singles::run(&lane, incoming).await;
            Finished::Singles
        });
    }

    fn spawn_page(&mut self, run: PageRun) {
        let (no, waiting) = (run.page_no(), run.waiting());
        let lane = self.lane.clone();
        let task = self.running.spawn(async move {
            let _open = PageOpen(lane, no);
            Finished::Page(run.run().await)
        });
        self.open.insert(task.id(), waiting);
    }
}

/// Tells the engine that a page is not worked on any more, also when its task panicked.
struct PageOpen(Arc<Lane>, PageNo);

impl Drop for PageOpen {
    fn drop(&mut self) {
        self.0.shared.page_closed(self.1);
    }
}
