//! A connection that is reopened when it is broken.

use std::sync::Arc;

use crate::store::sql::connection::Connection;
use crate::store::sql::error::Result;

/// Opens a connection.
pub(in crate::store) type ConnectFn = Arc<dyn Fn() -> Result<Connection> + Send + Sync>;

/// The connection of one reader.
pub(in crate::store) struct ReconnectingConnection {
    open: ConnectFn,
    /// `None` after it broke, until the next read.
    connection: Option<Connection>,
}

impl ReconnectingConnection {
    /// Opens it.
    pub(in crate::store) fn open(open: ConnectFn) -> Result<Self> {
        let connection = Some(open()?);
        Ok(Self { open, connection })
    }

    /// Begins a read. Replaces a connection that has broken since the last read.
    pub(in crate::store) fn begin(&mut self, is_one_statement: bool) -> Result<&Connection> {
        let begin = |connection: &Connection| {
            if is_one_statement && connection.can_read_without_tx() {
                return Ok(());
            }
            connection.begin_read()
        };
        if let Some(kept) = self.connection.take() {
            match begin(&kept) {
                Ok(()) => return Ok(self.connection.insert(kept)),
                Err(_) if kept.is_broken() => {}
                Err(error) => {
                    self.connection = Some(kept);
                    return Err(error);
                }
            }
        }
        let opened = (self.open)()?;
        begin(&opened)?;
        Ok(self.connection.insert(opened))
    }

    /// Ends the transaction, if it has not ended.
    pub(in crate::store) fn end(&mut self) -> Result<()> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let ended = connection.rollback();
        if connection.is_broken() {
            self.connection = None;
        }
        ended
    }
}
