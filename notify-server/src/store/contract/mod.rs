//! The promises of the store on both databases. Each promise has a check, which runs on an empty
//! database.
//!
//! `#[apply(contract)]` turns a check into four tests: `<check>::sqlite`, and three on PostgreSQL. In
//! `<check>::postgres`, writes are in sets; in `<check>::postgres_row_by_row`, none is; in
//! `<check>::postgres_failing_sets`, every set fails, and its rows are written alone. A check without
//! it is never called, so the compiler reports it as dead code.

#![allow(clippy::unwrap_used, reason = "checks fail by panicking")]

/// Declares the tests of a check. The check takes an open store, or the database to open.
macro_rules! contract {
    ($(#[$meta:meta])* async fn $name:ident($store:ident: &Store) $body:block) => {
        contract! { @tests $name, crate::store::contract::check_store, (super::$name) }
        $(#[$meta])*
        async fn $name($store: &Store) $body
    };
    ($(#[$meta:meta])* async fn $name:ident($backend:ident: &dyn Backend) $body:block) => {
        contract! { @tests $name, super::$name, () }
        $(#[$meta])*
        async fn $name($backend: &dyn Backend) $body
    };
    (@tests $name:ident, $run:path, ($($check:path)?)) => {
        mod $name {
            #[tokio::test]
            async fn sqlite() {
                let backend = crate::store::sqlite::tests::SqliteBackend::new();
                $run(&backend, $($check)?).await;
            }

            #[tokio::test]
            async fn postgres() {
                use crate::store::postgres::{SetMode, tests::PostgresBackend};
                $run(&PostgresBackend::migrated(SetMode::On), $($check)?).await;
            }

            #[tokio::test]
            async fn postgres_row_by_row() {
                use crate::store::postgres::{SetMode, tests::PostgresBackend};
                $run(&PostgresBackend::migrated(SetMode::Off), $($check)?).await;
            }

            #[tokio::test]
            async fn postgres_failing_sets() {
                use crate::store::postgres::{SetMode, tests::PostgresBackend};
                $run(&PostgresBackend::migrated(SetMode::Failing), $($check)?).await;
            }
        }
    };
}

mod apps;
mod breakers;
mod campaigns;
pub(super) mod deliveries;
mod delivery;
mod devices;
mod engagement;
mod feeds;
pub(super) mod fixtures;
pub(super) mod full_app;
mod idempotency;
mod inbound;
mod maintenance;
mod messages;
mod named_devices;
mod notifications;
mod operators;
mod pages;
mod polls;
mod reopen;
mod retries;
mod servers;
mod statistics;
mod tags;
mod tokens;
mod unregistered;
mod web;
mod webhooks;

use crate::store::{SharedStore, Store, StoreError};

/// An empty database for one test.
pub(crate) trait Backend {
    /// Opens the database. A later call opens the same database again.
    fn open(&self) -> SharedStore;
}

/// Runs a check on an empty database.
async fn check_store(backend: &dyn Backend, check: impl AsyncFnOnce(&Store)) {
    let store = backend.open();
    check(&store).await;
    store.close().await;
}

/// The broken rule of an error, with its path.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Refused(violations)) => violations.into_vec().join("; "),
        other => panic!("expected a refusal, not {other:?}"),
    }
}

/// Whether nothing was found.
pub(crate) fn is_unknown<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound))
}
