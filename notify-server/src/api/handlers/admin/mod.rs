//! The admin API (`/admin/v1`): applications, keys, providers, diagnostics. The front lets nobody in without an
//! admin key.

pub(crate) mod apps;
mod channels;
pub(crate) mod diagnostics;
pub(crate) mod keys;
pub(crate) mod providers;
pub(crate) mod web;
