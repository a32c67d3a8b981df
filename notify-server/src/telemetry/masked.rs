//! Push tokens and endpoints where a log has to tell them apart.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Characters of an address that are shown.
const SHOWN_CHARS: usize = 6;
/// Shortest address of which any are, in characters: of a chat id they would be most of it.
const SHOWN_OF_CHARS_MIN: usize = 32;

/// Drawn at each start, so that no list of addresses can be tried against a log.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// An address as a log may show it: its first six characters and a hash that is the same for the
/// same address until the server stops. Of a short one the hash alone.
pub(crate) fn masked(address: &str) -> impl fmt::Display + use<> {
    let is_long = address.chars().nth(SHOWN_OF_CHARS_MIN - 1).is_some();
    let shown = address.chars().take(if is_long { SHOWN_CHARS } else { 0 }).collect();
    Masked { shown, hash: KEY.hash_one(address) }
}

struct Masked {
    shown: String,
    hash: u64,
}

impl fmt::Display for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…#{:016x}", self.shown.escape_debug(), self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_its_beginning_and_a_hash() {
        let token = "fa11ed0e5ec7e7fa11ed0e5ec7e7fa11ed0e5ec7e7";
        let text = masked(token).to_string();
        assert!(text.starts_with("fa11ed…#") && text.len() == "fa11ed…#".len() + 16, "{text}");
        assert_eq!(text, masked(token).to_string());
        assert_ne!(text, masked(&token.replace("5e", "5f")).to_string());
        assert!(masked("123456789").to_string().starts_with("…#"), "most of a chat id would show");
    }
}
