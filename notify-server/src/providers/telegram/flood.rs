//! Whether a 429 is about one chat or about the whole bot: Telegram does not say.

use std::collections::VecDeque;
use std::sync::Mutex;

use notify_core::Timestamp;

/// Within that time, in milliseconds, …
const WITHIN_MS: i64 = 1_000;
/// … so many chats are the whole bot.
const CHATS: usize = 3;
/// Most answers remembered; the oldest go first.
const REMEMBERED_MAX: usize = 64;

/// The chats that were asked to slow down lately.
#[derive(Debug, Default)]
pub(in crate::providers) struct Flood(Mutex<VecDeque<(Timestamp, Box<str>)>>);

impl Flood {
    /// Takes note of a 429 for a chat; tells whether it is about the whole bot.
    pub(super) fn is_the_bot_s(&self, chat: &str, now: Timestamp) -> bool {
        let mut recent = self.0.lock().expect("nothing panics under this lock");
        recent.retain(|(at, of)| now.ms_since(*at) < WITHIN_MS && **of != *chat);
        if recent.len() == REMEMBERED_MAX {
            recent.pop_front();
        }
        recent.push_back((now, chat.into()));
        recent.len() >= CHATS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_chats_within_a_second_are_the_bot() {
        let flood = Flood::default();
        let rows = [
            ("1", 0, false),
            ("2", 100, false),
            ("2", 200, false),
            ("1", 900, false),
            ("3", 1_100, true),
            ("4", 1_150, true),
            ("5", 2_150, false),
            ("5", 2_200, false),
        ];
        for (chat, at, expected) in rows {
            assert_eq!(flood.is_the_bot_s(chat, Timestamp(at)), expected, "{chat} at {at}");
        }
    }
}
