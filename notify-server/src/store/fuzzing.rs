//! Properties of what the store encodes: outcomes of deliveries, and cursors of lists.

use std::borrow::Cow;

use notify_core::Platform;

use crate::store::delivery::{decode_outcomes, encode_outcomes};
use crate::store::key::{APPS_MAX, SEQUENCE_MAX};
use crate::store::page::CursorCodec;
use crate::store::{AppNo, DeviceKey, DeviceOutcome, Outcome, PageRequest};

/// Decodes a chunk of outcomes, and encodes a list of outcomes that is made of the same bytes. The first
/// two bytes select the page.
///
/// # Panics
/// If a chunk that can be decoded is not the one that encodes its outcomes, or if outcomes that are
/// encoded are decoded differently.
pub fn outcomes(data: &[u8]) {
    let [page, platform, bytes @ ..] = data else { return };
    let from = page_start(*page, *platform);
    if let Ok(outcomes) = decode_outcomes(from, bytes) {
        let mut before = from;
        for outcome in &outcomes {
            assert!(outcome.key > before, "{outcome:?} follows {before:?}");
            let parts = (outcome.key.app(), outcome.key.platform());
            assert_eq!(parts, (from.app(), from.platform()), "another page");
            before = outcome.key;
        }
        assert!(outcomes.len() <= bytes.len());
        let encoded = encode_outcomes(from, &outcomes).expect("decoded outcomes can be encoded");
        assert_eq!(encoded, bytes, "{outcomes:?}");
    }
    let mut outcomes = outcomes_of(from, bytes);
    let Ok(chunk) = encode_outcomes(from, &outcomes) else {
        panic!("these outcomes have ascending keys: {outcomes:?}")
    };
    outcomes.iter_mut().filter(|outcome| outcome.settled != Outcome::Sent).for_each(|outcome| {
        outcome.message_id = None;
    });
    let decoded = decode_outcomes(from, &chunk);
    assert_eq!(decoded.expect("an encoded chunk can be decoded"), outcomes, "{chunk:?}");
}

/// The key before the first device of a page: sometimes at the end of its platform.
fn page_start(page: u8, platform: u8) -> DeviceKey {
    let platform = Platform::ALL[usize::from(platform) % Platform::ALL.len()];
    let (app, sequence) = match page {
        b'z' => (APPS_MAX, SEQUENCE_MAX - 300),
        page => (i64::from(page), i64::from(page) << 20),
    };
    DeviceKey::new(AppNo(app), platform, sequence)
}

/// Outcomes that are made of four bytes each.
fn outcomes_of(from: DeviceKey, bytes: &[u8]) -> Vec<DeviceOutcome> {
    let mut sequence = from.sequence();
    let mut outcomes = Vec::new();
    for quad in bytes.chunks_exact(4) {
        let [distance, kind, attempts, text] = *quad else { break };
        sequence += i64::from(distance) + 1;
        if sequence > SEQUENCE_MAX {
            break;
        }
        let text = |limit: u8| (text < limit).then(|| "reason ".repeat(usize::from(text % 8)));
        outcomes.push(DeviceOutcome {
            key: DeviceKey::new(from.app(), from.platform(), sequence),
            settled: Outcome::ALL[usize::from(kind) % Outcome::ALL.len()],
            reason: text(192).map(Cow::Owned),
            attempts: u16::from(attempts) << (kind >> 5),
            message_id: if kind & 0x10 == 0 { None } else { text(128).map(String::into_boxed_str) },
        });
    }
    outcomes
}

/// Decodes a cursor that a caller sends, and makes cursors of the same text as a position.
///
/// # Panics
/// If a cursor is accepted that the list would not make, or that belongs to another list or another
/// application, or if a cursor leads to another position than the one it was made of.
pub(crate) fn check_cursor(text: &str) {
    let tags = CursorCodec { list: "tags", owner: 7 };
    let devices = CursorCodec { list: "devices", owner: 7 };
    let page = |cursor: &str| PageRequest { limit: 1, cursor: Some(cursor.to_owned()) };

    if let Ok(Some(position)) = tags.decode_text(&page(text)) {
        assert_eq!(cursor_of(tags, &position), text, "not the cursor of {position:?}");
    }
    if let Ok(Some(position)) = devices.decode_number(&page(text)) {
        assert_eq!(devices.encode_number(position), text, "not the cursor of {position}");
    }

    let cursor = cursor_of(tags, text);
    let decoded = tags.decode_text(&page(&cursor));
    if text.contains('\0') {
        assert!(decoded.is_err(), "a text that PostgreSQL does not have");
    } else {
        assert_eq!(decoded.expect("a cursor of this list"), Some(text.to_owned()));
    }
    let number = i64::from_le_bytes(std::array::from_fn(|at| {
        text.as_bytes().get(at).copied().unwrap_or_default()
    }));
    let numbered = devices.encode_number(number);
    let decoded = devices.decode_number(&page(&numbered));
    assert_eq!(decoded.expect("a cursor of this list"), Some(number));

    for (list, owner) in [("tags", 8), ("segments", 7)] {
        let other = CursorCodec { list, owner };
        assert!(other.decode_text(&page(&cursor)).is_err(), "accepted by {other:?}");
        assert!(other.decode_number(&page(&numbered)).is_err(), "accepted by {other:?}");
    }
    let mut changed = cursor.into_bytes();
    let at = text.len() % changed.len();
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).expect("a cursor is ASCII");
    assert!(tags.decode_text(&page(&changed)).is_err(), "a changed cursor: {changed}");
}

/// The cursor after this position in a list that is sorted by a text.
fn cursor_of(codec: CursorCodec, position: &str) -> String {
    let rows = vec![(position.to_owned(), ()), (String::new(), ())];
    let page = codec.page_by_text(rows, &PageRequest { limit: 1, cursor: None });
    page.next.expect("a second row follows")
}
