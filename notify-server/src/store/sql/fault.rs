//! Faults that tests inject into the writer. Without the feature `testing` this does nothing.

use crate::store::sql::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use crate::store::sql::error::Error;
use crate::store::sql::error::Result;

/// A fault. The number counts the writes or commits since the fault was set; 1 is the next one.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Before the n-th write, the transaction of the whole batch is rolled back, as a full disk
    /// does.
    Transaction(u32),
    /// The n-th commit fails.
    Commit(u32),
    /// The n-th commit succeeds, and its reply is lost.
    Answer(u32),
    /// Every commit fails until the fault is removed.
    EveryCommit,
}

/// The point in a commit at which a fault happens.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Copy)]
enum Place {
    Write,
    Commit,
    Answer,
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
    pub(in crate::store) fn lift(&self) {
        *self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    /// Fails at the write that a fault is set for, and rolls its transaction back.
    pub(in crate::store) fn at_write(&self, connection: &Connection) -> Result<()> {
        let result = self.count_down(Place::Write);
        if result.is_err() {
            connection.execute_batch("rollback")?;
        }
        result
    }

    /// Fails at the commit that a fault is set for.
    pub(in crate::store) fn at_commit(&self) -> Result<()> {
        self.count_down(Place::Commit)
    }

    /// Fails after the commit whose reply a fault loses.
    pub(in crate::store) fn at_answer(&self) -> Result<()> {
        self.count_down(Place::Answer)
    }

    /// Counts down the fault that is set, if it is one of this place. Fails when the count reaches
    /// zero.
    fn count_down(&self, place: Place) -> Result<()> {
        let mut set = self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(fault) = set.as_mut() else { return Ok(()) };
        let left = match (fault, place) {
            (Fault::EveryCommit, Place::Commit) => return Err(Error::Fault),
            (Fault::Transaction(left), Place::Write)
            | (Fault::Commit(left), Place::Commit)
            | (Fault::Answer(left), Place::Answer) => left,
            (
                Fault::Transaction(_) | Fault::Commit(_) | Fault::Answer(_) | Fault::EveryCommit,
                Place::Write | Place::Commit | Place::Answer,
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
    pub(in crate::store) fn at_answer(&self) -> Result<()> {
        Ok(())
    }
}
