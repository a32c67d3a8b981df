//! Providers that fail, hang, refuse, lie and come back, and what the whole server then does. Ids
//! such as `T4` are rows of `docs/reliability.md`. Where hours pass, the clock of the server and
//! of the sandbox is turned; nothing is waited for that can be turned.

mod addresses;
mod answers;
mod connections;
mod credentials;
mod fates;
mod hanging;
mod limits;
mod storms;
mod turned;
