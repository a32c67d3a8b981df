//! What strangers can take of a server without a key: a bounded part of its memory, of its
//! descriptors, and of the time that its stop takes.

mod descriptors;
mod http2;
mod memory;
mod stopping;
