//! What clients without a key can take of a server: a bounded part of its memory and descriptors,
//! and of the time that its stop takes.

mod descriptors;
mod http2;
mod memory;
mod stopping;
