//! The baselines, which do the server's work with as little code as possible.

pub(crate) mod h2_client;
pub(crate) mod h2_connection;
pub(crate) mod pages;
pub(crate) mod sqlite_loop;
pub(crate) mod web_push;
