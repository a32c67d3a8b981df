//! The admin API (`/admin/v1`): applications, keys, providers, diagnostics. The pipeline
//! authenticates administrators.

pub(crate) mod apps;
pub(crate) mod diagnostics;
pub(crate) mod keys;
mod provider_status;
pub(crate) mod providers;
pub(crate) mod web;
