//! Notify.
fn main() {}
