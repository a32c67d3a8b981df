//! From the bytes of a feed to its text. The mark of byte order decides, then what the answer's
//! header says, then the XML declaration, then UTF-8 (RFC 7303 section 3).

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};

use super::ParseError;

/// Bytes at the start in which an XML declaration is looked for.
const DECLARATION_BYTES: usize = 256;

/// The text. Bytes that are none in the charset that was named make the whole feed unreadable: a
/// guess would show people nonsense.
pub(super) fn decode<'b>(
    bytes: &'b [u8],
    of_header: Option<&str>,
) -> Result<Cow<'b, str>, ParseError> {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    let encoding = match marked {
        Some(encoding) => encoding,
        None => named(of_header)?.or(declared(bytes)?).unwrap_or(UTF_8),
    };
    let (text, _, had_errors) = encoding.decode(bytes);
    if had_errors { Err(ParseError::Charset) } else { Ok(text) }
}

fn named(label: Option<&str>) -> Result<Option<&'static Encoding>, ParseError> {
    let Some(label) = label else { return Ok(None) };
    Encoding::for_label(label.trim().as_bytes()).map(Some).ok_or(ParseError::Charset)
}

fn declared(bytes: &[u8]) -> Result<Option<&'static Encoding>, ParseError> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES)]);
    let Some(rest) = start.trim_start().strip_prefix("<?xml") else { return Ok(None) };
    let declaration = rest.split("?>").next().unwrap_or_default();
    let Some((_, value)) = declaration.split_once("encoding") else { return Ok(None) };
    let value = value.trim_start().strip_prefix('=').unwrap_or_default().trim_start();
    let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Ok(None);
    };
    let encoding = named(value[1..].split(quote).next())?;
    // Whoever could be read so far in bytes of one each is not in UTF-16, whatever it says.
    Ok(encoding.map(|encoding| encoding.output_encoding()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charset_comes_from_mark_header_declaration_in_that_order() {
        let cases: [(&[u8], Option<&str>, Option<&str>); 11] = [
            (b"caf\xc3\xa9", None, Some("café")),
            (b"caf\xe9", Some("iso-8859-1"), Some("café")),
            (b"\xef\xbb\xbfcaf\xc3\xa9", Some("iso-8859-1"), Some("café")),
            (b"\xff\xfec\x00\xe9\x00", None, Some("cé")),
            (
                b"<?xml version='1.0' encoding='ISO-8859-1'?>\xe9",
                None,
                Some("<?xml version='1.0' encoding='ISO-8859-1'?>é"),
            ),
            (
                b"<?xml version=\"1.0\" encoding = \"utf-16\"?>",
                None,
                Some("<?xml version=\"1.0\" encoding = \"utf-16\"?>"),
            ),
            (b"caf\xe9", None, None),
            (b"caf\xe9", Some("utf-8"), None),
            (b"cafe", Some("no-such-charset"), None),
            (b"<?xml version='1.0' encoding='utf-7'?>", None, None),
            (b"", None, Some("")),
        ];
        for (bytes, header, expected) in cases {
            assert_eq!(decode(bytes, header).ok().as_deref(), expected, "{bytes:?} {header:?}");
        }
    }
}
