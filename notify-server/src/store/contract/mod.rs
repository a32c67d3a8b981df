//! The promises of the store on both databases. Each promise has a check, which runs on an empty
//! database.
//!
//! `#[apply(contract)]` turns a check into two tests, `<check>::sqlite` and `<check>::postgres`.
//! `#[apply(set_contract)]` is for checks of writes that can be in sets. It adds two tests on PostgreSQL:
//! in `<check>::postgres_row_by_row`, no write is in a set; in `<check>::postgres_failing_sets`, every
//! set fails, and its rows are written alone. A check without either is never called, so the compiler
//! reports it as dead code.

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
            contract! { @sqlite_and_postgres $run, ($($check)?) }
        }
    };
    (@sqlite_and_postgres $run:path, ($($check:path)?)) => {
        #[tokio::test]
        async fn sqlite() {
            let backend = crate::store::sqlite::tests::SqliteBackend::new();
            $run(&backend, $($check)?).await;
        }

        contract! { @postgres postgres, On, $run, ($($check)?) }
    };
    (@postgres $test:ident, $sets:ident, $run:path, ($($check:path)?)) => {
        #[tokio::test]
        async fn $test() {
            use crate::store::postgres::{SetMode, tests::PostgresBackend};
            $run(&PostgresBackend::migrated(SetMode::$sets), $($check)?).await;
        }
    };
}

/// As `contract`, for a check of writes that can be in sets.
macro_rules! set_contract {
    ($(#[$meta:meta])* async fn $name:ident($store:ident: &Store) $body:block) => {
        set_contract! { @tests $name, crate::store::contract::check_store, (super::$name) }
        $(#[$meta])*
        async fn $name($store: &Store) $body
    };
    ($(#[$meta:meta])* async fn $name:ident($backend:ident: &dyn Backend) $body:block) => {
        set_contract! { @tests $name, super::$name, () }
        $(#[$meta])*
        async fn $name($backend: &dyn Backend) $body
    };
    (@tests $name:ident, $run:path, ($($check:path)?)) => {
        mod $name {
            contract! { @sqlite_and_postgres $run, ($($check)?) }
            contract! { @postgres postgres_row_by_row, Off, $run, ($($check)?) }
            contract! { @postgres postgres_failing_sets, Failing, $run, ($($check)?) }
        }
    };
}

mod app_devices;
mod apps;
mod audiences;
mod availability;
mod breakers;
pub(in crate::store) mod campaigns;
mod canaries;
pub(super) mod deliveries;
mod delivery;
mod devices;
mod engagement;
mod erasures;
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
mod pausing;
mod polls;
mod reopen;
mod retries;
mod servers;
mod statistics;
mod tags;
mod tokens;
pub(in crate::store) mod unregistered;
mod users;
mod web;
mod webhooks;
mod workload;
mod zone_offsets;

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
