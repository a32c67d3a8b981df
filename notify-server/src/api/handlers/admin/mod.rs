//! The admin API (`/admin/v1`): applications, keys, providers, diagnostics. The pipeline
//! authenticates administrators.

pub(crate) mod apps;
mod channels;
pub(crate) mod diagnostics;
pub(crate) mod keys;
pub(crate) mod providers;
pub(crate) mod web;
