//! Providers that fail, hang, refuse, lie and come back, and what the whole server then does. Ids
//! such as `T4` are rows of `docs/reliability.md`. Where hours pass, the clock of the server and
//! of the sandbox is a manual one; a test waits only for what the clock cannot bring about.

mod addresses;
mod answer_effects;
mod answers;
mod connections;
mod credentials;
mod hanging;
mod limits;
mod manual_clock;
mod storms;
