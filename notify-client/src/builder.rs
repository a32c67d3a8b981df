//! How a client is made, and what both transports take from it: addresses, keys, time limits.

use std::{marker::PhantomData, time::Duration};

use backon::ExponentialBuilder;
use notify_core::{IdempotencyKey, Violations};
use reqwest::{
    Method,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use crate::{
    Error,
    call::{Call, Credential},
};

/// Time to make a connection, unless told otherwise.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Time of one attempt from its start to the last byte of its answer, unless told otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// How often a call is tried again, unless told otherwise.
pub const RETRIES_DEFAULT: usize = 4;
/// Delay before the first retry, unless told otherwise; it doubles with each.
pub const DELAY_MIN_DEFAULT: Duration = Duration::from_millis(250);
/// Longest delay before a retry, unless told otherwise or the server asks for more.
pub const DELAY_MAX_DEFAULT: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes: a page of 1,000 notifications with bodies of 256 KiB.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const USER_AGENT: &str = concat!("notify-client/", env!("CARGO_PKG_VERSION"));

/// Settings of a client to be. `C` is [`crate::Client`] or the blocking one.
#[derive(Debug, Clone)]
pub struct ClientBuilder<C = crate::Client> {
    base_url: String,
    api_key: Option<SecretString>,
    admin_key: Option<SecretString>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    retries: usize,
    delay_min: Duration,
    delay_max: Duration,
    pub(crate) user_agent: String,
    pub(crate) root_certificates: Vec<Vec<u8>>,
    client: PhantomData<fn() -> C>,
}

impl<C> ClientBuilder<C> {
    pub(crate) fn new(base_url: &str) -> Self {
        Self {
            base_url: base_url.to_owned(),
            api_key: None,
            admin_key: None,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            timeout: TIMEOUT_DEFAULT,
            retries: RETRIES_DEFAULT,
            delay_min: DELAY_MIN_DEFAULT,
            delay_max: DELAY_MAX_DEFAULT,
            user_agent: USER_AGENT.to_owned(),
            root_certificates: Vec::new(),
            client: PhantomData,
        }
    }

    /// The application's key, for everything but [`crate::Client::admin`].
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into().into());
        self
    }

    /// The administrator's key, for [`crate::Client::admin`].
    #[must_use]
    pub fn admin_key(mut self, key: impl Into<String>) -> Self {
        self.admin_key = Some(key.into().into());
        self
    }

    /// Time to make a connection.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Time of one attempt, from its start to the last byte of its answer.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// How often a call is tried again at most; 0 for never.
    #[must_use]
    pub fn retries(mut self, times: usize) -> Self {
        self.retries = times;
        self
    }

    /// Delay before the first retry, which doubles with each, and the longest one. A longer
    /// `Retry-After` of the server counts more, up to [`crate::RETRY_AFTER_MAX`].
    #[must_use]
    pub fn retry_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.delay_min = first;
        self.delay_max = longest;
        self
    }

    /// What the client calls itself; the default is `notify-client/` and its version.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Trusts the certificates of this PEM text beside the system's, for a server whose
    /// certificate an own authority signed.
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(pem.into());
        self
    }

    /// Checks the settings that both transports share.
    pub(crate) fn shared(&self) -> Result<Shared, Error> {
        Ok(Shared {
            base_url: base_url(&self.base_url)?,
            api_key: self.api_key.as_ref().map(|key| secret_header(key, "")).transpose()?,
            admin_key: self
                .admin_key
                .as_ref()
                .map(|key| secret_header(key, "Bearer "))
                .transpose()?,
            delays: ExponentialBuilder::new()
                .with_min_delay(self.delay_min)
                .with_max_delay(self.delay_max)
                .with_max_times(self.retries)
                .with_jitter(),
        })
    }
}

/// Builds the HTTP client of either transport. A macro, since their builders are two types with
/// the same methods. A redirect is not followed: it would carry the key to another place.
macro_rules! http_client {
    ($builder:expr, $settings:expr, $shared:expr) => {{
        let settings = $settings;
        let builder = $builder
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            .user_agent(settings.user_agent.as_str())
            .redirect(reqwest::redirect::Policy::none());
        #[cfg(any(feature = "rustls", feature = "native-tls"))]
        let builder = {
            let mut certificates = Vec::new();
            for pem in &settings.root_certificates {
                let bundle = reqwest::Certificate::from_pem_bundle(pem);
                certificates
                    .extend(bundle.map_err(|error| $crate::builder::bad_certificate(&error))?);
            }
            if $shared.base_url.scheme() == "http" {
                // Without TLS no certificate is needed, and a machine without any must do.
                builder.tls_certs_only(Vec::new())
            } else {
                builder.tls_certs_merge(certificates)
            }
        };
        builder.build().map_err(|error| $crate::builder::bad_client(&error))?
    }};
}
pub(crate) use http_client;

#[cfg(any(feature = "rustls", feature = "native-tls"))]
pub(crate) fn bad_certificate(error: &reqwest::Error) -> Error {
    Error::Config(format!("root certificate: {}", chain(error)))
}

pub(crate) fn bad_client(error: &reqwest::Error) -> Error {
    Error::Config(format!("cannot build the client: {}", chain(error)))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

/// What both transports share: it makes requests of calls, and sends none.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) base_url: Url,
    api_key: Option<HeaderValue>,
    admin_key: Option<HeaderValue>,
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
        let (name, value, what) = match call.credential {
            Credential::App => (API_KEY, &self.api_key, "API key"),
            Credential::Admin => (header::AUTHORIZATION, &self.admin_key, "admin key"),
        };
        headers.insert(name, value.clone().ok_or(Error::NoKey(what))?);
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

    /// Each segment is encoded as one, whatever it holds: `/`, `%` and `?` included (B6).
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

fn base_url(text: &str) -> Result<Url, Error> {
    let wrong = |what: &str| Error::Config(format!("base url `{text}`: {what}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::Config("base url: must not hold a user or password".to_owned()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must not have a query or fragment"));
    }
    Ok(url)
}

fn secret_header(key: &SecretString, scheme: &str) -> Result<HeaderValue, Error> {
    // The error must not repeat the key.
    let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.expose_secret().trim()))
        .map_err(|_| Error::Config("a key must be visible ASCII characters".to_owned()))?;
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
