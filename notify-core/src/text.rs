//! Characters that a terminal does not show as they are: whoever prints a text of somebody else escapes
//! them, so that it can neither steer the terminal nor look like another text.

use std::fmt::Write as _;

/// Whether a character steers what it is shown on, or is not seen: controls (C0, DEL, C1), line and
/// paragraph separators, marks, embeddings, overrides and isolates of direction, what has no width or
/// no ink, tags, and variation selectors but that of pictures.
///
/// ```
/// use notify_core::is_unprintable;
///
/// assert!(is_unprintable('\u{1b}') && is_unprintable('\u{202e}') && is_unprintable('\u{200b}'));
/// assert!(!is_unprintable('é') && !is_unprintable('漢') && !is_unprintable(' '));
/// ```
#[must_use]
pub fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a joiner (U+200C, U+200D) between these two changes what people read: it makes one picture
/// of several, or forms letters of scripts that join. Elsewhere it is not seen.
#[must_use]
pub fn joins(before: char, after: char) -> bool {
    (is_of_joining_script(before) && is_of_joining_script(after))
        || (is_pictured(before) && is_pictured(after))
}

/// Letters and marks of the Arabic, Syriac and Indic blocks, and of those that are written alike.
fn is_of_joining_script(character: char) -> bool {
    matches!(character,
        '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}' | '\u{1820}'..='\u{18af}' | '\u{fb50}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}')
}

/// Emoji, their colours of skin and the variation selector that makes a picture of a sign.
fn is_pictured(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// A JSON text whose strings hold what [`is_unprintable`] as escapes (RFC 8259, section 7): the same
/// JSON, for a terminal. Line ends between values stay.
#[must_use]
pub fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_unprintable(character) && character != '\n' {
            push_escape(&mut shown, character);
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Appends a character as JSON escapes it: `\u202e`, two of them beyond U+FFFF.
pub fn push_escape(text: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}
