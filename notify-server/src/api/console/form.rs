//! Submitted forms (`application/x-www-form-urlencoded`).

use bytes::Bytes;
use uuid::Uuid;

use crate::api::error::ApiError;
use crate::api::request_ctx::decode_pairs;

/// The fields of a form, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Form(Vec<(String, String)>);

/// The most fields of a form.
const FIELDS_MAX: usize = 500;

impl Form {
    /// Parses the body of a request.
    pub(super) fn parse(body: &Bytes) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body)
            .map_err(|_| ApiError::invalid("form", "must be percent-encoded UTF-8"))?;
        if text.bytes().filter(|byte| *byte == b'&').count() >= FIELDS_MAX {
            let what = format!("must have at most {FIELDS_MAX} fields");
            return Err(ApiError::invalid("form", &what));
        }
        Ok(Self(decode_pairs(text)?))
    }

    /// All fields.
    pub(super) fn fields(&self) -> &[(String, String)] {
        &self.0
    }

    /// The first value of a field without surrounding space; empty if the form does not have it.
    pub(super) fn text(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// The first value of a field, for names that the page filled in; empty if the form does not have it.
    pub(super) fn exact(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }

    /// The first value of a field as it was entered, with `\n` at the end of its lines; empty if the form does
    /// not have it.
    pub(super) fn lines(&self, name: &str) -> String {
        self.exact(name).replace("\r\n", "\n")
    }

    /// All values of a field, such as the boxes that are ticked.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// As [`Self::text`], but `None` if the value is empty.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// The idempotency key of the form, with which a form that is submitted twice takes effect once.
    pub(super) fn key(&self) -> Option<&str> {
        Some(self.text("key")).filter(|key| !key.is_empty())
    }
}

/// An idempotency key for a form, in its field `key`.
pub(super) fn new_key() -> String {
    Uuid::now_v7().to_string()
}

pub(super) fn optional(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A whole number; adds a problem if the text is something else.
pub(super) fn number(text: &str, path: &str, problems: &mut Vec<String>) -> Option<u32> {
    let number = text.parse().ok();
    if number.is_none() && !text.is_empty() {
        problems.push(format!("{path}: must be a whole number"));
    }
    number
}
