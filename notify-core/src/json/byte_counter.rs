//! Counts the bytes that reading a body looks at, to test that reading stays linear.

use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn add(bytes: usize) {
    BYTES.set(BYTES.get() + bytes);
}

/// How many bytes `work` looks at.
pub(super) fn during(work: impl FnOnce()) -> usize {
    BYTES.set(0);
    work();
    BYTES.get()
}
