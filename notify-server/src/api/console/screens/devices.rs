//! Devices and tags.

use askama::Template;
use http::Method;
use notify_core::{
    AppId, Device, DeviceList, DeviceState, ExplainedSummary, Explanation, LogIn, NotificationList,
    Platform, StepKind, Success, TagList, TagSummary,
};
use serde_json::json;
use warp::reply::Response;

use super::attributes::{self, AttributesPart};
use super::notifications::{self, tone_of_outcome};
use crate::api::console::calls::{AppScope, encoded, with_query};
use crate::api::console::form::Form;
use crate::api::console::format;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// The notifications of the application through which the page of a device looks, the newest first. Each needs an
/// explanation, so their number bounds the work of the page.
const SEARCHED_NOTIFICATIONS: u32 = 30;
/// The notifications on the page of a device.
const LAST_NOTIFICATIONS: usize = 10;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/devices", list),
        // The token of a device is a secret, so it is in a form instead of an address.
        action("/console/apps/{app}/devices", find_by_token),
        screen("/console/apps/{app}/devices/{device}", device),
        action("/console/apps/{app}/devices/{device}/tag", add_tag),
        action("/console/apps/{app}/devices/{device}/untag", remove_tag),
        action("/console/apps/{app}/devices/{device}/log-in", log_in),
        action("/console/apps/{app}/devices/{device}/log-out", log_out),
        action("/console/apps/{app}/devices/{device}/attributes", change_attributes),
        action("/console/apps/{app}/devices/{device}/delete", delete),
        screen("/console/apps/{app}/tags", tags),
    ]
}

/// The command that registers a first device.
pub(super) fn register_example(visit: &Visit, api_key: &str) -> String {
    format!(
        "curl {}/v1/devices -H 'X-API-Key: {api_key}' -H 'Content-Type: application/json' \\\n  -d \
         '{{\"device_id\":\"my-phone\",\"platform\":\"android\",\"sdk_type\":\"android_push\",\"push_token\":\"TOKEN\"}}'",
        visit.ctx.api.public_url
    )
}

/// A device in a list.
struct Row {
    device: Device,
    path_id: String,
}

impl Row {
    fn of(device: Device) -> Self {
        let path_id = encoded(device.device_id.as_str());
        Self { device, path_id }
    }

    fn platform(&self) -> &'static str {
        format::platform(&self.device.platform)
    }

    fn state(&self) -> &'static str {
        match self.device.disabled_reason {
            None if self.device.address_problem.is_some() => "unusable address",
            None if self.device.has_address() => "enabled",
            None => "no address",
            Some(reason) => reason.as_str(),
        }
    }

    fn tone(&self) -> &'static str {
        if self.state() == "enabled" { "good" } else { "bad" }
    }
}

#[derive(Template)]
#[template(path = "devices.html")]
struct List {
    layout: Layout,
    base: String,
    platform: String,
    tag: String,
    state: String,
    states: &'static [&'static str],
    segment: String,
    user: String,
    /// The problems of `segment` and `user`.
    problems: Problems,
    /// Whether the list has the devices of a push token.
    is_by_token: bool,
    is_filtered: bool,
    devices: Vec<Row>,
    next: Option<String>,
    app_id: AppId,
    /// The command that registers a first device.
    example: String,
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Devices", "Devices").await?;
    let (platform, tag) = (visit.query("platform")?, visit.query("tag")?);
    let (state, segment) = (visit.query("state")?, visit.query("segment")?);
    let user = visit.query("user")?;
    let path = with_query(
        "/v1/devices",
        &[
            ("cursor", &visit.query("cursor")?),
            ("platform", &platform),
            ("tag", &tag),
            ("state", &state),
            ("segment", &segment),
            ("user_id", &user),
        ],
    );
    let is_of_input =
        |rule: &String| rule.starts_with("segment: ") || rule.starts_with("user_id: ");
    let (page, problems) = match visit.get(&scope, &path).await {
        Ok(page) => (page, Problems::default()),
        Err(ApiError::Invalid(rules)) if rules.iter().all(is_of_input) => {
            (DeviceList { devices: Vec::new(), next_cursor: None }, Problems::new(rules))
        }
        Err(error) => return Err(error),
    };
    let page = List {
        base: base_of(&layout, &scope),
        is_filtered: [&platform, &tag, &state, &segment, &user]
            .iter()
            .any(|filter| !filter.is_empty()),
        states: &DeviceState::NAMES,
        segment,
        user,
        problems,
        is_by_token: false,
        app_id: scope.app.id,
        example: register_example(&visit, "API_KEY"),
        devices: page.devices.into_iter().map(Row::of).collect(),
        next: page.next_cursor,
        layout,
        platform,
        tag,
        state,
    };
    show(&page)
}

/// Shows the device with a push token, or the devices if several have it.
async fn find_by_token(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let token = encoded(form.text("push_token"));
    if token.is_empty() {
        return Ok(redirect("devices"));
    }
    let path = format!("/v1/devices?push_token={token}");
    let DeviceList { devices, .. } = visit.get(&scope, &path).await?;
    if let [device] = &*devices {
        return Ok(redirect(&format!("devices/{}", encoded(device.device_id.as_str()))));
    }
    let layout = visit.app_layout(&scope, "Devices", "Devices").await?;
    let page = List {
        base: base_of(&layout, &scope),
        layout,
        platform: String::new(),
        tag: String::new(),
        state: String::new(),
        states: &DeviceState::NAMES,
        segment: String::new(),
        user: String::new(),
        problems: Problems::default(),
        is_by_token: true,
        app_id: scope.app.id,
        example: String::new(),
        is_filtered: true,
        devices: devices.into_iter().map(Row::of).collect(),
        next: None,
    };
    show(&page)
}

#[derive(Template)]
#[template(path = "device.html")]
struct DevicePage {
    layout: Layout,
    base: String,
    row: Row,
    facts: Vec<Fact>,
    last: Vec<Explained>,
    /// The user who is logged in.
    user: Option<UserLink>,
    attributes: AttributesPart,
    /// The user id in the form that logs the device in.
    user_input: String,
    /// The problems of `user_id`.
    user_problems: Problems,
    /// The problems of tags.
    problems: Problems,
}

/// A link to a user.
struct UserLink {
    id: String,
    path_id: String,
}

/// A notification that reached or missed a device.
struct Explained {
    notification: notifications::Row,
    tone: &'static str,
    summary: ExplainedSummary,
}

/// The last notifications that reached or missed a device. Those to other platforms and to other devices are
/// left out.
async fn last_notifications(
    visit: &Visit,
    scope: &AppScope,
    device: &Device,
) -> Result<Vec<Explained>, ApiError> {
    let path = format!("/v1/notifications?limit={SEARCHED_NOTIFICATIONS}");
    let page: NotificationList = visit.get(scope, &path).await?;
    let device = encoded(device.device_id.as_str());
    let mut last = Vec::new();
    for record in &page.notifications {
        let notification = notifications::Row::of(record);
        let path = format!("/v1/notifications/{}/explain/{device}", notification.path_id);
        let explanation: Explanation = match visit.get(scope, &path).await {
            // The notification was deleted in the meantime.
            Err(ApiError::NotFound) => continue,
            explanation => explanation?,
        };
        if explanation.steps.iter().any(|step| step.what == StepKind::NotTargeted) {
            continue;
        }
        let tone = tone_of_outcome(explanation.outcome);
        last.push(Explained { notification, tone, summary: explanation.summary() });
        if last.len() == LAST_NOTIFICATIONS {
            break;
        }
    }
    Ok(last)
}

/// A field of a device.
struct Fact {
    name: String,
    value: String,
}

/// The fields of a registration that a device has. The address of the device is left out: it is a secret of
/// the device.
fn facts_of(device: &Device) -> Vec<Fact> {
    let details = serde_json::to_value(&device.details).unwrap_or_default();
    let fields = details.as_object().into_iter().flatten();
    let mut facts: Vec<Fact> = fields
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| Fact {
            name: name.clone(),
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        })
        .collect();
    if let Some(problem) = &device.address_problem {
        facts.push(Fact { name: "address_problem".to_owned(), value: problem.clone() });
    }
    if let Some(environment) = device.ios_env {
        facts.push(Fact { name: "ios_env".to_owned(), value: environment.as_str().to_owned() });
    }
    facts
}

async fn device(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&device_page(&visit, &scope).await?)
}

async fn device_page(visit: &Visit, scope: &AppScope) -> Result<DevicePage, ApiError> {
    let layout = visit.app_layout(scope, "Device", "Devices").await?;
    let path = format!("/v1/devices/{}", encoded(&visit.ctx.path_param("device")?));
    let device: Device = visit.get(scope, &path).await?;
    let last = last_notifications(visit, scope, &device).await?;
    let (base, facts) = (base_of(&layout, scope), facts_of(&device));
    let user = device
        .user_id
        .as_ref()
        .map(|id| UserLink { id: id.as_str().to_owned(), path_id: encoded(id.as_str()) });
    let page = format!("{base}/devices/{}", encoded(device.device_id.as_str()));
    Ok(DevicePage {
        attributes: AttributesPart::of(visit, page, &device.attributes)?,
        row: Row::of(device),
        layout,
        base,
        facts,
        last,
        user,
        user_input: String::new(),
        user_problems: Problems::default(),
        problems: Problems::default(),
    })
}

async fn log_in(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let (device, user) = (encoded(&visit.ctx.path_param("device")?), form.text("user_id"));
    let path = format!("/v1/devices/{device}/user");
    match visit.change(&scope, Method::PUT, &path, &LogIn::new(user), None).await {
        Ok(Success { .. }) => Ok(redirect(&format!("../{device}?done=logged-in"))),
        Err(error) => {
            let (user_problems, user_input) = (Problems::of(error)?, user.to_owned());
            let page = device_page(&visit, &scope).await?;
            show(&DevicePage { user_problems, user_input, ..page })
        }
    }
}

async fn log_out(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let device = encoded(&visit.ctx.path_param("device")?);
    let path = format!("/v1/devices/{device}/user");
    let Success { .. } = visit.change(&scope, Method::DELETE, &path, &(), None).await?;
    Ok(redirect(&format!("../{device}?done=logged-out")))
}

async fn change_attributes(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let device = encoded(&visit.ctx.path_param("device")?);
    let path = format!("/v1/devices/{device}/attributes");
    let refused = match attributes::change_of(&form) {
        Ok(change) => match visit.change(&scope, Method::PATCH, &path, &change, None).await {
            Ok(Success { .. }) => return Ok(redirect(&format!("../{device}?done=saved"))),
            Err(error) => attributes::refused(&form, error)?,
        },
        Err(refused) => refused,
    };
    let page = device_page(&visit, &scope).await?;
    show(&DevicePage { attributes: page.attributes.with(refused), ..page })
}

async fn add_tag(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let device = encoded(&visit.ctx.path_param("device")?);
    let body = json!({"tags": [{"name": form.text("name"), "type": "bool", "value": true}]});
    let path = format!("/v1/devices/{device}/tags");
    match visit.change(&scope, Method::POST, &path, &body, None).await {
        Ok(Success { .. }) => Ok(redirect(&format!("../{device}?done=saved"))),
        Err(error) => {
            let problems = Problems::of(error)?;
            show(&DevicePage { problems, ..device_page(&visit, &scope).await? })
        }
    }
}

async fn remove_tag(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let device = encoded(&visit.ctx.path_param("device")?);
    let path = format!("/v1/devices/{device}/tags/{}", encoded(form.exact("name")));
    let Success { .. } = visit.change(&scope, Method::DELETE, &path, &(), None).await?;
    Ok(redirect(&format!("../{device}?done=saved")))
}

async fn delete(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let device = encoded(&visit.ctx.path_param("device")?);
    let path = format!("/v1/devices/{device}");
    let Success { .. } = visit.change(&scope, Method::DELETE, &path, &(), None).await?;
    Ok(redirect("../../devices?done=deleted"))
}

#[derive(Template)]
#[template(path = "tags.html")]
struct Tags {
    layout: Layout,
    base: String,
    tags: Vec<TagSummary>,
    next: Option<String>,
}

async fn tags(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Tags", "Tags").await?;
    let path = format!("/v1/tags?cursor={}", encoded(&visit.query("cursor")?));
    let page: TagList = visit.get(&scope, &path).await?;
    let base = base_of(&layout, &scope);
    show(&Tags { layout, base, tags: page.tags, next: page.next_cursor })
}
