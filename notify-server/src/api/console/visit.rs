//! A request of an operator.

use std::sync::Arc;

use crate::api::caller::ConsoleSession;
use crate::api::error::ApiError;
use crate::api::request_ctx::RequestCtx;

/// An operator's request, with the operator's session.
pub(super) struct Visit {
    /// The request.
    pub(super) ctx: RequestCtx,
    /// The session.
    pub(super) session: Arc<ConsoleSession>,
}

impl Visit {
    /// A parameter of the query; empty if it is missing.
    pub(super) fn query(&self, name: &str) -> Result<String, ApiError> {
        let given = self.ctx.query()?.into_iter().find(|(given, _)| given == name);
        Ok(given.map(|(_, value)| value).unwrap_or_default())
    }
}
