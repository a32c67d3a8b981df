//! Submitted forms (`application/x-www-form-urlencoded`).

use bytes::Bytes;

use crate::api::error::ApiError;
use crate::api::request_ctx::decode_pairs;

/// The fields of a form, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Parses the body of a request.
    pub(super) fn parse(body: &Bytes) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body)
            .map_err(|_| ApiError::invalid("form", "must be percent-encoded UTF-8"))?;
        Ok(Self(decode_pairs(text)?))
    }

    /// The first value of a field without surrounding space; empty if the form does not have it.
    pub(super) fn text(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value.trim())
    }

    /// The first value of a field as it was entered, with `\n` at the end of its lines; empty if the form does
    /// not have it.
    pub(super) fn lines(&self, name: &str) -> String {
        self.all(name).next().unwrap_or_default().replace("\r\n", "\n")
    }

    /// All values of a field, such as the boxes that are ticked.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// As [`Self::text`], but `None` if the value is empty.
    pub(super) fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }
}
