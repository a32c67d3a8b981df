//! Strict JSON (B1): what the standard leaves open is refused, and what is refused has a path.

mod object;

pub use object::JsonObject;
