//! Providers that fail, hang, reject, send wrong responses and recover, and the reaction of the whole server.
//! Ids such as `T4` are rows of `docs/reliability.md`. Where a test needs hours, the server and the sandbox
//! use a manual clock.

mod addresses;
mod answer_effects;
mod answers;
mod connections;
mod credentials;
mod hanging;
mod limits;
mod manual_clock;
mod outages;
