//! From the bytes of a feed to its text.
//!
//! The mark of byte order decides, and what the first bytes show of UTF-16 and UTF-32. Then come the
//! charset of the answer's header and that of the XML declaration, in this order (RFC 7303 section 3),
//! each as far as the bytes do not contradict it: servers add a charset to files that they do not know.
//! Where no name fits, the text is guessed.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use super::ParseError;
use super::labels::{Label, label};

/// Bytes at the start in which an XML declaration is looked for.
const DECLARATION_BYTES: usize = 1_024;
/// Bytes that a guess looks at; what it costs grows with them.
const GUESS_BYTES: usize = 256 * 1_024;
/// Characters beyond ASCII that make a text UTF-8 against a name that fits its bytes too.
const UTF_8_CHARACTERS_MIN: usize = 8;

/// The text of a feed.
#[derive(Debug)]
pub(super) struct Decoded<'b> {
    pub(super) text: Cow<'b, str>,
    /// No name fitted the bytes: the charset is a guess, or some of them stand for no character.
    pub(super) is_guess: bool,
}

/// The width and the order of the units of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Units {
    Utf16(Order),
    Utf32(Order),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Big,
    Little,
}

/// The text. Bytes in a charset that is known and not supported are refused, as a guess at those of
/// seven bits would show people nonsense.
pub(super) fn decode<'b>(
    bytes: &'b [u8],
    of_header: Option<&str>,
) -> Result<Decoded<'b>, ParseError> {
    if let Some((units, mark)) = units(bytes) {
        return Ok(wide(&bytes[mark..], units));
    }
    let is_marked = bytes.starts_with(b"\xef\xbb\xbf");
    let bytes = if is_marked { &bytes[3..] } else { bytes };
    let header = if is_marked { Label::Unknown } else { of_header.map_or(Label::Unknown, label) };
    let declared = if is_marked { Label::Unknown } else { declared(bytes) };
    // What is readable as bytes of one each is not in UTF-16, whatever it says.
    let header = header.of_bytes();
    let declared = declared.of_bytes();
    if header == Label::Unsupported || declared == Label::Unsupported {
        return Err(ParseError::Charset);
    }
    let utf_8 = std::str::from_utf8(bytes).ok();
    for encoding in
        in_order(header.encoding(), declared.encoding(), bytes, utf_8).into_iter().flatten()
    {
        let text = match utf_8 {
            Some(text) if encoding == UTF_8 => Some(Cow::Borrowed(text)),
            _ => encoding.decode_without_bom_handling_and_without_replacement(bytes),
        };
        if let Some(text) = text {
            return Ok(Decoded { text, is_guess: false });
        }
    }
    Ok(guess(bytes))
}

/// The encodings to try, the likeliest first.
fn in_order(
    header: Option<&'static Encoding>,
    declared: Option<&'static Encoding>,
    bytes: &[u8],
    utf_8: Option<&str>,
) -> [Option<&'static Encoding>; 3] {
    // All its bytes are ASCII, so that every name fits; no feed of another charset has escapes.
    if declared == Some(ISO_2022_JP) && bytes.contains(&0x1b) {
        return [declared, header, None];
    }
    // Text of another charset is next to never UTF-8 beyond ASCII. A few characters of two bytes each
    // may be, by accident.
    let is_ambiguous = |named: &'static Encoding| !named.is_single_byte() && named != UTF_8;
    let needed = match [header, declared].into_iter().flatten().any(is_ambiguous) {
        true => UTF_8_CHARACTERS_MIN,
        false => 1,
    };
    let beyond_ascii = |text: &str| text.chars().filter(|one| !one.is_ascii()).take(needed).count();
    if utf_8.is_some_and(|text| beyond_ascii(text) == needed) {
        return [Some(UTF_8), header, declared];
    }
    [header, declared, Some(UTF_8)]
}

/// The text in the charset that the bytes look like. Feeds in UTF-8 with a cut character in them stay
/// in UTF-8.
fn guess(bytes: &[u8]) -> Decoded<'_> {
    let start = &bytes[..bytes.len().min(GUESS_BYTES)];
    let (characters, broken) = utf_8_characters(start);
    let encoding = if characters > broken {
        UTF_8
    } else {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(start, true);
        detector.guess(None, Utf8Detection::Deny)
    };
    let (text, _) = encoding.decode_without_bom_handling(bytes);
    Decoded { text, is_guess: true }
}

/// How many characters beyond ASCII a text has as UTF-8, and how often it breaks off.
fn utf_8_characters(bytes: &[u8]) -> (usize, usize) {
    let (mut characters, mut broken) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        characters += chunk.valid().chars().filter(|one| !one.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    (characters, broken)
}

/// Units of two or four bytes and the length of their mark: by the mark, or by the first character,
/// which is ASCII in every feed.
fn units(bytes: &[u8]) -> Option<(Units, usize)> {
    let four = bytes.get(..4);
    match four {
        Some([0xff, 0xfe, 0, 0]) => return Some((Units::Utf32(Order::Little), 4)),
        Some([0, 0, 0xfe, 0xff]) => return Some((Units::Utf32(Order::Big), 4)),
        _ => {}
    }
    match bytes {
        [0xff, 0xfe, ..] => return Some((Units::Utf16(Order::Little), 2)),
        [0xfe, 0xff, ..] => return Some((Units::Utf16(Order::Big), 2)),
        _ => {}
    }
    let is_start = |byte: &u8| matches!(byte, b'<' | b'{' | b' ' | b'\t' | b'\r' | b'\n');
    match four? {
        [first, 0, 0, 0] if is_start(first) => Some((Units::Utf32(Order::Little), 0)),
        [0, 0, 0, first] if is_start(first) => Some((Units::Utf32(Order::Big), 0)),
        [first, 0, _, _] if is_start(first) => Some((Units::Utf16(Order::Little), 0)),
        [0, first, 0, _] if is_start(first) => Some((Units::Utf16(Order::Big), 0)),
        _ => None,
    }
}

fn wide(bytes: &[u8], units: Units) -> Decoded<'_> {
    let (text, is_guess) = match units {
        Units::Utf16(Order::Big) => UTF_16BE.decode_without_bom_handling(bytes),
        Units::Utf16(Order::Little) => UTF_16LE.decode_without_bom_handling(bytes),
        Units::Utf32(order) => utf_32(bytes, order),
    };
    Decoded { text, is_guess }
}

/// UTF-32, which browsers do not read, so that neither does their library.
fn utf_32(bytes: &[u8], order: Order) -> (Cow<'_, str>, bool) {
    let mut is_broken = !bytes.len().is_multiple_of(4);
    let mut text = String::with_capacity(bytes.len() / 4);
    for unit in bytes.chunks_exact(4) {
        let unit = [unit[0], unit[1], unit[2], unit[3]];
        let character = char::from_u32(match order {
            Order::Big => u32::from_be_bytes(unit),
            Order::Little => u32::from_le_bytes(unit),
        });
        is_broken |= character.is_none();
        text.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    (Cow::Owned(text), is_broken)
}

/// The charset of the XML declaration. Comments and empty lines may stand before it, where XML has
/// none.
fn declared(bytes: &[u8]) -> Label {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]);
    let Some((_, rest)) = start.split_once("<?xml") else { return Label::Unknown };
    let declaration = rest.split("?>").next().unwrap_or_default();
    let Some((_, value)) = declaration.split_once("encoding") else { return Label::Unknown };
    let value = value.trim_start().strip_prefix('=').unwrap_or_default().trim_start();
    let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Label::Unknown;
    };
    value[1..].split(quote).next().map_or(Label::Unknown, label)
}

impl Label {
    /// What a text that is readable as bytes of one each is in.
    fn of_bytes(self) -> Self {
        match self {
            Self::Known(encoding) if encoding == REPLACEMENT => Self::Unsupported,
            Self::Known(encoding) => Self::Known(encoding.output_encoding()),
            other => other,
        }
    }

    fn encoding(self) -> Option<&'static Encoding> {
        match self {
            Self::Known(encoding) => Some(encoding),
            Self::Unknown | Self::Unsupported => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text with a declaration of that charset.
    fn declaring(encoding: &str, rest: &[u8]) -> Vec<u8> {
        let declaration = format!("<?xml version='1.0' encoding = \"{encoding}\"?>");
        [declaration.as_bytes(), rest].concat()
    }

    fn without_declaration(text: &str) -> &str {
        text.split_once("?>").map_or(text, |(_, rest)| rest)
    }

    #[test]
    fn the_charset_is_the_first_name_that_the_bytes_do_not_contradict() {
        let russian: &[u8] = b"\xcf\xf0\xe8\xe2\xe5\xf2";
        let cases: [(Vec<u8>, Option<&str>, &str); 21] = [
            (b"<caf\xc3\xa9".into(), None, "<café"),
            (b"<caf\xe9".into(), Some("iso-8859-1"), "<café"),
            (b"\xef\xbb\xbf<caf\xc3\xa9".into(), Some("iso-8859-1"), "<café"),
            (b"\xff\xfe<\x00\xe9\x00".into(), None, "<é"),
            (b"<\x00\xe9\x00".into(), None, "<é"),
            (b"\x00<\x00\xe9".into(), Some("utf-8"), "<é"),
            (b"\xff\xfe\0\0<\0\0\0\xe9\0\0\0".into(), None, "<é"),
            (b"\0\0\0<\0\0\0\xe9".into(), Some("utf-32be"), "<é"),
            (declaring("ISO-8859-1", b"\xe9"), None, "é"),
            // The header comes first, unless the bytes contradict it.
            (declaring("koi8-r", russian), Some("windows-1251"), "Привет"),
            (declaring("windows-1251", russian), Some("utf-8"), "Привет"),
            (declaring("windows-1251", russian), Some("no-such-charset"), "Привет"),
            (declaring("utf-8", "é".as_bytes()), Some("iso-8859-1"), "é"),
            (declaring("windows-1252", "é".as_bytes()), None, "é"),
            (declaring("iso-2022-jp", b"\x1b$B$\"\x1b(B"), Some("utf-8"), "あ"),
            (declaring("cp949", b"\xb0\xa1"), None, "가"),
            // Two bytes that are UTF-8 as well.
            (declaring("gbk", b"\xc4\xa3"), Some("gbk"), "模"),
            // Not in units of two bytes, whatever it says.
            (declaring("utf-16", b"a"), None, "a"),
            (b"<cafe".into(), Some("no-such-charset"), "<cafe"),
            (b"\n<!-- x --><?xml encoding='koi8-r'?>\xf0".into(), None, "П"),
            (b"".into(), None, ""),
        ];
        for (bytes, header, expected) in cases {
            let decoded = decode(&bytes, header).unwrap();
            assert_eq!(without_declaration(&decoded.text), expected, "{bytes:?} {header:?}");
            assert!(!decoded.is_guess, "{bytes:?} {header:?}");
        }
    }

    #[test]
    fn what_no_name_fits_is_a_guess() {
        let cases: [(Vec<u8>, Option<&str>, &str); 3] = [
            (
                b"<p>Un caf\xe9 cr\xe8me, s'il vous pla\xeet".into(),
                Some("utf-8"),
                "<p>Un café crème, s'il vous plaît",
            ),
            // One character of many was cut.
            (b"<p>d\xc3\xa9j\xc3\xa0 vu\xc3".into(), None, "<p>déjà vu\u{fffd}"),
            (b"\xff\xfe<\x00\x00\xd8<\x00".into(), None, "<\u{fffd}<"),
        ];
        for (bytes, header, expected) in cases {
            let decoded = decode(&bytes, header).unwrap();
            assert_eq!((&*decoded.text, decoded.is_guess), (expected, true), "{bytes:?}");
        }
    }

    #[test]
    fn charsets_that_are_known_and_not_supported_are_refused() {
        for name in ["utf-7", "hz-gb-2312", "iso-2022-kr"] {
            assert_eq!(
                decode(&declaring(name, b"a"), None).err(),
                Some(ParseError::Charset),
                "{name}"
            );
            assert_eq!(decode(b"<a", Some(name)).err(), Some(ParseError::Charset), "{name}");
        }
    }
}
