//! The admin API (`/admin/v1`): applications, keys, providers. The front lets nobody in without an
//! admin key.

pub(crate) mod apps;
pub(crate) mod keys;
pub(crate) mod providers;
