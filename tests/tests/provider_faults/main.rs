//! Providers that fail, hang, reject, lie and recover, and how the whole server reacts. Ids such as
//! `T4` are rows of `docs/reliability.md`. Where hours pass, the clock of the server and of the
//! sandbox is a manual one.

mod addresses;
mod answer_effects;
mod answers;
mod connections;
mod credentials;
mod hanging;
mod limits;
mod manual_clock;
mod outages;
