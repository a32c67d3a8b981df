//! The HTTP request of a call: url, headers and body.

use backon::ExponentialBuilder;
use notify_core::{IdempotencyKey, Violations};
use reqwest::Method;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::call::{Call, Credential};
use crate::{Error, KeyKind};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The authentication scheme of an admin key.
pub(crate) const BEARER: &str = "Bearer ";
const SCHEME_RULE: &str = "must begin with http:// or https://";

/// Settings that both transports use.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) base_url: Url,
    pub(crate) api_key: Option<HeaderValue>,
    pub(crate) admin_key: Option<HeaderValue>,
    pub(crate) backoff: ExponentialBuilder,
}

/// An HTTP request that each attempt sends unchanged.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
}

impl Config {
    /// Builds the request of a call. All attempts share its `Idempotency-Key`, which is the given key or
    /// a new UUID.
    pub(crate) fn request<T>(
        &self,
        call: &Call<T>,
        idempotency_key: Option<&str>,
    ) -> Result<HttpRequest, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        match call.credential {
            Credential::App => {
                headers.insert(API_KEY, checked_key(self.api_key.as_ref(), KeyKind::Api)?);
            }
            Credential::Admin => {
                let key = checked_key(self.admin_key.as_ref(), KeyKind::Admin)?;
                headers.insert(header::AUTHORIZATION, key);
            }
            Credential::None => {}
        }
        if call.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if call.takes_idempotency_key() {
            headers.insert(IDEMPOTENCY_KEY, idempotency_header(idempotency_key)?);
        }
        if let Some(etag) = &call.if_none_match {
            headers.insert(header::IF_NONE_MATCH, header_value("If-None-Match", etag)?);
        }
        Ok(HttpRequest {
            method: call.method.clone(),
            url: self.url(call),
            headers,
            body: call.body.clone(),
        })
    }

    /// The url of a call. Each segment is percent-encoded, including `/`, `%` and `?`.
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

/// Returns the header with the key of this kind. Fails if the client does not have the key, or if the
/// prefix of the key is that of the other kind.
fn checked_key(header: Option<&HeaderValue>, kind: KeyKind) -> Result<HeaderValue, Error> {
    let header = header.ok_or(Error::MissingKey(kind))?;
    let bytes = header.as_bytes();
    let key = bytes.strip_prefix(BEARER.as_bytes()).unwrap_or(bytes);
    if key.starts_with(kind.other().prefix().as_bytes()) {
        return Err(Error::WrongKey(kind));
    }
    Ok(header.clone())
}

/// Parses the base url of a server: an origin, and a path if a proxy serves the server below that path.
pub(crate) fn parse_base_url(text: &str) -> Result<Url, Error> {
    let invalid = |rule: &str| Error::config(format!("base url `{text}`: {rule}"));
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => invalid(SCHEME_RULE),
        other => invalid(&other.to_string()),
    })?;
    // This rule comes first, because the messages of the other rules would repeat the password.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::config("base url: must not contain a user or password"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(SCHEME_RULE));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("must not have a query or fragment"));
    }
    Ok(url)
}

/// The header value of a key. It is marked as sensitive, so that `Debug` does not show it.
pub(crate) fn secret_header(key: &SecretString, scheme: &str) -> Result<HeaderValue, Error> {
    // The error must not repeat the key.
    if key.expose_secret().contains('…') {
        return Err(Error::config(
            "the key is the placeholder of the documentation: give the key that the server printed at \
             its first start",
        ));
    }
    if key.expose_secret().trim().is_empty() {
        return Err(Error::config("the key is empty: is the variable that holds it set?"));
    }
    let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.expose_secret().trim()))
        .map_err(|_| Error::config("a key must be visible ASCII characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The `Idempotency-Key` header with the given key, or with a new UUID.
fn idempotency_header(given: Option<&str>) -> Result<HeaderValue, Error> {
    let Some(key) = given else {
        let generated = uuid::Uuid::now_v7().hyphenated().to_string();
        return header_value("Idempotency-Key", &generated);
    };
    let key = IdempotencyKey::new(key.as_bytes()).map_err(Error::Invalid)?;
    header_value("Idempotency-Key", key.as_str())
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    let rule = "must be visible ASCII characters";
    HeaderValue::from_str(value).map_err(|_| Error::Invalid(Violations::one(name, rule)))
}

#[cfg(test)]
mod tests {
    use notify_core::Success;

    use super::*;
    use crate::ClientBuilder;

    fn config(base_url: &str) -> Config {
        ClientBuilder::<()>::new(base_url).api_key("nk_secret").config().unwrap()
    }

    #[test]
    fn a_base_url_is_an_http_origin_with_an_optional_path() {
        for good in ["http://127.0.0.1:8080", "https://a.example/", "https://a.example/notify/"] {
            assert!(parse_base_url(good).is_ok(), "{good}");
        }
        for (bad, message) in [
            ("127.0.0.1:8080", "base url `127.0.0.1:8080`: must begin with http:// or https://"),
            ("localhost:8080", "base url `localhost:8080`: must begin with http:// or https://"),
            ("ftp://a.example", "base url `ftp://a.example`: must begin with http:// or https://"),
            ("https://u:p@a.example", "base url: must not contain a user or password"),
            (
                "https://a.example/?b",
                "base url `https://a.example/?b`: must not have a query or fragment",
            ),
        ] {
            assert_eq!(parse_base_url(bad).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn an_id_stays_one_segment_of_the_path() {
        for (base_url, id, url) in [
            ("http://a", "b", "http://a/v1/devices/b"),
            ("http://a/", "b", "http://a/v1/devices/b"),
            ("http://a/prefix", "b", "http://a/prefix/v1/devices/b"),
            ("http://a/prefix/", "b/c", "http://a/prefix/v1/devices/b%2Fc"),
            ("http://a", "50%", "http://a/v1/devices/50%25"),
            ("http://a", "%2e%2e", "http://a/v1/devices/%252e%252e"),
            ("http://a", "a b?c#d\\e", "http://a/v1/devices/a%20b%3Fc%23d%5Ce"),
            ("http://a", "größe", "http://a/v1/devices/gr%C3%B6%C3%9Fe"),
        ] {
            let call: Call<Success> = Call::v1(Method::GET, &["devices", id]);
            assert_eq!(config(base_url).url(&call).as_str(), url);
        }
    }

    #[test]
    fn debug_output_hides_the_keys() {
        let builder =
            ClientBuilder::<()>::new("http://a").api_key("nk_secret").admin_key("na_secret");
        let config = builder.config().unwrap();
        let call: Call<Success> = Call::v1(Method::GET, &["devices"]);
        let request = config.request(&call, None).unwrap();
        assert_eq!(request.headers["x-api-key"], "nk_secret");
        let debug = format!("{builder:?} {config:?} {request:?}");
        assert!(!debug.contains("_secret"), "{debug}");

        let error = ClientBuilder::<()>::new("http://a").api_key("nk_\n").config().map(drop);
        assert!(error.is_ok(), "white space around a key is trimmed");
        let error =
            ClientBuilder::<()>::new("http://a").api_key("nk_\nsecret").config().unwrap_err();
        assert_eq!(error.to_string(), "a key must be visible ASCII characters");
        let error = ClientBuilder::<()>::new("http://a").api_key("nk_…").config().unwrap_err();
        assert!(error.to_string().starts_with("the key is the placeholder"), "{error}");
    }

    #[test]
    fn an_idempotency_key_is_generated_unless_one_is_given() {
        let generated = idempotency_header(None).unwrap();
        let generated: uuid::Uuid = generated.to_str().unwrap().parse().unwrap();
        assert_eq!(generated.get_version_num(), 7);
        assert_eq!(idempotency_header(Some("order-17")).unwrap(), "order-17");
        for bad in ["", "a b", "ü", "a\n", &"x".repeat(256)] {
            assert!(matches!(idempotency_header(Some(bad)), Err(Error::Invalid(_))), "{bad}");
        }
        assert!(idempotency_header(Some(&"x".repeat(255))).is_ok());
    }
}
