//! The baselines: the same work without a server around it.

pub(crate) mod encryption;
pub(crate) mod h2_client;
pub(crate) mod h2_connection;
pub(crate) mod pages;
pub(crate) mod sqlite_loop;
pub(crate) mod web_push;
