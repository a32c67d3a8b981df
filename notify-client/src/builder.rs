//! How a client is made, and what both transports take from it: addresses, keys, time limits.

use std::{marker::PhantomData, time::Duration};

use backon::ExponentialBuilder;
use secrecy::SecretString;

use crate::{
    Error,
    call::{BEARER, Shared, base_url, secret_header},
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
/// Largest answer that is read, in bytes. A page of 1,000 devices with the longest texts that there
/// can be takes some 90 MB, without their tags.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

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
            admin_key: self.admin_key.as_ref().map(|key| secret_header(key, BEARER)).transpose()?,
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
                certificates.extend($crate::builder::certificates(pem)?);
            }
            if $shared.base_url.scheme() == "http" {
                // Without TLS no certificate is needed, and a machine without any must do.
                builder.tls_certs_only(Vec::new())
            } else {
                builder.tls_certs_merge(certificates)
            }
        };
        builder.build().map_err($crate::builder::bad_client)?
    }};
}
pub(crate) use http_client;

/// The certificates of a PEM text; at least one.
#[cfg(any(feature = "rustls", feature = "native-tls"))]
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<reqwest::Certificate>, Error> {
    let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| {
        let what = "root certificate: cannot be read".to_owned();
        Error::Config { what, source: Some(Box::new(error)) }
    })?;
    if certificates.is_empty() {
        return Err(Error::config("root certificate: there is none in this text"));
    }
    Ok(certificates)
}

pub(crate) fn bad_client(error: reqwest::Error) -> Error {
    let what = "cannot build the client".to_owned();
    Error::Config { what, source: Some(Box::new(error)) }
}
