//! The violations of a request, each with the path of the value; and the rules of texts, urls and the lengths of
//! lists.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;
use url::Url;

use crate::Timestamp;

/// Longest url, in characters.
pub const URL_CHARS_MAX: usize = 2_048;
/// Longest text of a field that has no other limit, in characters; far more than a device shows.
pub const TEXT_CHARS_MAX: usize = 65_536;
/// Longest name of a campaign or a feed, in characters: an answer lists up to 1,000 of them.
pub const LISTED_NAME_CHARS_MAX: usize = 1_024;
/// Url schemes that execute or embed their content; refused in every field.
const SCHEMES_REFUSED: [&str; 2] = ["javascript", "data"];

pub(crate) const REQUIRED: &str = "is required";
pub(crate) const NUL_FORBIDDEN: &str = "must not contain U+0000";

/// Most violations in one answer. A last line has only the number of further violations. Otherwise, a
/// body of a million wrong elements would produce an answer that is larger than the body.
pub const VIOLATIONS_LISTED_MAX: usize = 100;

/// Violated rules as lines of the form `path: rule`. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", self.0.join("; "))]
pub struct Violations(Vec<String>);

impl Violations {
    /// One violation.
    #[must_use]
    pub fn one(path: &str, what: impl Display) -> Self {
        Self(vec![format!("{path}: {what}")])
    }

    /// Violations from complete lines; `None` when there are no lines.
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
    /// Number of violations that are not in `lines`.
    unlisted: u64,
    has_wrong_type: bool,
    is_for_accepted: bool,
    checks_types_only: bool,
    now: Timestamp,
}

#[derive(Debug)]
struct Line {
    path: String,
    what: String,
}

impl Line {
    /// Whether the path of this line is the given one, or below it.
    fn is_within(&self, path: &str) -> bool {
        let rest = self.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl Validator {
    /// A validator that compares instants with `now`.
    pub(crate) fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// The validator for requests that were accepted earlier, perhaps by a version with larger limits. It does
    /// not check the lengths of texts. Lists of ids may be empty, because erasing devices and users removes
    /// their ids from accepted requests.
    pub(crate) fn for_accepted(self) -> Self {
        Self { is_for_accepted: true, ..self }
    }

    /// The time of the request.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether the values that are read are ignored: only their types are checked.
    pub(crate) fn checks_types_only(&self) -> bool {
        self.checks_types_only
    }

    /// Sets whether only types are checked. Returns the previous setting.
    pub(crate) fn set_types_only(&mut self, types_only: bool) -> bool {
        std::mem::replace(&mut self.checks_types_only, types_only)
    }

    pub(crate) fn is_for_accepted(&self) -> bool {
        self.is_for_accepted
    }

    /// Adds a violated rule.
    pub(crate) fn violation(&mut self, path: &Path<'_>, what: impl Display) {
        if self.lines.len() < VIOLATIONS_LISTED_MAX {
            self.lines.push(Line { path: path.to_string(), what: what.to_string() });
        } else {
            self.unlisted += 1;
        }
    }

    /// Adds a violation for a value of the wrong type. The rules of the body are then not checked.
    pub(crate) fn wrong_type(&mut self, path: &Path<'_>, expected: &str) {
        self.unreadable(path, format_args!("expected {expected}"));
    }

    /// Adds a violation for a value that the model cannot hold. The rules of the body are then not checked.
    pub(crate) fn unreadable(&mut self, path: &Path<'_>, what: impl Display) {
        self.has_wrong_type = true;
        self.violation(path, what);
    }

    /// Adds a violation for an unknown name, with the nearest known name as a suggestion.
    pub(crate) fn unknown(&mut self, path: &Path<'_>, what: &str, name: &str, known: &[&str]) {
        // Violations that are only counted need no suggestion, whose search takes time.
        if self.lines.len() >= VIOLATIONS_LISTED_MAX {
            self.unlisted += 1;
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

    /// Adds the violations of a later pass, except those at or below a path that already has one. For
    /// example, a number of the wrong type is not also reported as missing.
    pub(crate) fn merge(&mut self, later: Self) {
        let earlier_count = self.lines.len();
        for line in later.lines {
            if self.lines[..earlier_count].iter().any(|earlier| line.is_within(&earlier.path)) {
                continue;
            }
            if self.lines.len() < VIOLATIONS_LISTED_MAX {
                self.lines.push(line);
            } else {
                self.unlisted += 1;
            }
        }
        self.unlisted += later.unlisted;
        self.has_wrong_type |= later.has_wrong_type;
    }

    /// The first violated rule, without its path.
    pub(crate) fn first_rule(self) -> Option<String> {
        self.lines.into_iter().next().map(|line| line.what)
    }

    fn into_violations(mut self) -> Option<Violations> {
        if self.unlisted > 0 {
            let what = format!("{} more rules are broken", self.unlisted);
            self.lines.push(Line { path: ROOT.to_string(), what });
        }
        let lines = self.lines.into_iter().map(|line| format!("{}: {}", line.path, line.what));
        Violations::from_lines(lines.collect())
    }

    /// Returns the violations if there are any. Otherwise returns the validated value, which must then be
    /// `Some`.
    pub(crate) fn into_result<T>(self, valid: Option<T>) -> Result<T, Violations> {
        match self.into_violations() {
            Some(violations) => Err(violations),
            None => Ok(valid.expect("a value without violations is complete")),
        }
    }
}

impl Validator {
    /// Checks that a text has at most `chars_max` characters and no U+0000.
    pub(crate) fn text(&mut self, path: &Path<'_>, text: &str, chars_max: usize) -> Option<String> {
        if text.contains('\0') {
            self.violation(path, NUL_FORBIDDEN);
            return None;
        }
        if !self.is_for_accepted() && text.chars().nth(chars_max).is_some() {
            self.violation(path, format_args!("must be at most {chars_max} characters"));
            return None;
        }
        Some(text.to_owned())
    }

    /// Checks that a list has at most `max` elements. `what` follows the number in the violation, such as
    /// `languages`, or `element` if `max` is 1.
    pub(crate) fn max_len(&mut self, path: &Path<'_>, len: usize, max: usize, what: impl Display) {
        if len > max {
            self.violation(path, format_args!("must hold at most {max} {what}"));
        }
    }

    /// Checks the target of a click: any absolute URI, including custom schemes.
    pub(crate) fn uri(&mut self, path: &Path<'_>, uri: &str) -> Option<String> {
        check_uri(uri).map_err(|rule| self.violation(path, rule)).ok()?;
        Some(uri.to_owned())
    }

    /// Checks the url of a resource to fetch: absolute, `http` or `https`.
    pub(crate) fn http_url(&mut self, path: &Path<'_>, url: &str) -> Option<String> {
        check_http_url(url).map_err(|rule| self.violation(path, rule)).ok()?;
        Some(url.to_owned())
    }
}

/// Checks the rules of every url: its length, the absolute form, and the scheme.
fn check_uri(uri: &str) -> Result<(), &'static str> {
    if uri.chars().nth(URL_CHARS_MAX).is_some() {
        return Err("must be at most 2048 characters");
    }
    // The parser removes these characters silently, but the app on a phone may not.
    if uri.chars().any(char::is_control) || uri.trim() != uri {
        return Err("must not contain control characters or spaces around it");
    }
    let (scheme, rest) = split_scheme(uri).ok_or("must be an absolute url")?;
    if SCHEMES_REFUSED.iter().any(|refused| scheme.eq_ignore_ascii_case(refused)) {
        return Err("must not be a javascript: or data: url");
    }
    // The parser refuses `myapp://chat:1234567`, because the port is too large. An app with a custom
    // scheme may use such a url for its own purposes.
    let is_custom = !is_http(scheme) && rest.bytes().all(is_uri_byte);
    if is_custom || Url::parse(uri).is_ok() { Ok(()) } else { Err("must be an absolute url") }
}

/// Splits after the scheme (RFC 3986, section 3.1).
fn split_scheme(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_once(':')?;
    let is_in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(is_in_scheme);
    is_scheme.then_some((scheme, rest))
}

fn is_http(scheme: &str) -> bool {
    ["http", "https"].iter().any(|http| scheme.eq_ignore_ascii_case(http))
}

/// Whether a URI may contain the byte outside the brackets of a host (RFC 3986, section 2).
fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#@!$&'()*+,;=%".contains(&byte)
}

fn check_http_url(url: &str) -> Result<(), &'static str> {
    check_uri(url)?;
    // The parser also accepts `https:x.example`, `https:///x.example` and `https:\\x.example`.
    let has_host = split_scheme(url).is_some_and(|(scheme, rest)| {
        let after_slashes = rest.strip_prefix("//");
        is_http(scheme) && after_slashes.is_some_and(|host| !host.starts_with(['/', '\\']))
    });
    if has_host { Ok(()) } else { Err("must be an absolute http or https url") }
}

/// Longest unknown name that is compared with known ones, in bytes.
const NAME_COMPARED_BYTES_MAX: usize = 64;

/// Distance of a name that is a known name with a word before it, such as `web_device_ids` for
/// `device_ids`. It is smaller than the distance to a known name with another first word, such as
/// `ios_device_ids`.
const PREFIXED_DISTANCE: usize = 2;

/// Returns the known name that is closest to a misspelt name, if at most a third of the characters
/// differ. The letter case of `name` is ignored.
#[must_use]
pub fn nearest_name<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    if name.len() > NAME_COMPARED_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let distance_max = name.chars().count().max(3) / 3;
    known
        .iter()
        .map(|known| (distance(&name, known), *known))
        .filter(|(distance, _)| *distance <= distance_max)
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

/// The path of a value in a body, such as `features[2].data.url`. A path allocates nothing until it is
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
