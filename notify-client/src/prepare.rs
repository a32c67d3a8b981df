//! From a call to the request that is sent: address, path, headers. It sends none.

use backon::ExponentialBuilder;
use notify_core::{IdempotencyKey, Violations};
use reqwest::{
    Method,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::{
    Error, KeyKind,
    call::{Call, Credential},
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What an admin key stands behind.
pub(crate) const BEARER: &str = "Bearer ";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const NO_SCHEME: &str = "must begin with http:// or https://";

/// What both transports share: it makes requests of calls, and sends none.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) base_url: Url,
    pub(crate) api_key: Option<HeaderValue>,
    pub(crate) admin_key: Option<HeaderValue>,
    pub(crate) delays: ExponentialBuilder,
}

/// A request ready to be sent, as often as needed.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
}

impl Shared {
    /// Makes the request of a call. The `Idempotency-Key` is fixed here, ahead of the attempts.
    pub(crate) fn prepare<T>(&self, call: &Call<T>, key: Option<&str>) -> Result<Prepared, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let needed = match call.credential {
            Credential::App => Some((API_KEY, &self.api_key, (KeyKind::Api, KeyKind::Admin))),
            Credential::Admin => {
                Some((header::AUTHORIZATION, &self.admin_key, (KeyKind::Admin, KeyKind::Api)))
            }
            Credential::None => None,
        };
        if let Some((name, value, (kind, other))) = needed {
            let value = value.clone().ok_or(Error::NoKey(kind))?;
            let bytes = value.as_bytes();
            let key = bytes.strip_prefix(BEARER.as_bytes()).unwrap_or(bytes);
            if key.starts_with(other.prefix().as_bytes()) {
                return Err(Error::OtherKey(kind));
            }
            headers.insert(name, value);
        }
        if call.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if call.keyed() {
            headers.insert(IDEMPOTENCY_KEY, idempotency_key(key)?);
        }
        if let Some(etag) = &call.if_none_match {
            headers.insert(header::IF_NONE_MATCH, header_value("If-None-Match", etag)?);
        }
        Ok(Prepared {
            method: call.method.clone(),
            url: self.url(call),
            headers,
            body: call.body.clone(),
        })
    }

    /// Each segment is encoded as one, whatever it holds: `/`, `%` and `?` included.
    fn url<T>(&self, call: &Call<T>) -> Url {
        let mut url = self.base_url.clone();
        url.path_segments_mut()
            .expect("the base url is http or https, which have paths")
            .pop_if_empty()
            .extend(&call.segments);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        url
    }
}

/// Reads the address of a server: an origin, with a path where a proxy puts one before it.
pub(crate) fn base_url(text: &str) -> Result<Url, Error> {
    let wrong = |what: &str| Error::config(format!("base url `{text}`: {what}"));
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => wrong(NO_SCHEME),
        other => wrong(&other.to_string()),
    })?;
    // Ahead of the rules whose text repeats the url.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::config("base url: must not hold a user or password"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(NO_SCHEME));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must not have a query or fragment"));
    }
    Ok(url)
}

/// Makes the header of a key, which no `Debug` shows.
pub(crate) fn secret_header(key: &SecretString, scheme: &str) -> Result<HeaderValue, Error> {
    // The error must not repeat the key.
    let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.expose_secret().trim()))
        .map_err(|_| Error::config("a key must be visible ASCII characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn idempotency_key(given: Option<&str>) -> Result<HeaderValue, Error> {
    let Some(key) = given else {
        let made = uuid::Uuid::now_v7().hyphenated().to_string();
        return header_value("Idempotency-Key", &made);
    };
    let key = IdempotencyKey::new(key.as_bytes()).map_err(Error::Invalid)?;
    header_value("Idempotency-Key", key.as_str())
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    let rule = "must be visible ASCII characters";
    HeaderValue::from_str(value).map_err(|_| Error::Invalid(Violations::one(name, rule)))
}

#[cfg(test)]
mod tests;
