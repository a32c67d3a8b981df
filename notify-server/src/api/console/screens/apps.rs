//! The Dashboard of an application with its API keys, and its settings.

use askama::Template;
use http::Method;
use notify_core::{
    App, AppStatus, CreateKey, DeviceStatistics, Key, KeyCreated, KeyId, KeyList, NotificationDay,
    NotificationList, NotificationStatistics, ProviderList, Success, UpdateApp,
};
use warp::reply::Response;

use super::notifications::Row;
use crate::api::console::calls::AppScope;
use crate::api::console::form::Form;
use crate::api::console::format;
use crate::api::console::page::{Layout, Visit, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::{action, screen};
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// The days of the chart on the Dashboard.
const CHART_DAYS: i64 = 30;
const DAY_MS: i64 = 86_400_000;
/// The notifications on the Dashboard.
const LAST_NOTIFICATIONS: u32 = 5;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}", show_dashboard),
        action("/console/apps/{app}/keys", create_key),
        action("/console/apps/{app}/keys/{key}/revoke", revoke_key),
        screen("/console/apps/{app}/settings", settings),
        action("/console/apps/{app}/settings", update),
        action("/console/apps/{app}/status", set_status),
        action("/console/apps/{app}/delete", delete),
    ]
}

#[derive(Template)]
#[template(path = "dashboard.html")]
struct Dashboard {
    layout: Layout,
    scope: AppScope,
    created: Option<CreatedKey>,
    steps: Vec<Step>,
    devices: Vec<DeviceRow>,
    devices_total: String,
    days: Vec<DayRow>,
    chart: String,
    sent_total: String,
    opened_total: String,
    first_day: String,
    last_day: String,
    keys: Vec<Key>,
    notifications: Vec<Row>,
}

/// An API key that was just created, which only this response shows.
struct CreatedKey {
    name: String,
    secret: String,
    example: String,
}

/// A step towards the first notification.
struct Step {
    text: &'static str,
    is_done: bool,
}

struct DeviceRow {
    platform: &'static str,
    enabled: String,
    disabled: String,
}

struct DayRow {
    date: String,
    sent: u64,
    opened: u64,
}

async fn show_dashboard(visit: Visit) -> Result<Response, ApiError> {
    dashboard(visit, None).await
}

async fn dashboard(visit: Visit, created: Option<CreatedKey>) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Dashboard", "Dashboard").await?;
    let app = format!("/admin/v1/apps/{}", scope.app.id);
    let KeyList { keys } = visit.admin(&format!("{app}/keys")).await?;
    let ProviderList { providers } = visit.admin(&format!("{app}/providers")).await?;
    let devices: DeviceStatistics = visit.get(&scope, "/v1/statistics/devices").await?;
    let from = visit.ctx.received_at.plus_ms(-(CHART_DAYS - 1) * DAY_MS);
    let path = format!("/v1/statistics/notifications?date_from={from}");
    let statistics: NotificationStatistics = visit.get(&scope, &path).await?;
    let path = format!("/v1/notifications?limit={LAST_NOTIFICATIONS}");
    let list: NotificationList = visit.get(&scope, &path).await?;
    let steps = first_steps(&keys, !providers.is_empty(), devices.total > 0, &list);
    let sent: Vec<u64> = statistics.days.iter().map(|day| day.sent).collect();
    let opened: u64 = statistics.days.iter().map(|day| day.opened).sum();
    let day =
        |day: Option<&NotificationDay>| day.map(|day| format::day(&day.date)).unwrap_or_default();
    let page = Dashboard {
        sent_total: format::number(&sent.iter().sum()),
        opened_total: format::number(&opened),
        first_day: day(statistics.days.first()),
        last_day: day(statistics.days.last()),
        chart: format::bars("Sent messages by day; the table below has the numbers", &sent),
        days: statistics
            .days
            .iter()
            .rev()
            .map(|day| DayRow { date: format::day(&day.date), sent: day.sent, opened: day.opened })
            .collect(),
        devices_total: format::number(&devices.total),
        devices: devices
            .platforms
            .iter()
            .map(|row| DeviceRow {
                platform: row.platform.as_str(),
                enabled: format::number(&row.enabled_count),
                disabled: format::number(&row.disabled_count),
            })
            .collect(),
        notifications: list.notifications.iter().map(Row::of).collect(),
        layout,
        scope,
        created,
        steps,
        keys,
    };
    show(&page)
}

/// The steps to a first notification; empty once something was sent.
fn first_steps(
    keys: &[Key],
    has_provider: bool,
    has_device: bool,
    list: &NotificationList,
) -> Vec<Step> {
    if list.notifications.iter().any(|notification| notification.counts.sent > 0) {
        return Vec::new();
    }
    vec![
        Step { text: "Create an API key for your backend", is_done: !keys.is_empty() },
        Step { text: "Configure a provider", is_done: has_provider },
        Step { text: "Register a device", is_done: has_device },
        Step { text: "Send a notification", is_done: !list.notifications.is_empty() },
    ]
}

async fn create_key(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/admin/v1/apps/{}/keys", scope.app.id);
    let name = form.optional("name");
    let request = CreateKey { name: name.clone() };
    let key: KeyCreated = visit.change_admin(Method::POST, &path, &request).await?;
    let example =
        format!("curl {}/v1/devices -H 'X-API-Key: {}'", visit.ctx.api.public_url, key.api_key);
    let name = name.unwrap_or_else(|| "without a name".to_owned());
    dashboard(visit, Some(CreatedKey { name, secret: key.api_key, example })).await
}

async fn revoke_key(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let key: KeyId = visit.ctx.id("key")?;
    let path = format!("/admin/v1/apps/{}/keys/{key}", scope.app.id);
    let Success { .. } = visit.change_admin(Method::DELETE, &path, &()).await?;
    Ok(redirect(&format!("../../../{}?done=revoked", scope.app.id)))
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    layout: Layout,
    scope: AppScope,
    problems: Problems,
    name: String,
    language: String,
    is_suspended: bool,
}

impl Settings {
    async fn of(visit: &Visit, scope: AppScope, problems: Problems) -> Result<Self, ApiError> {
        let layout = visit.app_layout(&scope, "Settings", "Settings").await?;
        let App { name, language, status, .. } = scope.app.clone();
        let is_suspended = status == AppStatus::Suspended;
        Ok(Self { layout, scope, problems, name, language, is_suspended })
    }
}

async fn settings(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&Settings::of(&visit, scope, Problems::default()).await?)
}

async fn update(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let (name, language) = (form.text("name").to_owned(), form.text("language").to_owned());
    let request =
        UpdateApp { name: Some(name.clone()), language: Some(language.clone()), status: None };
    let path = format!("/admin/v1/apps/{}", scope.app.id);
    match visit.change_admin(Method::PATCH, &path, &request).await {
        Ok(Success { .. }) => Ok(redirect("settings?done=saved")),
        Err(error) => {
            let page = Settings::of(&visit, scope, Problems::of(error)?).await?;
            show(&Settings { name, language, ..page })
        }
    }
}

async fn set_status(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let request =
        UpdateApp { status: Some(form.text("status").to_owned()), ..UpdateApp::default() };
    let path = format!("/admin/v1/apps/{}", scope.app.id);
    let Success { .. } = visit.change_admin(Method::PATCH, &path, &request).await?;
    Ok(redirect("settings?done=saved"))
}

async fn delete(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    if form.text("confirm") != scope.app.name.trim() {
        let error = ApiError::invalid("confirm", "must be the name of the application");
        let page = Settings::of(&visit, scope, Problems::of(error)?).await?;
        return show(&page);
    }
    let path = format!("/admin/v1/apps/{}", scope.app.id);
    let Success { .. } = visit.change_admin(Method::DELETE, &path, &()).await?;
    Ok(redirect("../../?done=deleted"))
}
