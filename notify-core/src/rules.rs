//! The rules that many fields share: required texts, ids, words of a list, urls, instants.

use std::fmt::Display;

use url::Url;

use crate::violations::{Findings, Path};
use crate::{TIMESTAMP_MS_MAX, Timestamp};

/// Longest url, in characters.
pub const URL_CHARS_MAX: usize = 2_048;
/// Longest text of a field that has no bound of its own, in characters; far above what is shown.
pub const TEXT_CHARS_MAX: usize = 65_536;
/// Longest name of a campaign or a feed, in characters: a listing shows a thousand of them.
pub const LISTED_NAME_CHARS_MAX: usize = 1_024;
/// Url schemes that run or embed what they carry; refused everywhere.
const SCHEMES_REFUSED: [&str; 2] = ["javascript", "data"];

pub(crate) const REQUIRED: &str = "is required";
pub(crate) const NUL_REFUSED: &str = "must not contain U+0000";

impl Findings {
    /// An optional text: empty equals absent.
    pub(crate) fn text(&mut self, path: &Path<'_>, text: Option<String>) -> Option<String> {
        self.text_up_to(path, text, TEXT_CHARS_MAX)
    }

    /// An optional text of bounded length.
    pub(crate) fn text_up_to(
        &mut self,
        path: &Path<'_>,
        text: Option<String>,
        chars_max: usize,
    ) -> Option<String> {
        let text = text.filter(|text| !text.is_empty())?;
        if text.contains('\0') {
            self.broken(path, NUL_REFUSED);
        }
        if !self.was_accepted() && text.chars().nth(chars_max).is_some() {
            self.broken(path, format_args!("must be at most {chars_max} characters"));
        }
        Some(text)
    }

    /// A required text.
    pub(crate) fn required(&mut self, path: &Path<'_>, text: String) -> String {
        self.required_up_to(path, text, TEXT_CHARS_MAX)
    }

    /// A required text of bounded length.
    pub(crate) fn required_up_to(
        &mut self,
        path: &Path<'_>,
        text: String,
        chars_max: usize,
    ) -> String {
        if text.is_empty() {
            self.broken(path, REQUIRED);
        }
        self.text_up_to(path, Some(text), chars_max).unwrap_or_default()
    }

    /// A required id.
    pub(crate) fn id<'t, T>(
        &mut self,
        path: &Path<'_>,
        text: &'t str,
        make: impl FnOnce(&'t str) -> Result<T, &'static str>,
    ) -> Option<T> {
        if text.is_empty() {
            self.broken(path, REQUIRED);
            return None;
        }
        make(text).map_err(|rule| self.broken(path, rule)).ok()
    }

    /// An optional id; unlike other texts it must not be empty.
    pub(crate) fn optional_id<'t, T>(
        &mut self,
        path: &Path<'_>,
        text: Option<&'t str>,
        make: impl FnOnce(&'t str) -> Result<T, &'static str>,
    ) -> Option<T> {
        let text = text?;
        if text.is_empty() {
            self.broken(path, "must not be empty");
            return None;
        }
        make(text).map_err(|rule| self.broken(path, rule)).ok()
    }

    /// A required word of a list.
    pub(crate) fn word<T: Copy>(
        &mut self,
        path: &Path<'_>,
        word: &str,
        all: &[T],
        as_str: fn(T) -> &'static str,
    ) -> Option<T> {
        let found = all.iter().copied().find(|one| as_str(*one) == word);
        if found.is_none() {
            if word.is_empty() {
                self.broken(path, REQUIRED);
            } else {
                let words: Vec<_> = all.iter().map(|one| as_str(*one)).collect();
                self.broken(path, format_args!("must be one of {}", words.join(", ")));
            }
        }
        found
    }

    /// An optional word of a list.
    pub(crate) fn optional_word<T: Copy>(
        &mut self,
        path: &Path<'_>,
        word: Option<&str>,
        all: &[T],
        as_str: fn(T) -> &'static str,
    ) -> Option<T> {
        self.word(path, word.filter(|word| !word.is_empty())?, all, as_str)
    }

    /// What a click opens: any absolute URI, custom schemes included.
    pub(crate) fn uri(&mut self, path: &Path<'_>, uri: Option<String>) -> Option<String> {
        let uri = uri.filter(|uri| !uri.is_empty())?;
        if let Err(rule) = check_uri(&uri) {
            self.broken(path, rule);
        }
        Some(uri)
    }

    /// What is fetched: an absolute `http` or `https` url.
    pub(crate) fn http_url(&mut self, path: &Path<'_>, url: Option<String>) -> Option<String> {
        let url = url.filter(|url| !url.is_empty())?;
        if let Err(rule) = check_http_url(&url) {
            self.broken(path, rule);
        }
        Some(url)
    }

    /// A required `http` or `https` url.
    pub(crate) fn required_http_url(&mut self, path: &Path<'_>, url: String) -> String {
        if url.is_empty() {
            self.broken(path, REQUIRED);
        }
        self.http_url(path, Some(url)).unwrap_or_default()
    }

    /// An instant within the years 1970 to 9999.
    pub(crate) fn instant(&mut self, path: &Path<'_>, ms: Option<i64>) -> Option<Timestamp> {
        let ms = ms?;
        if !(0..=TIMESTAMP_MS_MAX).contains(&ms) {
            self.broken(path, "must be unix milliseconds within the years 1970 to 9999");
            return None;
        }
        Some(Timestamp(ms))
    }

    /// A list that holds no more than it may.
    pub(crate) fn at_most(
        &mut self,
        path: &Path<'_>,
        count: usize,
        max: usize,
        what: impl Display,
    ) {
        if count > max {
            self.broken(path, format_args!("must hold at most {max} {what}"));
        }
    }
}

/// Checks what every url holds: its length, an absolute form, and a scheme that is not refused.
fn check_uri(uri: &str) -> Result<(), &'static str> {
    if uri.chars().nth(URL_CHARS_MAX).is_some() {
        return Err("must be at most 2048 characters");
    }
    // The parser drops these without a word, and a phone may not.
    if uri.chars().any(char::is_control) || uri.trim() != uri {
        return Err("must not contain control characters or spaces around it");
    }
    let (scheme, rest) = split_scheme(uri).ok_or("must be an absolute url")?;
    if SCHEMES_REFUSED.iter().any(|refused| scheme.eq_ignore_ascii_case(refused)) {
        return Err("must not be a javascript: or data: url");
    }
    // The parser knows of hosts and ports alone, where an app may have `myapp://chat:1234567`.
    let is_own_form = !is_http(scheme) && rest.bytes().all(is_uri_byte);
    if is_own_form || Url::parse(uri).is_ok() { Ok(()) } else { Err("must be an absolute url") }
}

/// Splits at the colon after a scheme (RFC 3986, section 3.1).
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

/// Whether a byte stands in a URI outside the brackets of a host (RFC 3986, section 2).
fn is_uri_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#@!$&'()*+,;=%".contains(&byte)
}

fn check_http_url(url: &str) -> Result<(), &'static str> {
    check_uri(url)?;
    // `https:x.example`, `https:///x.example` and `https:\\x.example` are urls to the parser alone.
    let has_host = split_scheme(url).is_some_and(|(scheme, rest)| {
        let after_slashes = rest.strip_prefix("//");
        is_http(scheme) && after_slashes.is_some_and(|host| !host.starts_with(['/', '\\']))
    });
    if has_host { Ok(()) } else { Err("must be an absolute http or https url") }
}
