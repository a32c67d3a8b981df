//! Notify.
