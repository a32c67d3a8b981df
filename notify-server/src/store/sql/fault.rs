//! Faults that tests make the writer meet. In a build without the feature `testing` nothing here
//! does anything.

use super::connection::Connection;
#[cfg(any(test, feature = "testing"))]
use super::error::Error;
use super::error::Result;

/// A fault, counted from when it was set: 1 is the next one.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The n-th write meets a statement that ends the whole transaction, as a full disk does.
    Transaction(u32),
    /// The n-th commit fails.
    Commit(u32),
    /// The n-th commit is done, and its answer lost on the way.
    Answer(u32),
    /// Every commit fails, whoever asks for it, until the fault is lifted.
    EveryCommit,
}

/// The fault that is set, if any.
#[derive(Debug, Default)]
pub(super) struct Faults {
    #[cfg(any(test, feature = "testing"))]
    set: std::sync::Mutex<Option<Fault>>,
}

#[cfg(any(test, feature = "testing"))]
impl Faults {
    /// Sets a fault.
    pub(super) fn set(&self, fault: Fault) {
        *self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(fault);
    }

    /// Lifts the fault that is set.
    pub(super) fn lift(&self) {
        *self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    /// Meets the fault of the n-th write.
    pub(super) fn at_write(&self, connection: &Connection) -> Result<()> {
        if self.count(|fault| match fault {
            Fault::Transaction(n) => Some(n),
            Fault::Commit(_) | Fault::Answer(_) | Fault::EveryCommit => None,
        }) {
            connection.execute_batch("rollback")?;
            return Err(Error::Fault);
        }
        Ok(())
    }

    /// Meets the fault of the n-th commit.
    pub(super) fn at_commit(&self) -> Result<()> {
        let met = self.count(|fault| match fault {
            Fault::Commit(n) => Some(n),
            Fault::Transaction(_) | Fault::Answer(_) | Fault::EveryCommit => None,
        });
        if met || self.is(Fault::EveryCommit) { Err(Error::Fault) } else { Ok(()) }
    }

    /// Loses the answer of the n-th commit.
    pub(super) fn at_answer(&self) -> Result<()> {
        let met = self.count(|fault| match fault {
            Fault::Answer(n) => Some(n),
            Fault::Transaction(_) | Fault::Commit(_) | Fault::EveryCommit => None,
        });
        if met { Err(Error::Fault) } else { Ok(()) }
    }

    /// True while this fault is set.
    fn is(&self, fault: Fault) -> bool {
        *self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner) == Some(fault)
    }

    /// Counts the fault down; true when its turn has come.
    fn count(&self, of: impl Fn(&mut Fault) -> Option<&mut u32>) -> bool {
        let mut set = self.set.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(left) = set.as_mut().and_then(of) else { return false };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return false;
        }
        *set = None;
        true
    }
}

#[cfg(not(any(test, feature = "testing")))]
impl Faults {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nothing to meet here")]
    pub(super) fn at_write(&self, _: &Connection) -> Result<()> {
        Ok(())
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nothing to meet here")]
    pub(super) fn at_commit(&self) -> Result<()> {
        Ok(())
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nothing to meet here")]
    pub(super) fn at_answer(&self) -> Result<()> {
        Ok(())
    }
}
