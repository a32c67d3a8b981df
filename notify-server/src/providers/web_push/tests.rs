//! Web Push.
