//! What is wrong with a request: every broken rule, each with its path.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// Most rules that one answer lists; the rest is counted in a last line, so that a body of a
/// million wrong elements cannot make an answer larger than itself.
pub const VIOLATIONS_LISTED_MAX: usize = 100;

/// Broken rules, as `path: what is wrong`; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", self.0.join("; "))]
pub struct Violations(Vec<String>);

impl Violations {
    /// One broken rule.
    #[must_use]
    pub fn one(path: &str, what: impl Display) -> Self {
        Self(vec![format!("{path}: {what}")])
    }

    /// Broken rules that are lines already; `None` when there is none.
    #[must_use]
    pub fn from_lines(lines: Vec<String>) -> Option<Self> {
        if lines.is_empty() { None } else { Some(Self(lines)) }
    }

    /// The rules, as the API lists them.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// The rules, as the API lists them.
    #[must_use]
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// Broken rules while they are being found; never holds more lines than an answer lists.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    lines: Vec<Line>,
    more: u64,
    mistyped: bool,
    was_accepted: bool,
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

impl Findings {
    /// For a request that was accepted before, maybe by a version with wider bounds: how long its texts
    /// are is not held against it.
    pub(crate) fn of_accepted() -> Self {
        Self { was_accepted: true, ..Self::default() }
    }

    pub(crate) fn was_accepted(&self) -> bool {
        self.was_accepted
    }

    /// Notes a broken rule.
    pub(crate) fn broken(&mut self, path: &Path<'_>, what: impl Display) {
        self.add(path, what);
    }

    /// Notes a value of the wrong type, after which rules are not worth checking.
    pub(crate) fn mistyped(&mut self, path: &Path<'_>, expected: &str) {
        self.mistyped = true;
        self.add(path, format_args!("expected {expected}"));
    }

    /// Notes a name that is not known, with the nearest of those that are.
    pub(crate) fn unknown(&mut self, path: &Path<'_>, what: &str, name: &str, known: &[&str]) {
        if self.lines.len() >= VIOLATIONS_LISTED_MAX {
            self.more += 1;
            return;
        }
        match nearest_name(name, known) {
            Some(near) => self.add(path, format_args!("unknown {what}, did you mean `{near}`?")),
            None => self.add(path, format_args!("unknown {what}")),
        }
    }

    /// Whether something has the wrong type.
    pub(crate) fn is_mistyped(&self) -> bool {
        self.mistyped
    }

    /// Adds what was found later, but for places that have a line already, and those inside them:
    /// a number that was no number is not also missing, and nothing of a missing object is.
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
        self.mistyped |= later.mistyped;
    }

    pub(crate) fn into_violations(mut self) -> Option<Violations> {
        if self.more > 0 {
            let what = format!("{} more rules are broken", self.more);
            self.lines.push(Line { path: ROOT.to_string(), what });
        }
        let lines = self.lines.into_iter().map(|line| format!("{}: {}", line.path, line.what));
        Violations::from_lines(lines.collect())
    }

    /// What was made, or why it was not.
    pub(crate) fn into_result<T>(self, made: Option<T>) -> Result<T, Violations> {
        match self.into_violations() {
            Some(violations) => Err(violations),
            None => Ok(made.expect("a form without a broken rule is whole")),
        }
    }

    fn add(&mut self, path: &Path<'_>, what: impl Display) {
        if self.lines.len() < VIOLATIONS_LISTED_MAX {
            self.lines.push(Line { path: path.to_string(), what: what.to_string() });
        } else {
            self.more += 1;
        }
    }
}

/// Longest unknown name that is compared with known ones, in bytes.
const NAME_COMPARED_BYTES_MAX: usize = 64;

/// Distance of a name that has a word too many in front of a known one, as `web_device_ids` has: less
/// than that of one whose first word differs.
const PREFIXED_DISTANCE: usize = 2;

/// The known name that is closest to a misspelt one, if one is close: at most a third of its characters
/// differ. Letter case of `name` is ignored.
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

// Where in a body something stands, in the body's own names: `features[2].data.url`.

/// Longest part of a caller's name that a message quotes, in characters.
const NAME_QUOTED_CHARS_MAX: usize = 64;

/// A place in a body; costs nothing until it is written into a message.
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

/// A caller's own name in a message: shortened, without control characters; `""` when empty.
pub(crate) struct Quoted<'n>(pub(crate) &'n str);

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
    fn a_hint_names_the_nearest_name() {
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
