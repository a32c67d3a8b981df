//! What SQLite alone promises.
