//! Admin keys, sessions, and the audit trail.

use askama::Template;
use http::Method;
use notify_core::{
    AdminKey, AdminKeyCreated, AdminKeyList, App, AppId, AuditEntry, AuditList, CreateAdminKey,
    KeyId, RenameKey, Session, SessionId, SessionList, Success,
};
use warp::reply::Response;

use crate::api::console::calls::encoded;
use crate::api::console::form::Form;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;
use crate::config::Span;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/keys", show_keys),
        action("/console/keys", create),
        action("/console/keys/{key_id}/rename", rename),
        action("/console/keys/{key_id}/revoke", revoke),
        action("/console/sessions/{session_id}/end", end_session),
        action("/console/sessions/end-others", end_others),
        screen("/console/audit", audit),
    ]
}

#[derive(Template)]
#[template(path = "admin_keys.html")]
struct AdminKeys {
    layout: Layout,
    problems: Problems,
    /// An admin key that was just created, which only this response shows.
    created: Option<String>,
    keys: Vec<AdminKey>,
    /// The key of this session.
    current: KeyId,
    sessions: Vec<SessionRow>,
    /// This session.
    session: SessionId,
    idle_timeout: Span,
    session_timeout: Span,
    next: Option<String>,
}

struct SessionRow {
    session: Session,
    key: String,
}

async fn show_keys(visit: Visit) -> Result<Response, ApiError> {
    keys(visit, None, Problems::default()).await
}

async fn keys(
    visit: Visit,
    created: Option<String>,
    problems: Problems,
) -> Result<Response, ApiError> {
    let layout = visit.layout("Admin keys", "Admin keys").await?;
    let AdminKeyList { keys } = visit.admin("/admin/v1/keys").await?;
    let path = format!("/admin/v1/sessions?cursor={}", encoded(&visit.query("cursor")?));
    let list: SessionList = visit.admin(&path).await?;
    let label = |id: KeyId| {
        let key = keys.iter().find(|key| key.id == id);
        key.map(|key| key.name.clone().unwrap_or_else(|| key.hint.clone())).unwrap_or_default()
    };
    let sessions = list.sessions.into_iter();
    let page = AdminKeys {
        layout,
        problems,
        created,
        current: visit.session.access.key.id,
        session: visit.session.access.id,
        idle_timeout: visit.ctx.api.config.console_idle_timeout,
        session_timeout: visit.ctx.api.config.console_session_timeout,
        sessions: sessions
            .map(|session| SessionRow { key: label(session.key_id), session })
            .collect(),
        next: list.next_cursor,
        keys,
    };
    show(&page)
}

async fn create(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let request = CreateAdminKey { name: form.optional("name") };
    let created = visit.change_admin(Method::POST, "/admin/v1/keys", &request).await;
    match created {
        Ok(AdminKeyCreated { admin_key, .. }) => {
            keys(visit, Some(admin_key), Problems::default()).await
        }
        Err(error) => keys(visit, None, Problems::of(error)?).await,
    }
}

async fn rename(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let path = format!("/admin/v1/keys/{}", visit.ctx.id::<KeyId>("key_id")?);
    let request = RenameKey { name: form.text("name").to_owned() };
    match visit.change_admin(Method::PATCH, &path, &request).await {
        Ok(Success { .. }) => Ok(redirect("../../keys?done=saved")),
        Err(error) => keys(visit, None, Problems::of(error)?).await,
    }
}

async fn revoke(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let path = format!("/admin/v1/keys/{}", visit.ctx.id::<KeyId>("key_id")?);
    match visit.change_admin(Method::DELETE, &path, &()).await {
        Ok(Success { .. }) => Ok(redirect("../../keys?done=revoked")),
        Err(error) => keys(visit, None, Problems::of(error)?).await,
    }
}

async fn end_session(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let path = format!("/admin/v1/sessions/{}", visit.ctx.id::<SessionId>("session_id")?);
    let Success { .. } = visit.change_admin(Method::DELETE, &path, &()).await?;
    Ok(redirect("../../keys?done=ended"))
}

/// The characters of a key's id that the audit trail shows.
const KEY_ID_CHARS: usize = 8;

/// Ends all sessions but this one, the newest hundred at a time.
async fn end_others(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let list: SessionList = visit.admin("/admin/v1/sessions?limit=100").await?;
    for other in list.sessions.iter().filter(|other| other.id != visit.session.access.id) {
        let path = format!("/admin/v1/sessions/{}", other.id);
        match visit.change_admin(Method::DELETE, &path, &()).await {
            // Its operator signed out meanwhile.
            Ok(Success { .. }) | Err(ApiError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(redirect("../keys?done=ended-others"))
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    layout: Layout,
    entries: Vec<AuditRow>,
    is_filtered: bool,
    /// The filter, to append to a query.
    filter: String,
    next: Option<String>,
}

struct AuditRow {
    entry: AuditEntry,
    app_name: String,
    /// The end of the key's id. Names can be changed, and two keys can have the same name.
    key_id: String,
    /// The page of the object, relative to `/console/`.
    page: Option<String>,
}

impl AuditRow {
    /// The hash of the id of the device or the user that is the object.
    fn hash(&self) -> Option<&str> {
        self.entry.object.as_deref()?.strip_prefix("sha256:")
    }

    /// What the hashed id identifies.
    fn hashed(&self) -> &'static str {
        if self.entry.action.ends_with("_user") { "user" } else { "device" }
    }
}

/// The page of the object of an entry, relative to `/console/`. The object may have been deleted since.
fn page_of(entry: &AuditEntry, apps: &[App]) -> Option<String> {
    let object = entry.object.as_ref()?;
    if entry.action.ends_with("_admin_key") {
        return Some("keys".to_owned());
    }
    if entry.action.starts_with("delete_") || object.starts_with("sha256:") {
        return None;
    }
    let object = encoded(object);
    let app = apps.iter().find(|app| Some(app.id) == entry.app_id)?.id;
    let has = |name: &str| entry.action.contains(name);
    if has("_api_key") {
        return Some(format!("apps/{app}#keys"));
    }
    if has("_segment") {
        return Some(format!("apps/{app}/segments/edit?name={object}"));
    }
    let mut pages = [
        ("_notification", "notifications"),
        ("_campaign", "campaigns"),
        ("_feed", "feeds"),
        ("_webhook", "webhooks"),
        ("_provider", "providers"),
        ("_poll", "polls"),
        ("_user", "users"),
    ]
    .into_iter();
    let (_, page) = pages.find(|(name, _)| has(name))?;
    Some(format!("apps/{app}/{page}/{object}"))
}

async fn audit(visit: Visit) -> Result<Response, ApiError> {
    let layout = visit.layout("Audit", "Audit").await?;
    let app = visit.query("app")?;
    let cursor = visit.query("cursor")?;
    let mut path = format!("/admin/v1/audit?cursor={}", encoded(&cursor));
    let mut filter = String::new();
    if !app.is_empty() {
        path.push_str(&format!("&app_id={}", encoded(&app)));
        filter = format!("&app={}", encoded(&app));
    }
    let list: AuditList = visit.admin(&path).await?;
    let name_of = |id: AppId| {
        let app = layout.apps.iter().find(|app| app.id == id);
        app.map_or_else(|| id.to_string(), |app| app.name.clone())
    };
    let entries = list.entries.into_iter();
    let entries = entries
        .map(|entry| {
            let id = entry.key_id.to_string();
            let key_id = format!("…{}", &id[id.len() - KEY_ID_CHARS..]);
            let app_name = entry.app_id.map(name_of).unwrap_or_default();
            AuditRow { app_name, key_id, page: page_of(&entry, &layout.apps), entry }
        })
        .collect();
    let page =
        Audit { entries, is_filtered: !filter.is_empty(), filter, next: list.next_cursor, layout };
    show(&page)
}
