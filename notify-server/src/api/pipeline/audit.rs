//! Describes the requests of operators for the audit trail.

use http::Method;
use notify_core::{AppId, AuditEntry, AuditSource, SessionId};

use crate::api::caller::Caller;
use crate::api::path::{placeholder, segments};
use crate::api::request_ctx::RequestCtx;
use crate::api::router::Endpoint;
use crate::keys::{hex, sha256};
use crate::store::AdminKey;

/// The placeholders in paths for ids that an application chooses and that may identify a person.
const PERSONAL_IDS: [&str; 2] = ["device_id", "user_id"];
/// The hexadecimal digits of a hash in the audit trail.
const DIGITS: usize = 16;

/// Who changes something, and where.
#[derive(Clone, Copy)]
pub(crate) struct Operator<'a> {
    /// The admin key.
    pub(crate) key: &'a AdminKey,
    /// The admin API or the console.
    pub(crate) source: AuditSource,
    /// The application that is changed; `None` for `/admin/v1`, whose paths name it.
    pub(crate) app: Option<AppId>,
}

/// The audit entry of a request to the admin API; `None` for a request that changes nothing. The entry is
/// stored only if the request writes.
pub(super) fn entry_of_admin(ctx: &RequestCtx, endpoint: &Endpoint) -> Option<AuditEntry> {
    let Caller::Admin(key) = &ctx.caller else { return None };
    if matches!(ctx.parts.method, Method::GET | Method::HEAD) {
        return None;
    }
    Some(entry(ctx, endpoint, Operator { key, source: AuditSource::Api, app: None }))
}

/// The audit entry of an operator's request.
pub(crate) fn entry(ctx: &RequestCtx, endpoint: &Endpoint, operator: Operator<'_>) -> AuditEntry {
    let is_below_app = endpoint.path.starts_with("/admin/v1/apps/{id}");
    let app_in_path = || if is_below_app { ctx.id::<AppId>("id").ok() } else { None };
    // The object is the first id in the path that is not the application's.
    let is_app_id = |name: &str| is_below_app && name == "id";
    let object = segments(endpoint.path).filter_map(placeholder).find(|name| !is_app_id(name));
    let object = object.and_then(|name| {
        let id = ctx.path_param(name).ok()?;
        Some(if PERSONAL_IDS.contains(&name) { id_hash(&id) } else { id.into_owned() })
    });
    AuditEntry {
        at: ctx.received_at,
        action: endpoint.docs.operation_id.to_owned(),
        app_id: operator.app.or_else(app_in_path),
        object,
        key_id: operator.key.id,
        key_name: operator.key.label.clone(),
        address: ctx.address.to_string(),
        source: operator.source,
        request_id: ctx.request_id.clone(),
    }
}

/// The audit entry of a sign-in or a sign-out.
#[cfg_attr(not(feature = "console"), expect(dead_code, reason = "only the console has sessions"))]
pub(crate) fn session_entry(
    ctx: &RequestCtx,
    key: &AdminKey,
    action: &str,
    session: SessionId,
) -> AuditEntry {
    AuditEntry {
        at: ctx.received_at,
        action: action.to_owned(),
        app_id: None,
        object: Some(session.to_string()),
        key_id: key.id,
        key_name: key.label.clone(),
        address: ctx.address.to_string(),
        source: AuditSource::Console,
        request_id: ctx.request_id.clone(),
    }
}

/// What the audit trail stores for a device or a user: the start of the SHA-256 of its id. The id may be an
/// e-mail address, which must not stay here when the device or the user is erased.
fn id_hash(id: &str) -> String {
    let hash = hex(&sha256(id.as_bytes()));
    format!("sha256:{}", &hash[..DIGITS])
}
