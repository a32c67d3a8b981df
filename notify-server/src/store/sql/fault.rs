//! Faults that tests inject into the writer. Without the feature `testing` this does nothing.

use crate::store::sql::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use crate::store::sql::error::Error;
use crate::store::sql::error::Result;

/// A fault. The number counts the writes or commits after the fault was set; 1 is the next write or
/// commit.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The transaction of the whole batch is rolled back before the n-th write, as on a full disk.
    RollBackAtWrite(u32),
    /// The n-th commit fails.
    FailCommit(u32),
    /// The n-th commit succeeds, and its reply is lost.
    LoseCommitReply(u32),
    /// Every commit fails until the fault is removed.
    FailEveryCommit,
}

/// The point in a transaction at which a fault happens.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Copy)]
enum FaultPoint {
    Write,
    Commit,
    CommitReply,
}

/// The fault that is set, if any.
#[derive(Debug, Default)]
pub(in crate::store) struct Faults {
    #[cfg(any(test, feature = "testing"))]
    set: std::sync::Mutex<Option<Fault>>,
}

#[cfg(any(test, feature = "testing"))]
impl Faults {
    /// Sets a fault.
    pub(in crate::store) fn set(&self, fault: Fault) {
        *self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(fault);
    }

    /// Removes the fault that is set.
    pub(in crate::store) fn remove(&self) {
        *self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    /// Fails if a fault is set for this write, and rolls the transaction back.
    pub(in crate::store) fn at_write(&self, connection: &Connection) -> Result<()> {
        let result = self.count_down(FaultPoint::Write);
        if result.is_err() {
            connection.execute_batch("rollback")?;
        }
        result
    }

    /// Fails if a fault is set for this commit.
    pub(in crate::store) fn at_commit(&self) -> Result<()> {
        self.count_down(FaultPoint::Commit)
    }

    /// Fails if a fault loses the reply of this commit.
    pub(in crate::store) fn at_commit_reply(&self) -> Result<()> {
        self.count_down(FaultPoint::CommitReply)
    }

    /// Counts the fault down, if a fault is set that happens at this point. Fails when the count
    /// reaches zero, and removes the fault.
    fn count_down(&self, point: FaultPoint) -> Result<()> {
        let mut set = self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(fault) = set.as_mut() else { return Ok(()) };
        let left = match (fault, point) {
            (Fault::FailEveryCommit, FaultPoint::Commit) => return Err(Error::Fault),
            (Fault::RollBackAtWrite(left), FaultPoint::Write)
            | (Fault::FailCommit(left), FaultPoint::Commit)
            | (Fault::LoseCommitReply(left), FaultPoint::CommitReply) => left,
            // The fault happens at another point.
            (
                Fault::RollBackAtWrite(_)
                | Fault::FailCommit(_)
                | Fault::LoseCommitReply(_)
                | Fault::FailEveryCommit,
                FaultPoint::Write | FaultPoint::Commit | FaultPoint::CommitReply,
            ) => return Ok(()),
        };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Ok(());
        }
        *set = None;
        Err(Error::Fault)
    }
}

#[cfg(not(any(test, feature = "testing")))]
impl Faults {
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the testing version can fail"
    )]
    pub(in crate::store) fn at_write(&self, _: &Connection) -> Result<()> {
        Ok(())
    }

    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the testing version can fail"
    )]
    pub(in crate::store) fn at_commit(&self) -> Result<()> {
        Ok(())
    }

    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the testing version can fail"
    )]
    pub(in crate::store) fn at_commit_reply(&self) -> Result<()> {
        Ok(())
    }
}
