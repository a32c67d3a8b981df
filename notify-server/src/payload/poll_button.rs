//! What the button of a poll's answer carries on Messenger and in the chat app, and what a press
//! of it brings back (B32): `poll:<poll id>:<place of the answer>`. The place instead of the
//! answer's id, since the two ids together are longer than a Telegram button takes.

use notify_core::{NotificationId, POLL_ANSWERS_MAX};

/// Most bytes of what a Telegram button carries (Bot API, `callback_data`); Messenger takes 1,000.
const BUTTON_BYTES_MAX: usize = 64;
/// How ours begin.
const PREFIX: &str = "poll:";

/// What the button of an answer carries; `place` is its place in the poll, from 0. `None` for an
/// id that is too long: a caller's own, of a report, which is never sent from here (B18).
#[cfg_attr(not(test), expect(dead_code, reason = "the buttons come with their providers"))]
pub(crate) fn encode(poll: &NotificationId, place: usize) -> Option<String> {
    let text = format!("{PREFIX}{poll}:{place}");
    (text.len() <= BUTTON_BYTES_MAX && place < POLL_ANSWERS_MAX).then_some(text)
}

/// The poll and the place of the answer that a pressed button stands for; `None` for what
/// [`encode`] never wrote.
pub(crate) fn decode(text: &str) -> Option<(NotificationId, usize)> {
    if text.len() > BUTTON_BYTES_MAX {
        return None;
    }
    let (poll, digits) = text.strip_prefix(PREFIX)?.rsplit_once(':')?;
    let place: usize = digits.parse().ok()?;
    // One way to write a number: `+1` and `01` read as numbers too.
    let is_ours = place < POLL_ANSWERS_MAX && place.to_string() == digits;
    is_ours.then_some(())?;
    Some((NotificationId::new(poll).ok()?, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: &str = "01a1fcca-b631-719b-823d-823843478e58";

    fn id(text: &str) -> NotificationId {
        NotificationId::new(text).unwrap()
    }

    #[test]
    fn what_a_button_carries_is_read_back_and_fits_a_telegram_button() {
        for place in 0..POLL_ANSWERS_MAX {
            let text = encode(&id(POLL), place).unwrap();
            assert_eq!(text, format!("poll:{POLL}:{place}"));
            assert!(text.len() <= BUTTON_BYTES_MAX);
            assert_eq!(decode(&text), Some((id(POLL), place)));
        }
        assert_eq!(decode("poll:own:1:7"), Some((id("own:1"), 7)), "a caller's id may hold colons");
    }

    #[test]
    fn what_does_not_fit_gets_no_button() {
        assert_eq!(encode(&id(POLL), POLL_ANSWERS_MAX), None);
        assert_eq!(encode(&id(&"a".repeat(57)), 1), Some(format!("poll:{}:1", "a".repeat(57))));
        assert_eq!(encode(&id(&"a".repeat(58)), 1), None);
    }

    #[test]
    fn what_no_button_of_ours_carries_is_nothing() {
        for text in [
            "",
            "poll:",
            "poll::1",
            "poll:a",
            "poll:a:",
            "poll:a:x",
            "poll:a:-1",
            "poll:a:+1",
            "poll:a:01",
            "poll:a:100",
            "poll:a:99999999999999999999999",
            "poll:.:1",
            "poll:a\u{7}b:1",
            "Poll:a:1",
            "GET_STARTED",
            &format!("poll:{}:1", "a".repeat(58)),
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
