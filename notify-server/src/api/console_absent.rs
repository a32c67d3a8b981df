//! In place of the console, in a server that was built without the cargo feature `console`.

use http::HeaderMap;
use warp::Reply;
use warp::reply::Response;

use crate::api::caller::ConsoleSession;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;
use crate::api::{Api, KeyCache};
use crate::store::StoreError;

/// The path below which the console would be.
pub(crate) const AREA: &str = "/console";
/// The largest form. Nothing accepts one.
pub(crate) const FORM_BYTES_MAX: usize = 1_024;

impl ConsoleSession {
    /// Whether the session has not ended.
    #[expect(clippy::unused_async, reason = "the signature of the console's function")]
    pub(crate) async fn is_valid(&self, _: &Api) -> Result<bool, StoreError> {
        match *self {}
    }
}

/// There are no pages.
pub(crate) fn routes() -> Vec<Endpoint> {
    Vec::new()
}

/// There are no pages.
pub(crate) fn own_address_routes() -> Vec<Endpoint> {
    Vec::new()
}

/// There are no sessions.
#[expect(clippy::unused_async, reason = "the signature of the console's function")]
pub(crate) async fn session_of(
    _: &Api,
    _: &KeyCache,
    _: &HeaderMap,
) -> Result<Option<ConsoleSession>, ApiError> {
    Ok(None)
}

/// The error as JSON.
pub(crate) fn error_page(error: ApiError, _: &str, _: &str) -> Response {
    error.into_response()
}
