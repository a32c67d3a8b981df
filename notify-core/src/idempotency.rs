//! The `Idempotency-Key` header.

use crate::Violations;

/// Longest `Idempotency-Key`, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// A caller's name for one request, by which its repeats are known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Takes the bytes of the header.
    ///
    /// # Errors
    /// When they are not 1 to 255 visible ASCII characters.
    pub fn new(header: &[u8]) -> Result<Self, Violations> {
        let is_visible = header.iter().all(u8::is_ascii_graphic);
        if header.is_empty() || header.len() > IDEMPOTENCY_KEY_CHARS_MAX || !is_visible {
            let what = "must be 1 to 255 visible ASCII characters";
            return Err(Violations::one("Idempotency-Key", what));
        }
        Ok(Self(header.iter().copied().map(char::from).collect()))
    }

    /// The key as the caller wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
