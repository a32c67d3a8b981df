//! The admin API (`/admin/v1`): applications, keys, providers, diagnostics. The pipeline
//! authenticates administrators.

pub(crate) mod apps;
pub(crate) mod diagnostics;
pub(crate) mod operators;
#[cfg(feature = "sandbox")]
pub(crate) mod playground;
pub(crate) mod providers;
