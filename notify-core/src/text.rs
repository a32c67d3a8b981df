//! Text for people: counts with their noun, and unprintable characters. A program that prints untrusted
//! text to a terminal must escape these characters: they could control the terminal, or make the text
//! look like another one.

use std::fmt::{Display, Write as _};

use unicode_segmentation::UnicodeSegmentation;

/// A count with its noun, whose plural ends in `s`.
///
/// ```
/// use notify_core::pluralize;
///
/// assert_eq!(pluralize(1, "device"), "1 device");
/// assert_eq!(pluralize(0_u64, "device"), "0 devices");
/// ```
#[must_use]
pub fn pluralize<N: Copy + Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// The beginning of a text, at most `chars_max` characters. It ends between two grapheme clusters, so that no flag
/// and no emoji of several characters is cut into others. Only a first cluster that is longer than this by itself
/// is cut.
///
/// ```
/// use notify_core::beginning;
///
/// assert_eq!(beginning("abc", 2), "ab");
/// assert_eq!(beginning("a🇦🇹", 2), "a");
/// assert_eq!(beginning("👨‍👩‍👧", 2), "👨‍");
/// ```
#[must_use]
pub fn beginning(text: &str, chars_max: usize) -> &str {
    let Some((bytes_max, _)) = text.char_indices().nth(chars_max) else { return text };
    let ends = text.grapheme_indices(true).map(|(start, cluster)| start + cluster.len());
    text.split_at(ends.take_while(|end| *end <= bytes_max).last().unwrap_or(bytes_max)).0
}

/// Whether a character controls the terminal or is invisible: control characters (C0, DEL, C1), line
/// and paragraph separators, bidirectional marks, embeddings, overrides and isolates, characters without
/// width or ink, tags, and variation selectors except the emoji selector U+FE0F.
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

/// Whether nothing of a text is visible: it is empty, or has only white space and characters that
/// [`is_unprintable`] finds below U+10000.
///
/// ```
/// use notify_core::is_blank;
///
/// assert!(is_blank("") && is_blank(" \n\u{a0}\u{3000}") && is_blank("\u{200b}\u{2800}"));
/// assert!(!is_blank(" a ") && !is_blank("👩\u{200d}👧"));
/// ```
#[must_use]
pub fn is_blank(text: &str) -> bool {
    // The bound makes the rule one that the pattern of a JSON schema can say.
    let is_invisible = |character: char| {
        character.is_whitespace() || (is_unprintable(character) && character <= '\u{ffff}')
    };
    text.chars().all(is_invisible)
}

/// Whether a joiner (U+200C, U+200D) between these two characters has a visible effect. It combines
/// emoji and shapes the letters of a joining script, but is invisible between other characters.
#[must_use]
pub fn joins(before: char, after: char) -> bool {
    (is_joining_script(before) && is_joining_script(after)) || (is_emoji(before) && is_emoji(after))
}

/// Letters and marks of the Arabic, Syriac and Indic blocks, and of related scripts.
fn is_joining_script(character: char) -> bool {
    matches!(character,
        '\u{620}'..='\u{8ff}' | '\u{900}'..='\u{dff}' | '\u{f00}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}' | '\u{1820}'..='\u{18af}' | '\u{fb50}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}')
}

/// Emoji, skin tones and the variation selector that turns a symbol into an emoji.
fn is_emoji(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
}

/// Escapes the unprintable characters of a JSON text (see [`is_unprintable`]; RFC 8259, section 7), for
/// a terminal. The result is the same JSON. Line feeds are not escaped.
#[must_use]
pub fn printable_json(json: &str) -> String {
    let mut printable = String::with_capacity(json.len());
    for character in json.chars() {
        if is_unprintable(character) && character != '\n' {
            push_escape(&mut printable, character);
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Appends a character as a JSON escape such as `\u202e`. A character beyond U+FFFF becomes a surrogate
/// pair of two escapes.
pub fn push_escape(text: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}
