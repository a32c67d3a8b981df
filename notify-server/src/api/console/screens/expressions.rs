//! Audiences as operators write them: expressions, and where they are wrong.

use notify_core::Audience;

/// Why a text is not a valid expression.
pub(super) struct ExpressionProblem {
    /// What is wrong.
    pub(super) what: String,
    /// The line that is wrong, and below it a line with a mark at the place.
    pub(super) place: String,
    /// Whether the error is at the end of the text or in its last word, which the operator may still be typing.
    pub(super) is_at_end: bool,
}

/// Reads an expression.
pub(super) fn parse(text: &str) -> Result<Audience, ExpressionProblem> {
    Audience::parse_expression(text).map_err(|error| {
        let shown = error.to_string();
        let place = shown.strip_suffix(&error.message).unwrap_or(&shown).trim_end();
        ExpressionProblem {
            is_at_end: is_unfinished(&text.chars().skip(error.position).collect::<String>()),
            place: place.to_owned(),
            what: error.message,
        }
    })
}

/// Whether `rest`, the text from the position of an error, may be the beginning of a valid token.
fn is_unfinished(rest: &str) -> bool {
    let is_open_text = rest.strip_prefix('"').is_some_and(|text| !text.contains('"'));
    is_open_text || !rest.contains(|char: char| char.is_whitespace() || "(),".contains(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_expression_has_its_place_and_what_is_wrong() {
        let problem = parse("tag = vip an user exists").unwrap_err();
        assert_eq!(problem.what, "expected `and`, `or` or the end");
        assert_eq!(problem.place, "tag = vip an user exists\n          ^");
        assert!(!problem.is_at_end);
    }

    #[test]
    fn an_expression_that_is_not_finished_is_wrong_at_its_end() {
        for text in [
            "",
            " ",
            "tag",
            "tag =",
            "tag = vip and ",
            "tag = vip an",
            "plan >",
            "platform = io",
            "(tag = vip",
            "plan in (pro,",
            "plan = \"very old",
        ] {
            assert!(parse(text).is_err_and(|problem| problem.is_at_end), "{text}");
        }
        for text in ["tag ! vip", "tag = vip an ", "plan in )", "plan = pro, team"] {
            assert!(parse(text).is_err_and(|problem| !problem.is_at_end), "{text}");
        }
    }
}
