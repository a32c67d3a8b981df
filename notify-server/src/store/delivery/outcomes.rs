//! Final results of deliveries, and their compact encoding in pages.
//!
//! A sent delivery takes one or two bytes. An entry identifies its device by the sequence of its
//! key and not by its position in the page: after a crash the page is read again, and may then
//! contain other devices.
//!
//! ```text
//! chunk  = words entry*            words = count (length bytes)*       all numbers are LEB128
//! entry  = distance << 3 | code    then, unless the code is `sent`: attempts word
//!                                  then, if the code is `sent with an id`: length bytes
//! word   = 0: no reason, n: the n-th word of the chunk
//! ```
//!
//! The words are in the order in which the entries use them. Each list of outcomes has exactly one
//! encoding: bytes that [`encode`] does not write are damaged, and [`decode`] refuses them.

use std::borrow::Cow;

use crate::store::key::SEQUENCE_MAX;
use crate::store::sql::error::internal;
use crate::store::{DeviceKey, StoreError};

/// The final result of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The provider accepted it.
    Sent,
    /// It failed. The outcome has a reason.
    Failed,
    /// The provider reported the address as unregistered.
    Unregistered,
    /// It expired: `ttl_seconds` had passed.
    Expired,
    /// Canceled by request, or the device was deleted.
    Canceled,
}

impl Outcome {
    /// Every outcome, by its code.
    pub const ALL: [Self; 5] =
        [Self::Sent, Self::Failed, Self::Unregistered, Self::Expired, Self::Canceled];

    /// The name in the API and the metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unregistered => "unregistered",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
        }
    }

    /// The code in tables. Codes never change.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Sent => 0,
            Self::Failed => 1,
            Self::Unregistered => 2,
            Self::Expired => 3,
            Self::Canceled => 4,
        }
    }

    /// The outcome of a code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }
}

/// The final result of the delivery to one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// The device.
    pub key: DeviceKey,
    /// The outcome.
    pub settled: Outcome,
    /// The reason, unless it was sent.
    pub reason: Option<Cow<'static, str>>,
    /// The number of attempts.
    pub attempts: u16,
    /// The provider's id of a sent message, if ids are kept.
    pub message_id: Option<Box<str>>,
}

// The encoding.

/// The number of bits of a code in an entry.
const CODE_BITS: u32 = 3;
/// The code of a sent delivery that has a reason or took several attempts. Both follow the code.
const SENT_WITH_DETAILS: u64 = 7;
/// The code of a sent delivery with the message id of the provider.
const SENT_WITH_ID: u64 = 6;

/// Encodes the outcomes of a page as a chunk. `from` is the key before the first device of the
/// page.
///
/// # Errors
/// When a device is outside of the page or has two outcomes, which is a bug.
pub(in crate::store) fn encode(
    from: DeviceKey,
    outcomes: &[DeviceOutcome],
) -> Result<Vec<u8>, StoreError> {
    let mut sorted: Vec<&DeviceOutcome> = outcomes.iter().collect();
    sorted.sort_unstable_by_key(|outcome| outcome.key);
    let mut reasons: Vec<&str> = Vec::new();
    let mut entries = Vec::with_capacity(sorted.len() * 2);
    let mut before = from.sequence();
    for outcome in sorted {
        let distance = outcome.key.sequence() - before;
        let is_same_platform =
            (outcome.key.app(), outcome.key.platform()) == (from.app(), from.platform());
        if distance <= 0 || !is_same_platform {
            return Err(internal("an outcome of a device outside its page, or a second one"));
        }
        let distance = distance.unsigned_abs();
        before = outcome.key.sequence();
        let id = outcome.message_id.as_deref().filter(|_| outcome.settled == Outcome::Sent);
        let is_plain = outcome.settled == Outcome::Sent
            && outcome.attempts == 1
            && outcome.reason.is_none()
            && id.is_none();
        let code = match outcome.settled {
            Outcome::Sent if id.is_some() => SENT_WITH_ID,
            Outcome::Sent if !is_plain => SENT_WITH_DETAILS,
            other => u64::from(other.code()),
        };
        write_number(&mut entries, distance << CODE_BITS | code);
        if !is_plain {
            write_number(&mut entries, u64::from(outcome.attempts));
            write_number(&mut entries, reason_index(&mut reasons, outcome.reason.as_deref()));
        }
        if let Some(id) = id {
            write_number(&mut entries, id.len() as u64);
            entries.extend_from_slice(id.as_bytes());
        }
    }
    let mut chunk = Vec::with_capacity(entries.len() + 1);
    write_number(&mut chunk, reasons.len() as u64);
    for word in reasons {
        write_number(&mut chunk, word.len() as u64);
        chunk.extend_from_slice(word.as_bytes());
    }
    chunk.append(&mut entries);
    Ok(chunk)
}

/// The index of a reason in the words of the chunk, from 1; 0 for no reason. Adds a new reason to
/// the words. A linear search is enough, since a chunk has few reasons.
fn reason_index<'a>(reasons: &mut Vec<&'a str>, reason: Option<&'a str>) -> u64 {
    let Some(reason) = reason else { return 0 };
    let index = reasons.iter().position(|word| *word == reason).unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    index as u64 + 1
}

/// Decodes a chunk into outcomes in the order of their keys. `from` is the key before the first
/// device of the page.
///
/// # Errors
/// When the chunk is damaged.
pub(in crate::store) fn decode(
    from: DeviceKey,
    chunk: &[u8],
) -> Result<Vec<DeviceOutcome>, StoreError> {
    decode_chunk(from, chunk).ok_or_else(|| internal("a chunk of outcomes cannot be read"))
}

fn decode_chunk(from: DeviceKey, mut chunk: &[u8]) -> Option<Vec<DeviceOutcome>> {
    let rest = &mut chunk;
    let mut reasons: Vec<&str> = Vec::new();
    for _ in 0..read_number(rest)? {
        let word = read_text(rest)?;
        if reasons.contains(&word) {
            return None;
        }
        reasons.push(word);
    }
    let mut outcomes = Vec::new();
    let mut sequence = from.sequence();
    let mut reasons_used = 0;
    while !rest.is_empty() {
        let entry = read_number(rest)?;
        let distance = i64::try_from(entry >> CODE_BITS).ok().filter(|distance| *distance > 0)?;
        sequence = sequence.checked_add(distance).filter(|sequence| *sequence <= SEQUENCE_MAX)?;
        let code = entry & ((1 << CODE_BITS) - 1);
        let key = DeviceKey::new(from.app(), from.platform(), sequence);
        if code == u64::from(Outcome::Sent.code()) {
            let settled = Outcome::Sent;
            let (reason, attempts, message_id) = (None, 1, None);
            outcomes.push(DeviceOutcome { key, settled, reason, attempts, message_id });
            continue;
        }
        let settled = match code {
            SENT_WITH_DETAILS | SENT_WITH_ID => Outcome::Sent,
            code => Outcome::from_code(u8::try_from(code).ok()?)?,
        };
        let attempts = u16::try_from(read_number(rest)?).ok()?;
        let word = usize::try_from(read_number(rest)?).ok()?;
        if word > reasons_used + 1 || code == SENT_WITH_DETAILS && (attempts, word) == (1, 0) {
            return None;
        }
        reasons_used = reasons_used.max(word);
        let reason = match word.checked_sub(1) {
            None => None,
            Some(index) => Some(Cow::Owned((*reasons.get(index)?).to_owned())),
        };
        let message_id = if code == SENT_WITH_ID { Some(read_text(rest)?.into()) } else { None };
        outcomes.push(DeviceOutcome { key, settled, reason, attempts, message_id });
    }
    (reasons_used == reasons.len()).then_some(outcomes)
}

fn read_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(read_number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

fn write_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// Reads a number. Returns `None` if it is longer than necessary or does not fit.
fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        number |= bits << shift;
        if byte & 0x80 == 0 {
            let is_shortest = shift == 0 || bits > 0;
            return (is_shortest && number >> shift == bits).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use notify_core::Platform;

    use super::*;
    use crate::store::AppNo;

    fn key(sequence: i64) -> DeviceKey {
        DeviceKey::new(AppNo(3), Platform::Ios, sequence)
    }

    fn outcome(sequence: i64, settled: Outcome, reason: Option<&'static str>) -> DeviceOutcome {
        DeviceOutcome {
            key: key(sequence),
            settled,
            reason: reason.map(Cow::Borrowed),
            attempts: 1,
            message_id: None,
        }
    }

    #[test]
    fn every_outcome_reads_back_as_it_was_written() {
        let mut written: Vec<DeviceOutcome> = (0..)
            .zip(Outcome::ALL)
            .flat_map(|(at, settled)| {
                let sequence = 1_000 * at + 41;
                [
                    outcome(sequence, settled, None),
                    outcome(sequence + 1, settled, Some("BadDeviceToken")),
                    DeviceOutcome {
                        attempts: 9,
                        ..outcome(sequence + 700, settled, Some("other"))
                    },
                ]
            })
            .collect();
        let with_id = |sequence, id: &str, attempts| DeviceOutcome {
            message_id: Some(id.into()),
            attempts,
            ..outcome(sequence, Outcome::Sent, None)
        };
        written.extend([with_id(9_000, "projects/p/messages/0:1", 1), with_id(9_001, "é", 300)]);
        let chunk = encode(key(40), &written.iter().rev().cloned().collect::<Vec<_>>()).unwrap();
        written.sort_by_key(|outcome| outcome.key);
        assert_eq!(decode(key(40), &chunk).unwrap(), written);
    }

    #[test]
    fn a_sent_delivery_takes_at_most_three_bytes() {
        let sent: Vec<_> = (1..=200).map(|at| outcome(at * 50, Outcome::Sent, None)).collect();
        let chunk = encode(key(0), &sent).unwrap();
        assert!(chunk.len() <= 3 * sent.len(), "{} bytes for {}", chunk.len(), sent.len());
    }

    #[test]
    fn outcomes_outside_the_page_and_second_ones_are_refused() {
        for wrong in [
            vec![outcome(10, Outcome::Sent, None)],
            vec![outcome(11, Outcome::Sent, None), outcome(11, Outcome::Failed, None)],
            vec![DeviceOutcome {
                key: DeviceKey::new(AppNo(3), Platform::Android, 11),
                ..outcome(11, Outcome::Sent, None)
            }],
        ] {
            assert!(encode(key(10), &wrong).is_err());
        }
    }

    #[test]
    fn a_damaged_chunk_is_an_error_not_a_panic() {
        let chunk =
            encode(key(0), &[outcome(1, Outcome::Failed, Some("InternalServerError"))]).unwrap();
        for end in 0..chunk.len() {
            assert!(decode(key(0), &chunk[..end]).is_err(), "cut at {end}");
        }
        assert!(decode(key(0), &[0xff; 12]).is_err());
    }

    #[test]
    fn only_bytes_that_are_written_are_read() {
        // No words; sent, at distance 1: `0, 1 << 3`. Failed, after 2 attempts: `0, 1 << 3 | 1, 2, 0`.
        let rows: &[(&[u8], bool, &str)] = &[
            (&[0], true, "no outcome"),
            (&[0, 8], true, "sent"),
            (&[0, 9, 2, 0], true, "failed"),
            (&[0, 15, 2, 0], true, "sent after two attempts"),
            (&[1, 1, b'a', 9, 1, 1], true, "failed with a reason"),
            (&[1, 1, b'a', 9, 1, 1, 9, 1, 1], true, "two with the same reason"),
            (&[2, 1, b'a', 1, b'b', 9, 1, 1, 9, 1, 2], true, "two reasons"),
            (&[0, 0x88, 0], false, "a number that is longer than necessary"),
            (&[0x80, 0, 8], false, "a count that is longer than necessary"),
            (&[0, 0], false, "distance 0"),
            (&[0, 8, 0], false, "the same device twice"),
            (&[0, 15, 1, 0], false, "details of a sent delivery that has none"),
            (&[0, 13, 1, 0], false, "an unknown code"),
            (&[0, 9, 1, 1], false, "a reason without a word"),
            (&[1, 1, b'a', 8], false, "a word without a use"),
            (&[2, 1, b'a', 1, b'a', 9, 1, 1, 9, 1, 2], false, "a word twice"),
            (&[2, 1, b'a', 1, b'b', 9, 1, 2, 9, 1, 1], false, "words in another order"),
            (&[1, 1, 0xff, 9, 1, 1], false, "a word that is not UTF-8"),
            (&[0, 9, 0x80, 0x80, 4, 0], false, "65,536 attempts"),
        ];
        for (chunk, is_valid, what) in rows {
            let decoded = decode(key(40), chunk);
            assert_eq!(decoded.is_ok(), *is_valid, "{what}");
            if let Ok(outcomes) = decoded {
                assert_eq!(encode(key(40), &outcomes).unwrap(), *chunk, "{what}");
            }
        }
    }

    #[test]
    fn a_chunk_names_no_device_beyond_the_last_sequence() {
        for (distance, is_valid) in [(9, true), (10, true), (11, false), (1 << 60, false)] {
            let mut chunk = vec![0];
            write_number(&mut chunk, distance << CODE_BITS);
            let decoded = decode(key(SEQUENCE_MAX - 10), &chunk);
            assert_eq!(decoded.is_ok(), is_valid, "{distance}");
        }
        // The tenth byte of a number has only one bit.
        let too_large = [&[0][..], &[0x88], &[0x80; 8], &[2]].concat();
        assert!(decode(key(0), &too_large).is_err());
    }
}
