//! The Dashboard of an application with its API keys, and its settings.

use askama::Template;
use http::Method;
use notify_core::{
    ApiKey, ApiKeyKind, App, AppStatus, CreateKey, DeviceStatistics, KeyCreated, KeyId, KeyList,
    KeyScope, NotificationDay, NotificationList, NotificationStatistics, OnCrash, ProviderList,
    RotateKey, Success, Timestamp, UpdateApp,
};
use warp::reply::Response;

use super::devices::register_example;
use super::notifications::Row;
use crate::api::console::calls::AppScope;
use crate::api::console::form::Form;
use crate::api::console::format;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// The choice of days of the chart on the Dashboard; the first one is the default.
const CHART_DAYS: [i64; 3] = [30, 90, 366];
const DAY_MS: i64 = 86_400_000;
/// The choice of lifetimes of a new key, in days, and how the form names them; the first one is the default.
const LIFETIMES: [(&str, &str); 5] = [
    ("", "never"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("365", "in 365 days"),
    ("730", "in 730 days"),
];
/// The choice of overlaps of a rotation, in hours, and how the form names them; the first one is the default.
const OVERLAPS: [(&str, &str); 4] =
    [("24", "one day"), ("168", "one week"), ("720", "30 days"), ("0", "no time: at once")];
/// The notifications on the Dashboard.
const LAST_NOTIFICATIONS: u32 = 5;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}", show_dashboard),
        action("/console/apps/{app}", create_key),
        action("/console/apps/{app}/keys/{key}/rotate", rotate_key),
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
    /// The number of days of the chart.
    day_count: i64,
    day_choice: [i64; 3],
    days: Vec<DayRow>,
    totals: Totals,
    chart: String,
    first_day: String,
    last_day: String,
    keys: Vec<KeyRow>,
    new_key: NewKeyForm,
    lifetimes: [(&'static str, &'static str); LIFETIMES.len()],
    overlaps: [(&'static str, &'static str); OVERLAPS.len()],
    notifications: Vec<Row>,
}

/// An API key that was just created, which only this response shows.
struct CreatedKey {
    name: String,
    secret: String,
    /// A request that registers a device, if the key may do that.
    example: Option<String>,
}

/// An API key of the list.
struct KeyRow {
    key: ApiKey,
    /// What the key may do, in words.
    scopes: String,
    has_expired: bool,
}

impl KeyRow {
    fn of(key: ApiKey, now: Timestamp) -> Self {
        let has_expired = key.expires_at.is_some_and(|expires_at| expires_at <= now);
        let names: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let has_all = names.len() == KeyScope::ALL.len();
        let scopes = match key.kind {
            ApiKeyKind::Publishable => "register devices of apps".to_owned(),
            ApiKeyKind::Secret if has_all => "everything".to_owned(),
            ApiKeyKind::Secret => names.join(", "),
        };
        Self { key, scopes, has_expired }
    }
}

/// The form of a new API key.
struct NewKeyForm {
    problems: Problems,
    name: String,
    scopes: Vec<ScopeBox>,
    /// The chosen lifetime.
    lifetime: String,
    is_publishable: bool,
    /// The tags that apps may set, one a line.
    tags: String,
    /// The attributes that apps may set, one a line.
    attributes: String,
}

/// The box of a scope in the form of a new key.
struct ScopeBox {
    name: &'static str,
    about: &'static str,
    is_ticked: bool,
}

impl NewKeyForm {
    /// The form as it was submitted.
    fn of(form: &Form, ticked: &[String], problems: Problems) -> Self {
        let scopes = KeyScope::ALL.map(|scope| ScopeBox {
            name: scope.as_str(),
            about: match scope {
                KeyScope::Read => "read everything; the addresses of devices only with “devices”",
                KeyScope::Send => "create, preview and cancel notifications",
                KeyScope::Devices => "change devices, tags, attributes and users; report events",
                KeyScope::Content => "change campaigns, feeds and segments",
                KeyScope::Webhooks => "change webhooks",
            },
            is_ticked: ticked.iter().any(|name| name == scope.as_str()),
        });
        Self {
            problems,
            name: form.text("name").to_owned(),
            scopes: scopes.into(),
            lifetime: form.text("lifetime").to_owned(),
            is_publishable: form.text("kind") == ApiKeyKind::Publishable.as_str(),
            tags: form.lines("allowed_tags"),
            attributes: form.lines("allowed_attributes"),
        }
    }

    /// The form before anything is entered. A key may do everything unless the operator limits it.
    fn blank() -> Self {
        let all = KeyScope::NAMES.map(str::to_owned);
        Self::of(&Form::default(), &all, Problems::default())
    }
}

/// A step towards the first notification.
struct Step {
    text: &'static str,
    /// The page below the application.
    path: &'static str,
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
    failed: u64,
    unregistered: u64,
    expired: u64,
    opened: u64,
}

/// The sums of the days.
struct Totals {
    sent: String,
    lost: String,
    opened: String,
}

async fn show_dashboard(visit: Visit) -> Result<Response, ApiError> {
    dashboard(visit, None, NewKeyForm::blank()).await
}

async fn dashboard(
    visit: Visit,
    created: Option<CreatedKey>,
    new_key: NewKeyForm,
) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Dashboard", "Dashboard").await?;
    let app = format!("/admin/v1/apps/{}", scope.app.id);
    let KeyList { keys } = visit.admin(&format!("{app}/keys")).await?;
    let ProviderList { providers } = visit.admin(&format!("{app}/providers")).await?;
    let devices: DeviceStatistics = visit.get(&scope, "/v1/statistics/devices").await?;
    let asked = visit.query("days")?.parse().ok();
    let day_count = asked.filter(|days| CHART_DAYS.contains(days)).unwrap_or(CHART_DAYS[0]);
    let from = visit.ctx.received_at.plus_ms(-(day_count - 1) * DAY_MS);
    let path = format!("/v1/statistics/notifications?date_from={from}");
    let statistics: NotificationStatistics = visit.get(&scope, &path).await?;
    let path = format!("/v1/notifications?limit={LAST_NOTIFICATIONS}");
    let list: NotificationList = visit.get(&scope, &path).await?;
    let steps = first_steps(&keys, !providers.is_empty(), devices.total > 0, &list);
    let day =
        |day: Option<&NotificationDay>| day.map(|day| format::day(&day.date)).unwrap_or_default();
    let now = visit.ctx.received_at;
    let page = Dashboard {
        first_day: day(statistics.days.first()),
        last_day: day(statistics.days.last()),
        day_count,
        day_choice: CHART_DAYS,
        chart: chart_of(&statistics),
        totals: Totals {
            sent: format::number(&statistics.total_sent),
            lost: format::number(
                &(statistics.total_failed
                    + statistics.total_unregistered
                    + statistics.total_expired),
            ),
            opened: format::number(&statistics.total_opened),
        },
        days: statistics.days.iter().rev().filter_map(DayRow::of).collect(),
        devices_total: format::number(&devices.total),
        devices: devices
            .platforms
            .iter()
            .map(|row| DeviceRow {
                platform: format::platform(&row.platform),
                enabled: format::number(&row.enabled_count),
                disabled: format::number(&row.disabled_count),
            })
            .collect(),
        notifications: list.notifications.iter().map(Row::of).collect(),
        layout,
        scope,
        created,
        steps,
        keys: keys.into_iter().map(|key| KeyRow::of(key, now)).collect(),
        new_key,
        lifetimes: LIFETIMES,
        overlaps: OVERLAPS,
    };
    show(&page)
}

impl DayRow {
    /// A day with any count.
    fn of(day: &NotificationDay) -> Option<Self> {
        let NotificationDay { sent, failed, unregistered, expired, opened, .. } = *day;
        let is_empty = sent + failed + unregistered + expired + opened == 0;
        let date = format::day(&day.date);
        (!is_empty).then_some(Self { date, sent, failed, unregistered, expired, opened })
    }
}

/// Sent messages by day, and above them those that were not delivered.
fn chart_of(statistics: &NotificationStatistics) -> String {
    let bars = statistics.days.iter().map(|day| {
        let lost = day.failed + day.unregistered + day.expired;
        let title = format!("{}: {} sent, {lost} not delivered", format::day(&day.date), day.sent);
        format::Bar { title, parts: [day.sent, lost] }
    });
    let bars: Vec<_> = bars.collect();
    let label = "Messages by day, sent and not delivered; the table below has the numbers";
    format::bars(label, &bars)
}

/// The steps to a first notification; empty once something was sent.
fn first_steps(
    keys: &[ApiKey],
    has_provider: bool,
    has_device: bool,
    list: &NotificationList,
) -> Vec<Step> {
    if list.notifications.iter().any(|notification| notification.counts.sent > 0) {
        return Vec::new();
    }
    let step = |text, path, is_done| Step { text, path, is_done };
    vec![
        step("Create an API key for your backend", "#keys", !keys.is_empty()),
        step("Configure a provider", "/providers", has_provider),
        step("Register a device", "/devices", has_device),
        step("Send a notification", "/send", !list.notifications.is_empty()),
    ]
}

async fn create_key(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/admin/v1/apps/{}/keys", scope.app.id);
    let name = form.optional("name");
    let ticked: Vec<String> = form.all("scopes").map(str::to_owned).collect();
    // All boxes mean everything, including the scopes of later versions.
    let has_all = KeyScope::NAMES.iter().all(|name| ticked.iter().any(|ticked| ticked == name));
    let days = form.text("lifetime").parse::<u16>().ok();
    let expires_at = days.map(|days| visit.ctx.received_at.plus_ms(i64::from(days) * DAY_MS));
    let is_publishable = form.text("kind") == ApiKeyKind::Publishable.as_str();
    let request = if is_publishable {
        CreateKey::publishable(
            lines_of(&form.lines("allowed_tags")),
            lines_of(&form.lines("allowed_attributes")),
        )
    } else {
        CreateKey { scopes: (!has_all).then(|| ticked.clone()), ..CreateKey::default() }
    };
    let request = CreateKey { name: name.clone(), expires_at, ..request };
    let key: KeyCreated = match visit.change_admin(Method::POST, &path, &request).await {
        Ok(key) => key,
        Err(error) => {
            let problems = Problems::of(error)?;
            let form = NewKeyForm::of(&form, &ticked, problems);
            return dashboard(visit, None, form).await;
        }
    };
    let may_register =
        !is_publishable && ticked.iter().any(|name| name == KeyScope::Devices.as_str());
    let example = may_register.then(|| register_example(&visit, &key.api_key));
    let name = name.unwrap_or_else(|| "without a name".to_owned());
    let created = CreatedKey { name, secret: key.api_key, example };
    dashboard(visit, Some(created), NewKeyForm::blank()).await
}

/// The lines of a field that are not blank.
fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

async fn rotate_key(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let key: KeyId = visit.ctx.id("key")?;
    let path = format!("/admin/v1/apps/{}/keys", scope.app.id);
    let hours = form.text("overlap").parse::<u16>().ok();
    let request = RotateKey { overlap_seconds: hours.map(|hours| u32::from(hours) * 3_600) };
    let KeyList { keys } = visit.admin(&path).await?;
    let rotated = keys.into_iter().find(|listed| listed.id == key).ok_or(ApiError::NotFound)?;
    let path = format!("{path}/{key}/rotate");
    let created: KeyCreated = visit.change_admin(Method::POST, &path, &request).await?;
    let may_register = rotated.scopes.contains(&KeyScope::Devices);
    let example = may_register.then(|| register_example(&visit, &created.api_key));
    let name = rotated.name.unwrap_or_else(|| "without a name".to_owned());
    let created = CreatedKey { name, secret: created.api_key, example };
    dashboard(visit, Some(created), NewKeyForm::blank()).await
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
    is_skipping: bool,
}

impl Settings {
    async fn of(visit: &Visit, scope: AppScope, problems: Problems) -> Result<Self, ApiError> {
        let layout = visit.app_layout(&scope, "Settings", "Settings").await?;
        let App { name, language, status, on_crash, .. } = scope.app.clone();
        let is_suspended = status == AppStatus::Suspended;
        let is_skipping = on_crash == OnCrash::Skip;
        Ok(Self { layout, scope, problems, name, language, is_suspended, is_skipping })
    }
}

async fn settings(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&Settings::of(&visit, scope, Problems::default()).await?)
}

async fn update(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let (name, language) = (form.text("name").to_owned(), form.text("language").to_owned());
    let on_crash = form.optional("on_crash");
    let is_skipping = on_crash.as_deref() == Some(OnCrash::Skip.as_str());
    let request = UpdateApp {
        name: Some(name.clone()),
        language: Some(language.clone()),
        status: None,
        on_crash,
    };
    let path = format!("/admin/v1/apps/{}", scope.app.id);
    match visit.change_admin(Method::PATCH, &path, &request).await {
        Ok(Success { .. }) => Ok(redirect("settings?done=saved")),
        Err(error) => {
            let page = Settings::of(&visit, scope, Problems::of(error)?).await?;
            show(&Settings { name, language, is_skipping, ..page })
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
    let (name, id) = (scope.app.name.trim(), scope.app.id.to_string());
    // An application whose name is blank is confirmed by its id.
    if form.text("confirm") != if name.is_empty() { &id } else { name } {
        let error = ApiError::invalid("confirm", "must be the name of the application");
        let page = Settings::of(&visit, scope, Problems::of(error)?).await?;
        return show(&page);
    }
    let path = format!("/admin/v1/apps/{}", scope.app.id);
    let Success { .. } = visit.change_admin(Method::DELETE, &path, &()).await?;
    Ok(redirect("../../?done=deleted"))
}
