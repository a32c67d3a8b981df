//! Web access: the pages that may subscribe browsers without an API key.

use askama::Template;
use http::Method;
use notify_core::{ProviderKind, ProviderView, SetWebAccess, Success, WebAccess};
use warp::reply::Response;

use super::doctor::name_of;
use crate::api::console::calls::AppScope;
use crate::api::console::form::Form;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/web", web_access),
        action("/console/apps/{app}/web", set),
        action("/console/apps/{app}/web/off", switch_off),
    ]
}

#[derive(Template)]
#[template(path = "web_access.html")]
struct Page {
    layout: Layout,
    base: String,
    argument: String,
    problems: Problems,
    is_on: bool,
    has_webpush: bool,
    origins: String,
    tags: String,
    services: String,
    page_snippet: String,
    worker_snippet: String,
}

async fn web_access(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&page(&visit, &scope, Problems::default()).await?)
}

async fn page(visit: &Visit, scope: &AppScope, problems: Problems) -> Result<Page, ApiError> {
    let layout = visit.app_layout(scope, "Web access", "Web access").await?;
    let app = format!("/admin/v1/apps/{}", scope.app.id);
    let access = found(visit.admin::<WebAccess>(&format!("{app}/web")).await)?;
    let webpush = format!("{app}/providers/{}", ProviderKind::WebPush);
    let webpush = found(visit.admin::<ProviderView>(&webpush).await)?;
    let public = &visit.ctx.api.public_url;
    let is_on = access.is_some();
    let WebAccess { allowed_origins, allowed_tags, push_services } = access.unwrap_or_default();
    Ok(Page {
        base: base_of(&layout, scope),
        argument: name_of(&layout, &scope.app).argument,
        layout,
        problems,
        is_on,
        has_webpush: webpush.is_some(),
        origins: allowed_origins.join("\n"),
        tags: allowed_tags.join("\n"),
        services: push_services.join("\n"),
        page_snippet: format!(
            "<script src=\"{public}/sdk/notify.js\"></script>\n<script>\n  Notify.init({{ app: '{}' \
             }});\n  document.querySelector('#bell').onclick = () => Notify.subscribe();\n</script>",
            scope.app.id
        ),
        worker_snippet: format!("importScripts('{public}/sdk/notify-sw.js');"),
    })
}

/// An answer of the API; `None` for 404.
fn found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(ApiError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lines of a text that are not empty.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

async fn set(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let services = lines(form.text("push_services"));
    let request = SetWebAccess {
        allowed_origins: lines(form.text("allowed_origins")),
        allowed_tags: Some(lines(form.text("allowed_tags"))),
        // None are those of the known browsers.
        push_services: Some(services).filter(|services| !services.is_empty()),
    };
    let path = format!("/admin/v1/apps/{}/web", scope.app.id);
    match visit.change_admin(Method::PUT, &path, &request).await {
        Ok(Success { .. }) => Ok(redirect("web?done=saved")),
        Err(error) => {
            let shown = page(&visit, &scope, Problems::of(error)?).await?;
            let text = |name: &str| form.text(name).to_owned();
            show(&Page {
                origins: text("allowed_origins"),
                tags: text("allowed_tags"),
                services: text("push_services"),
                ..shown
            })
        }
    }
}

async fn switch_off(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/admin/v1/apps/{}/web", scope.app.id);
    let Success { .. } = visit.change_admin(Method::DELETE, &path, &()).await?;
    Ok(redirect("../web?done=saved"))
}
