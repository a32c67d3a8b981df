//! The rows of issue 2, a file each.

pub(crate) mod accept;
pub(crate) mod memory;
pub(crate) mod send;
pub(crate) mod statistics;
