//! A count of the bytes that reading looks at; only in tests.

use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn add(bytes: usize) {
    BYTES.set(BYTES.get() + bytes);
}

/// How many bytes `work` looked at.
pub(crate) fn of(work: impl FnOnce()) -> usize {
    BYTES.set(0);
    work();
    BYTES.get()
}
