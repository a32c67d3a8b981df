//! The builder of both clients: base url, keys, time limits.

use std::{marker::PhantomData, time::Duration};

use backon::ExponentialBuilder;
use secrecy::SecretString;

use crate::Error;
use crate::request::{BEARER, Config, parse_base_url, secret_header};

/// Default time limit of connecting.
pub const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
/// Default time limit of one attempt, up to the last byte of its response.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default number of retries.
pub const RETRIES_DEFAULT: usize = 4;
/// Default delay before the first retry; it doubles with each retry.
pub const DELAY_MIN_DEFAULT: Duration = Duration::from_millis(250);
/// Default maximum delay before a retry, unless the server asks for more.
pub const DELAY_MAX_DEFAULT: Duration = Duration::from_secs(10);
/// Largest response that is read, in bytes. A page of 1,000 devices with texts of maximum length takes
/// about 90 MB, without their tags.
pub(crate) const RESPONSE_BYTES_MAX: usize = 256 * 1024 * 1024;

const USER_AGENT: &str = concat!("notify-client/", env!("CARGO_PKG_VERSION"));

/// Builds a client. `C` is [`crate::Client`] or the blocking one.
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

    /// Sets the application's API key, for all calls except those of [`crate::Client::admin`].
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into().into());
        self
    }

    /// Sets the admin key, for [`crate::Client::admin`].
    #[must_use]
    pub fn admin_key(mut self, key: impl Into<String>) -> Self {
        self.admin_key = Some(key.into().into());
        self
    }

    /// Sets the time limit of connecting.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the time limit of one attempt, up to the last byte of its response.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Sets the maximum number of retries; 0 turns retries off.
    #[must_use]
    pub fn retries(mut self, times: usize) -> Self {
        self.retries = times;
        self
    }

    /// Sets the delay before the first retry, which doubles with each retry, and the maximum delay. A
    /// longer `Retry-After` of the server takes precedence, up to [`crate::RETRY_AFTER_MAX`].
    #[must_use]
    pub fn retry_delays(mut self, first: Duration, longest: Duration) -> Self {
        self.delay_min = first;
        self.delay_max = longest;
        self
    }

    /// Sets the `User-Agent`; the default is `notify-client/` and the version.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// Trusts the certificates of this PEM text in addition to the system's, for a server whose
    /// certificate is signed by a private authority.
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(pem.into());
        self
    }

    /// Validates the settings that both transports (asynchronous and blocking) share, and returns them.
    pub(crate) fn config(&self) -> Result<Config, Error> {
        Ok(Config {
            base_url: parse_base_url(&self.base_url)?,
            api_key: self.api_key.as_ref().map(|key| secret_header(key, "")).transpose()?,
            admin_key: self.admin_key.as_ref().map(|key| secret_header(key, BEARER)).transpose()?,
            backoff: ExponentialBuilder::new()
                .with_min_delay(self.delay_min)
                .with_max_delay(self.delay_max)
                .with_max_times(self.retries)
                .with_jitter(),
        })
    }
}

/// Builds the HTTP client of either transport. This is a macro, because the builders of the two
/// transports are different types with the same methods. The client does not follow redirects, which
/// could send the key to another host.
macro_rules! http_client {
    ($builder:expr, $settings:expr, $config:expr) => {{
        let settings = $settings;
        let builder = $builder
            .connect_timeout(settings.connect_timeout)
            .timeout(settings.timeout)
            .user_agent(settings.user_agent.as_str())
            .redirect(reqwest::redirect::Policy::none());
        let builder = if $crate::notify_core::address::is_this_machine(&$config.base_url) {
            builder.no_proxy()
        } else {
            builder
        };
        // With both features, reqwest would take OpenSSL, which reads every certificate of the system for each
        // client, also for one that trusts none of them.
        #[cfg(feature = "rustls")]
        let builder = builder.tls_backend_rustls();
        #[cfg(any(feature = "rustls", feature = "native-tls"))]
        let builder = {
            let mut certificates = Vec::new();
            for pem in &settings.root_certificates {
                certificates.extend($crate::builder::certificates(pem)?);
            }
            if $config.base_url.scheme() == "http" {
                // `http` needs no certificates, and loading them fails on a machine that has none.
                builder.tls_certs_only(Vec::new())
            } else {
                builder.tls_certs_merge(certificates)
            }
        };
        builder.build().map_err($crate::builder::build_error)?
    }};
}
pub(crate) use http_client;

/// Parses the certificates of a PEM text, which must have at least one.
#[cfg(any(feature = "rustls", feature = "native-tls"))]
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<reqwest::Certificate>, Error> {
    let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| {
        let message = "root certificate: cannot be parsed".to_owned();
        Error::Config { message, source: Some(Box::new(error)) }
    })?;
    if certificates.is_empty() {
        return Err(Error::config("root certificate: the text contains no certificate"));
    }
    Ok(certificates)
}

pub(crate) fn build_error(error: reqwest::Error) -> Error {
    let message = "cannot build the client".to_owned();
    Error::Config { message, source: Some(Box::new(error)) }
}
