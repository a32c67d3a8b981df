//! The order of rows that name the same device or address: each waits for the one before it, so that
//! the last one wins however many rows are under way.

use std::collections::HashMap;

use tokio::sync::watch;

use super::record::Keys;

/// Keys that are kept at least before those of settled rows are looked for.
const SWEPT_FROM: usize = 1_024;

/// Which row has a key now.
#[derive(Default)]
pub(super) struct Turns {
    last: HashMap<u64, watch::Receiver<()>>,
    swept: usize,
}

/// The turn of a row; it is over when this is dropped.
pub(super) struct Turn {
    before: Vec<watch::Receiver<()>>,
    _mine: watch::Sender<()>,
}

impl Turns {
    /// Takes a turn after every row that has one of these keys. Rows take theirs in the order of the
    /// file.
    pub(super) fn take(&mut self, keys: Keys) -> Turn {
        let (mine, wait) = watch::channel(());
        let keys = keys.into_iter().flatten();
        let before = keys.filter_map(|key| self.last.insert(key, wait.clone())).collect();
        if self.last.len() > 2 * self.swept.max(SWEPT_FROM) {
            self.last.retain(|_, wait| wait.has_changed().is_ok());
            self.swept = self.last.len();
        }
        Turn { before, _mine: mine }
    }
}

impl Turn {
    /// Waits for the rows before.
    pub(super) async fn come(&mut self) {
        for before in &mut self.before {
            // Nothing is ever sent: the wait ends with the turn.
            while before.changed().await.is_ok() {}
        }
    }
}
