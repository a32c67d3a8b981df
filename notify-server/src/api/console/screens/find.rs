//! The box that finds the page of any id.

use askama::Template;
use http::StatusCode;
use notify_core::{AdminKeyList, App, AppId, FeedList, KeyList, SessionList};
use serde_json::Value;
use uuid::Uuid;
use warp::reply::Response;

use crate::api::console::calls::{AppScope, encoded};
use crate::api::console::page::{Layout, redirect, render};
use crate::api::console::screen::screen;
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;
use crate::keys::KeyKind;

/// What an application has under `/v1/{name}/{id}`, with a page at `apps/{app}/{name}/{id}`. A poll has the
/// id of its notification, whose page leads to it.
const RESOURCES: [&str; 5] = ["notifications", "devices", "users", "campaigns", "webhooks"];
/// The resources whose ids an application chooses.
const NAMED_RESOURCES: usize = 3;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![screen("/console/find", find)]
}

#[derive(Template)]
#[template(path = "find.html")]
struct NotFound {
    layout: Layout,
    id: String,
    app: Option<App>,
    is_key: bool,
}

/// Redirects to the page of an id. The ids of the current application come first, then those of the
/// installation, then those of the other applications.
async fn find(visit: Visit) -> Result<Response, ApiError> {
    let id = visit.query("id")?.trim().to_owned();
    let app = visit.query("app")?.parse::<AppId>().ok();
    let current = match app {
        Some(app) => visit.scope_of(app).await.ok(),
        None => None,
    };
    let is_key = KeyKind::ALL.iter().any(|kind| id.starts_with(kind.prefix()));
    if !id.is_empty() && !is_key {
        if let Some(scope) = &current
            && let Some(page) = in_app(&visit, scope, &id).await?
        {
            return Ok(redirect(&page));
        }
        if let Some(page) = in_installation(&visit, &id).await? {
            return Ok(redirect(&page));
        }
    }
    let layout = match &current {
        Some(scope) => visit.app_layout(scope, "Find", "").await?,
        None => visit.layout("Find", "").await?,
    };
    if !id.is_empty() && !is_key {
        for other in &layout.apps {
            if Some(other.id) == app {
                continue;
            }
            let scope = visit.scope_of(other.id).await?;
            if let Some(page) = in_app(&visit, &scope, &id).await? {
                return Ok(redirect(&page));
            }
        }
    }
    // A key is a secret, so the page does not show it again.
    let id = if is_key { String::new() } else { id };
    let page = NotFound { layout, id, app: current.map(|scope| scope.app), is_key };
    Ok(render(&page, StatusCode::NOT_FOUND))
}

/// The page of an application, an admin key or a session.
async fn in_installation(visit: &Visit, id: &str) -> Result<Option<String>, ApiError> {
    let Ok(id) = id.parse::<Uuid>() else { return Ok(None) };
    if exists(visit.admin::<App>(&format!("/admin/v1/apps/{id}")).await)? {
        return Ok(Some(format!("apps/{id}")));
    }
    let AdminKeyList { keys } = visit.admin("/admin/v1/keys").await?;
    let SessionList { sessions, .. } = visit.admin("/admin/v1/sessions").await?;
    let is_key = keys.iter().any(|key| key.id.0 == id);
    let is_session = sessions.iter().any(|session| session.id.0 == id);
    Ok((is_key || is_session).then(|| "keys".to_owned()))
}

/// The page of something that an application has.
async fn in_app(visit: &Visit, scope: &AppScope, id: &str) -> Result<Option<String>, ApiError> {
    let app = scope.app.id;
    let uuid = id.parse::<Uuid>().ok();
    let resources = if uuid.is_some() { RESOURCES.len() } else { NAMED_RESOURCES };
    for resource in &RESOURCES[..resources] {
        let path = format!("/v1/{resource}/{}", encoded(id));
        if exists(visit.get::<Value>(scope, &path).await)? {
            return Ok(Some(format!("apps/{app}/{resource}/{}", encoded(id))));
        }
    }
    let Some(uuid) = uuid else { return Ok(None) };
    let KeyList { keys } = visit.admin(&format!("/admin/v1/apps/{app}/keys")).await?;
    if keys.iter().any(|key| key.id.0 == uuid) {
        return Ok(Some(format!("apps/{app}#keys")));
    }
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/feeds?limit=1000&cursor={cursor}");
        let list: FeedList = visit.get(scope, &path).await?;
        if list.feeds.iter().any(|feed| feed.id.0 == uuid) {
            return Ok(Some(format!("apps/{app}/feeds/{uuid}")));
        }
        let Some(next) = list.next_cursor else { return Ok(None) };
        cursor = encoded(&next);
    }
}

/// Whether the API knows an id. An id that the API does not accept names nothing.
fn exists<T>(answer: Result<T, ApiError>) -> Result<bool, ApiError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_client_error() => Ok(false),
        Err(error) => Err(error),
    }
}
