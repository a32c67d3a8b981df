//! Rules that many fields share: required texts, ids, enums, urls, instants, lengths of lists.

use std::fmt::Display;
use std::str::FromStr;

use url::Url;

use crate::violations::{Path, Validator};
use crate::{TIMESTAMP_MS_MAX, Timestamp, UnknownName};

/// Longest url, in characters.
pub const URL_CHARS_MAX: usize = 2_048;
/// Longest text of a field without a limit of its own, in characters; far more than a device shows.
pub const TEXT_CHARS_MAX: usize = 65_536;
/// Longest name of a campaign or a feed, in characters: an answer lists up to 1,000 of them.
pub const LISTED_NAME_CHARS_MAX: usize = 1_024;
/// Url schemes that execute or embed their content; refused in every field.
const SCHEMES_REFUSED: [&str; 2] = ["javascript", "data"];

pub(crate) const REQUIRED: &str = "is required";
pub(crate) const NUL_FORBIDDEN: &str = "must not contain U+0000";

impl Validator {
    /// An optional text of at most [`TEXT_CHARS_MAX`]; an empty text equals an absent one.
    pub(crate) fn text(&mut self, path: &Path<'_>, text: Option<String>) -> Option<String> {
        self.text_up_to(path, text, TEXT_CHARS_MAX)
    }

    /// An optional text of limited length.
    pub(crate) fn text_up_to(
        &mut self,
        path: &Path<'_>,
        text: Option<String>,
        chars_max: usize,
    ) -> Option<String> {
        let text = text.filter(|text| !text.is_empty())?;
        if text.contains('\0') {
            self.violation(path, NUL_FORBIDDEN);
        }
        if !self.ignores_text_lengths() && text.chars().nth(chars_max).is_some() {
            self.violation(path, format_args!("must be at most {chars_max} characters"));
        }
        Some(text)
    }

    /// A required text of at most [`TEXT_CHARS_MAX`].
    pub(crate) fn required(&mut self, path: &Path<'_>, text: String) -> String {
        self.required_up_to(path, text, TEXT_CHARS_MAX)
    }

    /// A required text of limited length.
    pub(crate) fn required_up_to(
        &mut self,
        path: &Path<'_>,
        text: String,
        chars_max: usize,
    ) -> String {
        if text.is_empty() {
            self.violation(path, REQUIRED);
        }
        self.text_up_to(path, Some(text), chars_max).unwrap_or_default()
    }

    /// A required id.
    pub(crate) fn id<'t, T>(
        &mut self,
        path: &Path<'_>,
        text: &'t str,
        parse: impl FnOnce(&'t str) -> Result<T, &'static str>,
    ) -> Option<T> {
        if text.is_empty() {
            self.violation(path, REQUIRED);
            return None;
        }
        parse(text).map_err(|rule| self.violation(path, rule)).ok()
    }

    /// An optional id. Unlike other texts, it must not be empty.
    pub(crate) fn optional_id<'t, T>(
        &mut self,
        path: &Path<'_>,
        text: Option<&'t str>,
        parse: impl FnOnce(&'t str) -> Result<T, &'static str>,
    ) -> Option<T> {
        let text = text?;
        if text.is_empty() {
            self.violation(path, "must not be empty");
            return None;
        }
        parse(text).map_err(|rule| self.violation(path, rule)).ok()
    }

    /// A required name of an enum.
    pub(crate) fn one_of<T: FromStr<Err = UnknownName>>(
        &mut self,
        path: &Path<'_>,
        name: &str,
    ) -> Option<T> {
        if name.is_empty() {
            self.violation(path, REQUIRED);
            return None;
        }
        name.parse().map_err(|unknown| self.violation(path, unknown)).ok()
    }

    /// An optional name of an enum; an empty text equals an absent one.
    pub(crate) fn optional_one_of<T: FromStr<Err = UnknownName>>(
        &mut self,
        path: &Path<'_>,
        name: Option<&str>,
    ) -> Option<T> {
        self.one_of(path, name.filter(|name| !name.is_empty())?)
    }

    /// The target of a click: any absolute URI, including custom schemes.
    pub(crate) fn uri(&mut self, path: &Path<'_>, uri: Option<String>) -> Option<String> {
        let uri = uri.filter(|uri| !uri.is_empty())?;
        if let Err(rule) = check_uri(&uri) {
            self.violation(path, rule);
        }
        Some(uri)
    }

    /// The url of a resource to fetch: absolute, `http` or `https`.
    pub(crate) fn http_url(&mut self, path: &Path<'_>, url: Option<String>) -> Option<String> {
        let url = url.filter(|url| !url.is_empty())?;
        if let Err(rule) = check_http_url(&url) {
            self.violation(path, rule);
        }
        Some(url)
    }

    /// A required `http` or `https` url.
    pub(crate) fn required_http_url(&mut self, path: &Path<'_>, url: String) -> String {
        if url.is_empty() {
            self.violation(path, REQUIRED);
        }
        self.http_url(path, Some(url)).unwrap_or_default()
    }

    /// Unix milliseconds within the years 1970 to 9999.
    pub(crate) fn instant(&mut self, path: &Path<'_>, ms: Option<i64>) -> Option<Timestamp> {
        let ms = ms?;
        if !(0..=TIMESTAMP_MS_MAX).contains(&ms) {
            self.violation(path, "must be unix milliseconds within the years 1970 to 9999");
            return None;
        }
        Some(Timestamp(ms))
    }

    /// A list of at most `max` elements.
    pub(crate) fn max_len(&mut self, path: &Path<'_>, len: usize, max: usize, what: impl Display) {
        if len > max {
            self.violation(path, format_args!("must hold at most {max} {what}"));
        }
    }
}

/// The rules of every url: its length, an absolute form, and a scheme that is not refused.
fn check_uri(uri: &str) -> Result<(), &'static str> {
    if uri.chars().nth(URL_CHARS_MAX).is_some() {
        return Err("must be at most 2048 characters");
    }
    // The parser drops these silently; a phone may not.
    if uri.chars().any(char::is_control) || uri.trim() != uri {
        return Err("must not contain control characters or spaces around it");
    }
    let (scheme, rest) = split_scheme(uri).ok_or("must be an absolute url")?;
    if SCHEMES_REFUSED.iter().any(|refused| scheme.eq_ignore_ascii_case(refused)) {
        return Err("must not be a javascript: or data: url");
    }
    // The parser reads `host:port`, but an app may use `myapp://chat:1234567`.
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
