//! Faults that tests inject into the writer. Without the feature `testing` this does nothing.

use crate::store::sql::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use crate::store::sql::error::Error;
use crate::store::sql::error::Result;

/// A fault, counted from when it was set: 1 is the next one.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A statement of the n-th write ends the whole transaction, as a full disk does.
    Transaction(u32),
    /// The n-th commit fails.
    Commit(u32),
    /// The n-th commit succeeds, and its reply is lost.
    Answer(u32),
    /// Every commit fails until the fault is removed.
    EveryCommit,
}

/// Where a fault happens.
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

    /// Fails the n-th write.
    pub(in crate::store) fn at_write(&self, connection: &Connection) -> Result<()> {
        let met = self.meet(Place::Write);
        if met.is_err() {
            connection.execute_batch("rollback")?;
        }
        met
    }

    /// Fails the n-th commit.
    pub(in crate::store) fn at_commit(&self) -> Result<()> {
        self.meet(Place::Commit)
    }

    /// Loses the reply of the n-th commit.
    pub(in crate::store) fn at_answer(&self) -> Result<()> {
        self.meet(Place::Answer)
    }

    /// Counts down the fault of this place, and fails when the count is reached.
    fn meet(&self, place: Place) -> Result<()> {
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
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nothing to meet here")]
    pub(in crate::store) fn at_write(&self, _: &Connection) -> Result<()> {
        Ok(())
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nothing to meet here")]
    pub(in crate::store) fn at_commit(&self) -> Result<()> {
        Ok(())
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nothing to meet here")]
    pub(in crate::store) fn at_answer(&self) -> Result<()> {
        Ok(())
    }
}
