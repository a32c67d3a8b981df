//! Splits a script into its statements.

/// A part of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// White space or a comment.
    Blank,
    /// The end of a statement.
    End,
    /// Anything else.
    Word,
}

/// The statements of a script, without the semicolons. Knows comments, strings, quoted names and
/// dollar-quoted strings, but neither strings with backslashes (`E''`) nor functions whose body is
/// not a string (`begin atomic`).
pub(super) fn statements_of(script: &str) -> Vec<&str> {
    let mut statements = Vec::new();
    let (mut start, mut at, mut is_blank) = (0, 0, true);
    while at < script.len() {
        let (part, length) = part_of(&script[at..]);
        match part {
            Part::End => {
                if !is_blank {
                    statements.push(script[start..at].trim());
                }
                (start, is_blank) = (at + length, true);
            }
            Part::Word => is_blank = false,
            Part::Blank => {}
        }
        at += length;
    }
    if !is_blank {
        statements.push(script[start..].trim());
    }
    statements
}

/// The part with which a text begins, and its length. A part without an end reaches to the end of
/// the text.
fn part_of(text: &str) -> (Part, usize) {
    let until = |opening: usize, end: &str| {
        text[opening..].find(end).map_or(text.len(), |at| opening + at + end.len())
    };
    let first = text.chars().next().unwrap_or(' ');
    match first {
        _ if text.starts_with("--") => (Part::Blank, until(2, "\n")),
        _ if text.starts_with("/*") => (Part::Blank, comment_length(text)),
        ';' => (Part::End, 1),
        // A quote inside is written twice, which makes two strings in a row of it.
        '\'' => (Part::Word, until(1, "'")),
        '"' => (Part::Word, until(1, "\"")),
        '$' => match dollar_quote(text) {
            Some(quote) => (Part::Word, until(quote.len(), quote)),
            None => (Part::Word, 1),
        },
        // A dollar sign inside a name begins no string.
        _ if is_of_name(first) => {
            (Part::Word, text.find(|c| !is_of_name(c) && c != '$').unwrap_or(text.len()))
        }
        _ if first.is_whitespace() => (Part::Blank, first.len_utf8()),
        _ => (Part::Word, first.len_utf8()),
    }
}

/// The length of a comment, which may contain other comments.
fn comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The quote of a dollar-quoted string: `$$` or `$name$`.
fn dollar_quote(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 2;
    let name = &text[1..end - 1];
    let is_name = name.chars().all(is_of_name) && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then(|| &text[..end])
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_split_at_the_semicolons_between_statements() {
        let cases: [(&str, &[&str]); 16] = [
            ("", &[]),
            (" ;; -- nothing; really\n /* nor; here */ ", &[]),
            ("select 1", &["select 1"]),
            ("select 1;", &["select 1"]),
            ("select 1;select 2;\n", &["select 1", "select 2"]),
            ("-- one; two\nselect 1; -- three;", &["-- one; two\nselect 1"]),
            ("select 1 -- it's; fine\n;select 2", &["select 1 -- it's; fine", "select 2"]),
            ("a /* ; /* ; */ ; */ b; c", &["a /* ; /* ; */ ; */ b", "c"]),
            ("select ';', 'it''s;'; b", &["select ';', 'it''s;'", "b"]),
            ("select '\\'; b", &["select '\\'", "b"]),
            ("select \";\"\";\"; b", &["select \";\"\";\"", "b"]),
            ("do $$ begin a; b; end $$; c", &["do $$ begin a; b; end $$", "c"]),
            ("do $x$ a; $$ b; $y$ $x$; c", &["do $x$ a; $$ b; $y$ $x$", "c"]),
            ("select $1; b$$; c$$", &["select $1", "b$$", "c$$"]),
            ("sélect 'é;'; „“", &["sélect 'é;'", "„“"]),
            ("select 'open; /* --", &["select 'open; /* --"]),
        ];
        for (script, statements) in cases {
            assert_eq!(statements_of(script), statements, "{script}");
        }
    }

    /// What the splitter does not know, no migration may use.
    #[test]
    fn migrations_use_only_what_the_splitter_knows() {
        for migration in super::super::migrations::all() {
            let script = migration.sql().unwrap();
            let lower = script.to_lowercase();
            assert!(!lower.contains(" e'") && !lower.contains("begin atomic"), "{migration}");
            let statements = statements_of(script);
            assert!(!statements.is_empty(), "{migration}");
            let squeezed = |text: &str| text.replace([' ', '\n', ';'], "");
            assert_eq!(
                squeezed(&statements.concat()),
                squeezed(script),
                "{migration} loses nothing but trailing comments"
            );
        }
    }
}
