//! The benchmarks, one file for each row of the table.

pub(crate) mod accept;
pub(crate) mod audiences;
pub(crate) mod availability;
pub(crate) mod console;
pub(crate) mod content;
pub(crate) mod databases;
pub(crate) mod enrichment;
pub(crate) mod fan_out;
pub(crate) mod import;
pub(crate) mod memory;
pub(crate) mod messages;
pub(crate) mod queue;
pub(crate) mod send;
pub(crate) mod single;
pub(crate) mod statistics;
pub(crate) mod trouble;
pub(crate) mod web_push;
