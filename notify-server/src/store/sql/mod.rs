//! Runs the store's SQL: a writer thread with group commit, a pool of read-only connections, and
//! one interface to the statements and rows of both databases. Nothing here logs.

pub(super) mod answer;
pub(super) mod caller;
pub(super) mod columns;
pub(super) mod connection;
pub(super) mod error;
pub(super) mod fault;
pub(super) mod insert;
#[cfg(any(test, feature = "testing"))]
mod manual_executor;
pub(super) mod moves;
pub(super) mod readers;
pub(super) mod row;
pub(super) mod scope;
pub(super) mod turns;
pub(super) mod value;
pub(super) mod writer;

pub(in crate::store) use answer::{Answer, pack, unpack};
pub(in crate::store) use connection::{Connection, OptionalExtension, Row};
pub use error::FileMissing;
pub(in crate::store) use error::{Error, Result};
#[cfg(any(test, feature = "testing"))]
pub use fault::Fault;
pub(in crate::store) use insert::{seq_of, table_of};
pub use moves::Moved;
pub(in crate::store) use moves::{
    MoveMark, MoveState, begin_write_checked, ensure_usable, read_move_mark, set_move_mark,
};
pub use readers::READS_WAITING_MAX;
pub(in crate::store) use readers::{ConnectFn, ReadScope, Readers};
pub(in crate::store) use scope::WriteScope;
pub(in crate::store) use turns::Length;
#[cfg(any(test, feature = "testing"))]
pub(in crate::store) use value::FromColumn;
pub(in crate::store) use value::{
    ColumnRef, NUMBERS, PAIRS, Params, TEXTS, Type, Value, list_of, params, value,
};
pub(in crate::store) use writer::{Listeners, Writer, WriterBackend, notify_listeners};
pub use writer::{WRITES_PER_COMMIT_MAX, WRITES_WAITING_MAX};
