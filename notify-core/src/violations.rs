//! Violations: what is wrong with a request, each with the path of the value.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// Most violations in one answer. Further ones are only counted, in a last line, so that a body of a
/// million wrong elements does not produce an answer larger than itself.
pub const VIOLATIONS_LISTED_MAX: usize = 100;

/// Violated rules as lines of `path: what is wrong`; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", self.0.join("; "))]
pub struct Violations(Vec<String>);

impl Violations {
    /// One violation.
    #[must_use]
    pub fn one(path: &str, what: impl Display) -> Self {
        Self(vec![format!("{path}: {what}")])
    }

    /// Violations from complete lines; `None` when there are none.
    #[must_use]
    pub fn from_lines(lines: Vec<String>) -> Option<Self> {
        if lines.is_empty() { None } else { Some(Self(lines)) }
    }

    /// The lines, as the API returns them.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// The lines, as the API returns them.
    #[must_use]
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// Collects violations; keeps at most [`VIOLATIONS_LISTED_MAX`] and counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Validator {
    lines: Vec<Line>,
    more: u64,
    has_wrong_type: bool,
    ignores_text_lengths: bool,
}

#[derive(Debug)]
struct Line {
    path: String,
    what: String,
}

impl Line {
    fn is_within(&self, path: &str) -> bool {
        let inside = self.path.strip_prefix(path);
        inside.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl Validator {
    /// A validator that does not limit the length of texts: for a request that was accepted before,
    /// perhaps by a version with wider limits.
    pub(crate) fn ignoring_text_lengths() -> Self {
        Self { ignores_text_lengths: true, ..Self::default() }
    }

    pub(crate) fn ignores_text_lengths(&self) -> bool {
        self.ignores_text_lengths
    }

    /// Adds a violated rule.
    pub(crate) fn violation(&mut self, path: &Path<'_>, what: impl Display) {
        if self.lines.len() < VIOLATIONS_LISTED_MAX {
            self.lines.push(Line { path: path.to_string(), what: what.to_string() });
        } else {
            self.more += 1;
        }
    }

    /// Adds a value of the wrong type. The rules are not checked after one.
    pub(crate) fn wrong_type(&mut self, path: &Path<'_>, expected: &str) {
        self.has_wrong_type = true;
        self.violation(path, format_args!("expected {expected}"));
    }

    /// Adds an unknown name, with the nearest known one as a suggestion.
    pub(crate) fn unknown(&mut self, path: &Path<'_>, what: &str, name: &str, known: &[&str]) {
        // The nearest name is not searched for lines that are only counted.
        if self.lines.len() >= VIOLATIONS_LISTED_MAX {
            self.more += 1;
            return;
        }
        match nearest_name(name, known) {
            Some(near) => {
                self.violation(path, format_args!("unknown {what}, did you mean `{near}`?"));
            }
            None => self.violation(path, format_args!("unknown {what}")),
        }
    }

    pub(crate) fn has_wrong_type(&self) -> bool {
        self.has_wrong_type
    }

    /// Adds the violations of a later pass, except at or below a path that has a violation already:
    /// a number of the wrong type is not also reported as missing, nor are the fields of a missing
    /// object.
    pub(crate) fn merge(&mut self, later: Self) {
        let earlier = self.lines.len();
        for line in later.lines {
            if self.lines[..earlier].iter().any(|known| line.is_within(&known.path)) {
                continue;
            }
            if self.lines.len() < VIOLATIONS_LISTED_MAX {
                self.lines.push(line);
            } else {
                self.more += 1;
            }
        }
        self.more += later.more;
        self.has_wrong_type |= later.has_wrong_type;
    }

    fn into_violations(mut self) -> Option<Violations> {
        if self.more > 0 {
            let what = format!("{} more rules are broken", self.more);
            self.lines.push(Line { path: ROOT.to_string(), what });
        }
        let lines = self.lines.into_iter().map(|line| format!("{}: {}", line.path, line.what));
        Violations::from_lines(lines.collect())
    }

    /// The validated value, or the violations. The value must be there when there are none.
    pub(crate) fn into_result<T>(self, valid: Option<T>) -> Result<T, Violations> {
        match self.into_violations() {
            Some(violations) => Err(violations),
            None => Ok(valid.expect("a value without violations is complete")),
        }
    }
}

/// Longest unknown name that is compared with known ones, in bytes.
const NAME_COMPARED_BYTES_MAX: usize = 64;

/// Distance of a name that prefixes a known one with another word, such as `web_device_ids`. It is
/// smaller than the distance of a name whose first word differs.
const PREFIXED_DISTANCE: usize = 2;

/// The known name closest to a misspelt one, if at most a third of the characters differ. The letter
/// case of `name` is ignored.
#[must_use]
pub fn nearest_name<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.len() > NAME_COMPARED_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let close = name.chars().count().max(3) / 3;
    known
        .iter()
        .map(|known| (distance(&name, known), *known))
        .filter(|(distance, _)| *distance <= close)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

fn distance(name: &str, known: &str) -> usize {
    let edits = strsim::osa_distance(name, known);
    let is_prefixed = name.strip_suffix(known).is_some_and(|before| before.ends_with('_'));
    if is_prefixed { edits.min(PREFIXED_DISTANCE) } else { edits }
}

/// Longest part of a caller's name that a message quotes, in characters.
const NAME_QUOTED_CHARS_MAX: usize = 64;

/// The path of a value in a body, such as `features[2].data.url`. Nothing is allocated until it is
/// displayed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'p> {
    /// The body itself.
    Root,
    /// A member of an object.
    Field(&'p Path<'p>, &'p str),
    /// An element of a list.
    Index(&'p Path<'p>, usize),
}

/// The body itself.
pub(crate) static ROOT: Path<'static> = Path::Root;

/// A field of the body.
pub(crate) fn path(name: &str) -> Path<'_> {
    Path::Field(&ROOT, name)
}

impl Path<'_> {
    pub(crate) fn field<'s>(&'s self, name: &'s str) -> Path<'s> {
        Path::Field(self, name)
    }

    pub(crate) fn index(&self, index: usize) -> Path<'_> {
        Path::Index(self, index)
    }

    fn write(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => Quoted(name).fmt(f),
            Self::Field(parent, name) => {
                parent.write(f)?;
                write!(f, ".{}", Quoted(name))
            }
            Self::Index(parent, index) => {
                parent.write(f)?;
                write!(f, "[{index}]")
            }
        }
    }
}

impl Display for Path<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("body"),
            Self::Field(..) | Self::Index(..) => self.write(f),
        }
    }
}

/// A caller's name in a message: shortened, control characters replaced, `""` when empty.
struct Quoted<'n>(&'n str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("\"\"");
        }
        for (count, c) in self.0.chars().enumerate() {
            if count == NAME_QUOTED_CHARS_MAX {
                return f.write_str("…");
            }
            let c = if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_name_is_suggested() {
        let known = ["android_device_ids", "ios_device_ids", "device_ids", "text", "url", "tags"];
        for (name, near) in [
            ("tag", Some("tags")),
            ("TEXT", Some("text")),
            ("andriod_device_ids", Some("android_device_ids")),
            ("ios_devices_ids", Some("ios_device_ids")),
            ("device_id", Some("device_ids")),
            ("web_device_ids", Some("device_ids")),
            ("chatapp_device_ids", Some("device_ids")),
            ("image_url", Some("url")),
            ("curl", Some("url")),
            ("colour", None),
        ] {
            assert_eq!(nearest_name(name, &known), near, "{name}");
        }
    }
}
