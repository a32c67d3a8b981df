//! Describes the requests of operators for the audit trail.

use http::Method;
use notify_core::{AppId, AuditEntry, AuditSource};

use crate::api::request_ctx::{Caller, RequestCtx};
use crate::api::router::{Endpoint, placeholder, segments};

/// The audit entry of a request with which an administrator changes something; `None` for all other
/// requests. The entry is stored only if the request writes.
pub(super) fn entry(ctx: &RequestCtx, endpoint: &Endpoint) -> Option<AuditEntry> {
    let Caller::Admin(key) = &ctx.caller else { return None };
    if matches!(ctx.parts.method, Method::GET | Method::HEAD) {
        return None;
    }
    let is_below_app = endpoint.path.starts_with("/admin/v1/apps/{id}");
    // The object is the first id in the path that is not the application's.
    let is_app_id = |name: &str| is_below_app && name == "id";
    let object = segments(endpoint.path).filter_map(placeholder).find(|name| !is_app_id(name));
    Some(AuditEntry {
        at: ctx.received_at,
        action: endpoint.docs.operation_id.to_owned(),
        app_id: if is_below_app { ctx.id::<AppId>("id").ok() } else { None },
        object: object.and_then(|name| ctx.path_param(name).ok()).map(Into::into),
        key_id: key.id,
        key_name: key.label.clone(),
        address: ctx.address.to_string(),
        source: AuditSource::Api,
        request_id: ctx.request_id.clone(),
    })
}
