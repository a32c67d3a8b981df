//! Who sent a request.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use notify_core::AppId;

use crate::provider_config::ProviderConfig;
#[cfg(feature = "console")]
use crate::store::SessionAccess;
use crate::store::{AdminKey, AppAccess, AppNo, Requester, WebApp};

/// Headers that a page may read.
const HEADERS_EXPOSED: &str = "etag, retry-after, x-request-id";

/// Who sent a request.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// An application, under `/v1`.
    App(Arc<AppAccess>),
    /// An app with a publishable key, under `/device/v1`.
    DeviceApp(Arc<AppAccess>),
    /// An administrator, under `/admin/v1`.
    Admin(Arc<AdminKey>),
    /// A page in a browser, under `/web/v1`.
    Browser(Arc<WebOrigin>),
    /// A chat platform, under `/hooks`. Messenger's signature covers the body and is not verified
    /// yet.
    Platform(Arc<InboundWebhook>),
    /// A browser on a page of the console; the session if it is signed in.
    Console(Option<Arc<ConsoleSession>>),
    /// Anyone, on all other paths.
    Anonymous,
}

impl Caller {
    /// The origin, if the caller is a page in a browser.
    pub(crate) fn web_origin(&self) -> Option<&Arc<WebOrigin>> {
        match self {
            Self::Browser(origin) => Some(origin),
            Self::App(_)
            | Self::DeviceApp(_)
            | Self::Admin(_)
            | Self::Platform(_)
            | Self::Console(_)
            | Self::Anonymous => None,
        }
    }

    /// On whose behalf the store works for the caller.
    pub(crate) fn requester(&self) -> Requester {
        match self {
            Self::App(access) | Self::DeviceApp(access) => Requester::App(access.no),
            Self::Browser(origin) => Requester::App(origin.web.no),
            Self::Platform(webhook) => Requester::App(webhook.app()),
            Self::Admin(_) | Self::Console(_) | Self::Anonymous => Requester::Anyone,
        }
    }
}

/// An origin that an application allows.
#[derive(Debug, Clone)]
pub(crate) struct WebOrigin {
    /// The application's id.
    pub(crate) app: AppId,
    /// What it allows browsers to do.
    pub(crate) web: WebApp,
    /// The origin, as the browser sent it.
    origin: HeaderValue,
}

impl WebOrigin {
    /// Returns the origin together with its application; `None` if the application does not allow
    /// the origin.
    pub(crate) fn authorize(app: AppId, web: &WebApp, origin: HeaderValue) -> Option<Self> {
        let is_allowed = origin.to_str().is_ok_and(|origin| web.access.allows_origin(origin));
        is_allowed.then(|| Self { app, web: web.clone(), origin })
    }

    /// Adds the headers that allow the page to read a response. Credentials are never allowed,
    /// because this API does not use cookies.
    pub(crate) fn add_cors_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone());
        let exposed = HeaderValue::from_static(HEADERS_EXPOSED);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}

/// The session of a signed-in browser.
#[cfg(feature = "console")]
#[derive(Debug)]
pub(crate) struct ConsoleSession {
    /// The stored session.
    pub(crate) access: SessionAccess,
    /// The token that each form of this session contains.
    pub(crate) form_token: String,
    /// The SHA-256 of the cookie's secret, by which the store finds the session.
    pub(crate) hash: [u8; 32],
}

/// There are no sessions.
#[cfg(not(feature = "console"))]
#[derive(Debug)]
pub(crate) enum ConsoleSession {}

/// An inbound webhook: its application and the configuration of its provider.
#[derive(Debug)]
pub(crate) struct InboundWebhook {
    pub(crate) app: AppNo,
    pub(crate) app_id: AppId,
    pub(crate) config: ProviderConfig,
}

impl InboundWebhook {
    /// The application whose webhook it is.
    pub(crate) fn app(&self) -> AppNo {
        self.app
    }

    /// The application, if the head alone authenticates a call. `None` for Messenger, which signs
    /// the body.
    pub(crate) fn authenticated_app(&self) -> Option<AppNo> {
        matches!(self.config, ProviderConfig::Telegram(_)).then_some(self.app)
    }
}
