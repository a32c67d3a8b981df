//! Clients without a key can use only a limited part of a server's memory and descriptors, and hardly delay
//! its stop.

mod descriptors;
mod http2;
mod memory;
mod stopping;
