//! Texts that were copied from elsewhere: a page, a file, an environment file, a secret store. What surrounds
//! such a text does not belong to it.

/// Characters around a pasted text: blanks, ends of lines, and invisible characters.
pub(crate) const EDGES: [char; 7] = [' ', '\t', '\r', '\n', '\u{a0}', '\u{200b}', '\u{feff}'];
/// Quotes in which a text can be. `docker run --env-file`, for example, keeps them.
pub(crate) const QUOTES: [char; 3] = ['"', '\'', '`'];

/// A text without the blanks and the pair of quotes around it.
#[must_use]
pub(crate) fn trimmed(text: &str) -> &str {
    let text = text.trim_matches(EDGES);
    let unquoted = QUOTES.into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?.trim_matches(EDGES);
        (!inner.is_empty()).then_some(inner)
    });
    unquoted.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::trimmed;

    #[test]
    fn blanks_and_quotes_around_a_text_do_not_belong_to_it() {
        let rows = [
            ("a", "a"),
            ("", ""),
            (" \t\r\n", ""),
            ("a b\n", "a b"),
            ("\u{feff}a\u{a0}\u{200b}\r\n", "a"),
            ("\"a\"", "a"),
            ("' a '\n", "a"),
            ("`a`", "a"),
            ("\"a", "\"a"),
            ("\"", "\""),
            ("\"\"", "\"\""),
            ("\"'a'\"", "'a'"),
            ("it's 'a'", "it's 'a'"),
        ];
        for (text, expected) in rows {
            assert_eq!(trimmed(text), expected, "{text:?}");
        }
    }
}
