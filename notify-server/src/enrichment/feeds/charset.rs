//! Decodes the bytes of a feed to text.
//!
//! A byte order mark decides, or the pattern of the first bytes if they are UTF-16 or UTF-32.
//! Otherwise the charset of the response's header is tried first, then that of the XML declaration
//! (RFC 7303 section 3). A charset is skipped if the bytes are not valid in it, because servers
//! also add a charset to files that they have not read. If no declared charset fits, the charset is
//! guessed.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use crate::enrichment::feeds::ParseError;

/// Bytes at the start that are searched for an XML declaration.
const DECLARATION_BYTES: usize = 1_024;
/// Number of bytes at the start of a feed that the guess of its charset reads. More bytes make a better
/// guess and cost more time.
const GUESS_BYTES: usize = 256 * 1_024;
/// A text that is valid in UTF-8 and in a declared multi-byte charset is read as UTF-8 if it has at
/// least this many characters beyond ASCII.
const UTF_8_CHARACTERS_MIN: usize = 8;

/// The text of a feed.
#[derive(Debug)]
pub(super) struct Decoded<'b> {
    pub(super) text: Cow<'b, str>,
    /// Whether no declared charset fits the bytes, so that the charset is a guess, or some bytes
    /// are invalid.
    pub(super) is_guess: bool,
}

/// The size and the byte order of the units of a text.
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

/// Decodes the bytes of a feed. `header_charset` is the charset of the response's header.
///
/// # Errors
/// `Charset` when the declared charset is a known but unsupported 7-bit charset. Its bytes look
/// like ASCII, so that a guess would show nonsense.
pub(super) fn decode<'b>(
    bytes: &'b [u8],
    header_charset: Option<&str>,
) -> Result<Decoded<'b>, ParseError> {
    if let Some((units, mark_bytes)) = detect_units(bytes) {
        return Ok(decode_wide(&bytes[mark_bytes..], units));
    }
    let (bytes, header, declared) = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        // The byte order mark of UTF-8 decides, whatever the header and the document declare.
        Some(content) => (content, Charset::Unknown, Charset::Unknown),
        // The bytes did not look like UTF-16, so the document is not in UTF-16, whatever it
        // declares.
        None => {
            let header = header_charset.map_or(Charset::Unknown, charset_named);
            (bytes, header.for_bytes(), declared_charset(bytes).for_bytes())
        }
    };
    if header == Charset::Unsupported || declared == Charset::Unsupported {
        return Err(ParseError::Charset);
    }
    let utf_8 = std::str::from_utf8(bytes).ok();
    for encoding in
        encodings_to_try(header.encoding(), declared.encoding(), bytes, utf_8).into_iter().flatten()
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

/// The encodings to try, the most likely first.
fn encodings_to_try(
    header: Option<&'static Encoding>,
    declared: Option<&'static Encoding>,
    bytes: &[u8],
    utf_8: Option<&str>,
) -> [Option<&'static Encoding>; 3] {
    // The bytes of ISO-2022-JP are all ASCII, so they fit every charset. Only its escapes
    // distinguish it: no feed in another charset contains escapes.
    if declared == Some(ISO_2022_JP) && bytes.contains(&0x1b) {
        return [declared, header, None];
    }
    // Text beyond ASCII in another charset is almost never valid UTF-8. A few characters of a
    // multi-byte charset can be valid UTF-8 by accident, so more characters are needed there.
    let is_multi_byte =
        |encoding: &'static Encoding| !encoding.is_single_byte() && encoding != UTF_8;
    let needed = if [header, declared].into_iter().flatten().any(is_multi_byte) {
        UTF_8_CHARACTERS_MIN
    } else {
        1
    };
    let beyond_ascii = |text: &str| text.chars().filter(|c| !c.is_ascii()).take(needed).count();
    if utf_8.is_some_and(|text| beyond_ascii(text) == needed) {
        return [Some(UTF_8), header, declared];
    }
    [header, declared, Some(UTF_8)]
}

/// Decodes bytes in a guessed charset. A UTF-8 feed with a few broken characters is decoded as
/// UTF-8.
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

/// The number of valid UTF-8 characters beyond ASCII, and the number of invalid sequences.
fn utf_8_characters(bytes: &[u8]) -> (usize, usize) {
    let (mut characters, mut broken) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        characters += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    (characters, broken)
}

/// The units of a text in UTF-16 or UTF-32, with the length of its byte order mark; `None` for
/// other texts. Without a mark, the first character decides, which is ASCII in every feed.
fn detect_units(bytes: &[u8]) -> Option<(Units, usize)> {
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

/// Decodes UTF-16 or UTF-32.
fn decode_wide(bytes: &[u8], units: Units) -> Decoded<'_> {
    let (text, is_guess) = match units {
        Units::Utf16(Order::Big) => UTF_16BE.decode_without_bom_handling(bytes),
        Units::Utf16(Order::Little) => UTF_16LE.decode_without_bom_handling(bytes),
        Units::Utf32(order) => utf_32(bytes, order),
    };
    Decoded { text, is_guess }
}

/// Decodes UTF-32. `encoding_rs` implements the charsets of browsers, which do not support UTF-32.
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

/// The charset of the XML declaration. Comments and empty lines before the declaration are
/// tolerated, although XML does not allow them.
fn declared_charset(bytes: &[u8]) -> Charset {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]);
    let Some((_, rest)) = start.split_once("<?xml") else { return Charset::Unknown };
    let declaration = rest.split("?>").next().unwrap_or_default();
    let Some((_, value)) = declaration.split_once("encoding") else { return Charset::Unknown };
    let value = value.trim_start().strip_prefix('=').unwrap_or_default().trim_start();
    let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Charset::Unknown;
    };
    value[1..].split(quote).next().map_or(Charset::Unknown, charset_named)
}

impl Charset {
    /// The charset to use for bytes that are not in UTF-16: a declaration of UTF-16 means UTF-8.
    fn for_bytes(self) -> Self {
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

// The names of charsets: those that browsers know, and those that Java, Python, Windows and
// databases write.

/// Names that browsers do not know, reduced to letters and digits, with the names that browsers
/// know.
const ALIASES: [(&str, &str); 30] = [
    ("ansi", "windows-1252"),
    ("big5eten", "big5"),
    ("big5hkscs", "big5"),
    ("eucjp", "euc-jp"),
    ("eucjis2004", "euc-jp"),
    ("euccn", "gbk"),
    ("euckr", "euc-kr"),
    ("gb180302000", "gb18030"),
    ("gb180302005", "gb18030"),
    ("gb23121980", "gbk"),
    ("isolatin1", "windows-1252"),
    ("jis", "iso-2022-jp"),
    ("koi8ru", "koi8-u"),
    ("koreanwansung", "euc-kr"),
    ("ksc56011987", "euc-kr"),
    ("latin1", "iso-8859-1"),
    ("latin2", "iso-8859-2"),
    ("latin5", "iso-8859-9"),
    ("latin9", "iso-8859-15"),
    ("maccyrillic", "x-mac-cyrillic"),
    ("macroman", "macintosh"),
    ("shiftjis2004", "shift_jis"),
    ("shiftjisx0213", "shift_jis"),
    ("tis6202533", "windows-874"),
    ("uhc", "euc-kr"),
    ("ujis", "euc-jp"),
    ("utf8", "utf-8"),
    ("utf8mb3", "utf-8"),
    ("utf8mb4", "utf-8"),
    ("utf8sig", "utf-8"),
];
/// Numbers of code pages, which follow a prefix such as `cp`, `ms`, `win` or `windows`.
const CODE_PAGES: [(&str, &str); 9] = [
    ("866", "ibm866"),
    ("874", "windows-874"),
    ("932", "shift_jis"),
    ("936", "gbk"),
    ("949", "euc-kr"),
    ("950", "big5"),
    ("28591", "iso-8859-1"),
    ("54936", "gb18030"),
    ("65001", "utf-8"),
];

/// The meaning of a charset name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Known(&'static Encoding),
    /// No name, or a name that is not a charset.
    Unknown,
    /// A 7-bit charset that browsers do not support. Its bytes look like ASCII but mean other
    /// characters.
    Unsupported,
}

/// The meaning of a charset name.
pub(super) fn charset_named(name: &str) -> Charset {
    let name = name.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    let bare: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    if bare == "utf7" || bare == "unicode11utf7" {
        return Charset::Unsupported;
    }
    let dashed = name.replace(['_', ' '], "-");
    let encoding = browser_encoding(&name)
        .or_else(|| browser_encoding(&dashed))
        .or_else(|| look_up(&ALIASES, &bare))
        .or_else(|| code_page(&bare))
        .or_else(|| iso_8859(&bare));
    encoding.map_or(Charset::Unknown, Charset::Known)
}

/// The encoding of a name that browsers know.
fn browser_encoding(name: &str) -> Option<&'static Encoding> {
    Encoding::for_label(name.as_bytes())
}

/// The encoding of a name in a table of aliases.
fn look_up(table: &[(&str, &str)], name: &str) -> Option<&'static Encoding> {
    let (_, browser_name) = table.iter().find(|(alias, _)| *alias == name)?;
    browser_encoding(browser_name)
}

/// `cp1252`, `windows1251`, `ms949` and the like.
fn code_page(bare: &str) -> Option<&'static Encoding> {
    let prefixes = ["windows", "win", "cp", "ms", "xcp", "ibm"];
    let number = prefixes.iter().find_map(|prefix| bare.strip_prefix(prefix))?;
    look_up(&CODE_PAGES, number).or_else(|| browser_encoding(&format!("windows-{number}")))
}

/// `8859_5`, `iso8859_5`, `csisolatin…` and the like.
fn iso_8859(bare: &str) -> Option<&'static Encoding> {
    let part = bare.strip_prefix("iso").unwrap_or(bare).strip_prefix("8859")?;
    browser_encoding(&format!("iso-8859-{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text with an XML declaration of this charset.
    fn declaring(encoding: &str, rest: &[u8]) -> Vec<u8> {
        let declaration = format!("<?xml version='1.0' encoding = \"{encoding}\"?>");
        [declaration.as_bytes(), rest].concat()
    }

    fn without_declaration(text: &str) -> &str {
        text.split_once("?>").map_or(text, |(_, rest)| rest)
    }

    #[test]
    fn charset_is_the_first_name_consistent_with_the_bytes() {
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
            // These two bytes are valid UTF-8 as well.
            (declaring("gbk", b"\xc4\xa3"), Some("gbk"), "模"),
            // The declaration is wrong: the text is not in units of two bytes.
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
    fn charset_is_guessed_when_no_name_fits() {
        let cases: [(Vec<u8>, Option<&str>, &str); 3] = [
            (
                b"<p>Un caf\xe9 cr\xe8me, s'il vous pla\xeet".into(),
                Some("utf-8"),
                "<p>Un café crème, s'il vous plaît",
            ),
            // The last character is cut off.
            (b"<p>d\xc3\xa9j\xc3\xa0 vu\xc3".into(), None, "<p>déjà vu\u{fffd}"),
            (b"\xff\xfe<\x00\x00\xd8<\x00".into(), None, "<\u{fffd}<"),
        ];
        for (bytes, header, expected) in cases {
            let decoded = decode(&bytes, header).unwrap();
            assert_eq!((&*decoded.text, decoded.is_guess), (expected, true), "{bytes:?}");
        }
    }

    #[test]
    fn unsupported_charsets_are_refused() {
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

#[cfg(test)]
mod labels_tests {
    use super::*;

    #[test]
    fn charset_aliases_are_known() {
        let cases = [
            ("UTF-8", "UTF-8"),
            ("utf_8", "UTF-8"),
            ("utf8mb4", "UTF-8"),
            ("\"utf-8\"", "UTF-8"),
            ("cp949", "EUC-KR"),
            ("ms949", "EUC-KR"),
            ("uhc", "EUC-KR"),
            ("euc_kr", "EUC-KR"),
            ("cp932", "Shift_JIS"),
            ("Shift-JIS", "Shift_JIS"),
            ("cp936", "GBK"),
            ("GB_2312-80", "GBK"),
            ("cp950", "Big5"),
            ("EUC_JP", "EUC-JP"),
            ("win-1251", "windows-1251"),
            ("windows1251", "windows-1251"),
            ("Cp1252", "windows-1252"),
            ("latin-1", "windows-1252"),
            ("iso8859_15", "ISO-8859-15"),
            ("ISO_8859-2", "ISO-8859-2"),
            ("8859_5", "ISO-8859-5"),
            ("cp866", "IBM866"),
        ];
        for (name, expected) in cases {
            let Charset::Known(encoding) = charset_named(name) else {
                panic!("{name} is not known")
            };
            assert_eq!(encoding.name(), expected, "{name}");
        }
        assert_eq!(charset_named("klingon"), Charset::Unknown);
        assert_eq!(charset_named("windows-9999"), Charset::Unknown);
        assert_eq!(charset_named(""), Charset::Unknown);
        assert_eq!(charset_named("utf-7"), Charset::Unsupported);
    }
}
