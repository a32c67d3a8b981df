//! The store on SQL: one thread that writes with group commit, a few connections that read. The
//! operations are written once, for every backend; `sqlite/` and `postgres/` open theirs. With those the only
//! place in the server that knows SQL. Never logs.

mod app;
mod campaign;
mod channel;
mod connection;
mod cursor;
mod day;
mod delivery;
mod device;
mod engagement;
mod error;
mod event;
mod fault;
mod feed;
mod held;
mod inbound;
#[cfg(any(test, feature = "testing"))]
mod inline;
mod insert;
mod many;
mod moves;
mod notification;
mod once;
mod poll;
mod provider;
mod readers;
mod row;
mod rows;
mod store;
mod upkeep;
mod value;
mod web;
mod webhook;
mod writer;

pub(in crate::store) use app::resume_erasing;
pub(in crate::store) use connection::{Connection, OptionalExtension};
pub use error::Gone;
pub(in crate::store) use error::{Error, Result};
#[cfg(any(test, feature = "testing"))]
pub use fault::Fault;
pub(in crate::store) use held::Open;
pub(in crate::store) use insert::{count_of, table_of};
pub(in crate::store) use many::{NUMBERS, TEXTS, list_of};
pub use moves::Moved;
pub(in crate::store) use moves::{MoveMark, MoveState, admit, begin_work, mark_move, move_mark};
#[cfg(test)]
pub(in crate::store) use notification::PAGES_READ_MAX;
pub use readers::READS_WAITING_MAX;
pub(in crate::store) use readers::Readers;
pub(in crate::store) use rows::Row;
pub use store::SqlStore;
pub(in crate::store) use store::{Held, Parts};
#[cfg(any(test, feature = "testing"))]
pub(in crate::store) use value::FromColumn;
pub(in crate::store) use value::{ColumnRef, Params, Type, Value, params, value};
#[cfg(test)]
pub(in crate::store) use writer::WriteTx;
pub(in crate::store) use writer::{Listeners, Source, Writer, tell};
pub use writer::{WRITES_PER_COMMIT_MAX, WRITES_WAITING_MAX};
