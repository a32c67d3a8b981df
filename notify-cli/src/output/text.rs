//! The width of a text on a terminal, and how it is broken into lines.

use unicode_width::UnicodeWidthStr;

/// The minimum width of a word that is not ASCII, in columns. Some scripts put no space between words, so
/// such a text may be broken at any place.
const WORD_COLUMNS_MIN: usize = 16;

/// The width of the widest line, in columns.
pub(super) fn width(text: &str) -> usize {
    text.lines().map(UnicodeWidthStr::width).max().unwrap_or_default()
}

/// The minimum width of a text that may be broken only at spaces, in columns. An id or a url that is broken
/// elsewhere cannot be copied.
pub(super) fn width_min(text: &str) -> usize {
    let needed = |word: &str| {
        let columns = word.width();
        if word.is_ascii() { columns } else { columns.min(WORD_COLUMNS_MIN) }
    };
    text.split_whitespace().map(needed).max().unwrap_or_default()
}

/// Breaks a text at spaces into lines. A word that is longer than the width is not broken. The parts of a
/// line keep the line's indentation.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let words = paragraph.trim_start_matches(' ');
        let indent = &paragraph[..paragraph.len() - words.len()];
        let mut line = indent.to_owned();
        for word in words.split(' ') {
            let has_words = line.len() > indent.len();
            if has_words && line.width() + 1 + word.width() > columns {
                lines.push(std::mem::replace(&mut line, indent.to_owned()));
            }
            if line.len() > indent.len() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_only_at_spaces() {
        for (text, columns, lines) in [
            ("", 10, vec![]),
            ("one two three", 7, vec!["one two", "three"]),
            ("one two three", 8, vec!["one two", "three"]),
            ("see https://a.example/feed now", 10, vec!["see", "https://a.example/feed", "now"]),
            ("one\ntwo three", 20, vec!["one", "two three"]),
            ("お茶 はいかが", 6, vec!["お茶", "はいかが"]),
            ("{\n  \"a b\": 1\n}", 6, vec!["{", "  \"a", "  b\":", "  1", "}"]),
        ] {
            assert_eq!(wrap(text, columns), lines, "{text:?}");
        }
    }

    #[test]
    fn the_longest_word_determines_the_minimum_width() {
        for (text, natural, least) in [
            ("one two three", 13, 5),
            ("one\nthirteen", 8, 8),
            ("https://a.example/feed", 22, 22),
            ("お茶", 4, 4),
            ("お茶はいかがですかお茶はいかがですか", 36, WORD_COLUMNS_MIN),
            ("", 0, 0),
        ] {
            assert_eq!((width(text), width_min(text)), (natural, least), "{text:?}");
        }
    }
}
