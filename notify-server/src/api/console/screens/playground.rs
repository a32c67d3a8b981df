//! The playground: its devices, and what its fake providers received.

use std::collections::HashMap;

use askama::Template;
use http::Method;
use notify_core::{
    Device, DeviceId, DeviceList, Platform, Playground, PlaygroundAnswer, PlaygroundDevice,
    PlaygroundMessage, PlaygroundMessageList, SetPlaygroundAnswer, Success, Timestamp,
};
use serde_json::Value;
use warp::reply::Response;

use crate::api::console::calls::encoded;
use crate::api::console::drawing::Drawing;
use crate::api::console::form::Form;
use crate::api::console::format;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

const PLAYGROUND: &str = "/admin/v1/playground";
/// The messages that the page draws at first.
const MESSAGES_FIRST: usize = 12;
/// The devices whose state the page reads. The playground starts with six.
const DEVICES_MAX: u32 = 1_000;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/playground", playground),
        action("/console/playground/start", start),
        action("/console/playground/stop", stop),
        action("/console/playground/devices/{device}/answer", set_answer),
    ]
}

#[derive(Template)]
#[template(path = "playground.html")]
struct PlaygroundPage {
    layout: Layout,
    problems: Problems,
    /// Whether this server was built with the sandbox.
    is_built: bool,
    running: Option<Running>,
}

struct Running {
    base: String,
    started_at: Timestamp,
    devices: Vec<DeviceRow>,
    /// The platforms of the devices, as a query of the send page names them.
    platforms: String,
    messages: Vec<MessageView>,
    /// The number of messages that the page does not draw.
    left_out: usize,
}

/// A device with which the playground started.
struct DeviceRow {
    device: PlaygroundDevice,
    path_id: String,
    state: &'static str,
    tone: &'static str,
    answers: &'static [Answer],
}

/// An answer that can be set for the next message.
struct Answer {
    name: &'static str,
    label: &'static str,
}

const ANSWERS: [Answer; 5] = [
    // No answer is set.
    Answer { name: "", label: "as described" },
    Answer { name: PlaygroundAnswer::Ok.as_str(), label: "accept it" },
    Answer { name: PlaygroundAnswer::Slow.as_str(), label: "accept it after 3 seconds" },
    Answer { name: PlaygroundAnswer::Unavailable.as_str(), label: "fail (503)" },
    Answer { name: PlaygroundAnswer::Unregistered.as_str(), label: "unregistered" },
];

impl DeviceRow {
    fn of(device: PlaygroundDevice, known: &HashMap<DeviceId, Device>) -> Self {
        let (state, tone) = match known.get(&device.device_id) {
            None => ("erased", "bad"),
            Some(Device { disabled_reason: Some(reason), .. }) => (reason.as_str(), "bad"),
            Some(_) => ("enabled", "good"),
        };
        // No message reaches a device that is disabled or erased.
        let answers = if tone == "good" { &ANSWERS[..] } else { &[] };
        Self { path_id: encoded(device.device_id.as_str()), device, state, tone, answers }
    }

    /// Its behaviour: the description after the kind of device.
    fn behaviour(&self) -> &str {
        let description = &self.device.description;
        description.split_once(": ").map_or(description, |(_, behaviour)| behaviour)
    }
}

/// A message that a fake provider received.
struct MessageView {
    message: PlaygroundMessage,
    label: &'static str,
    drawing: Drawing,
    payload: String,
    device_path: String,
    /// The id of the notification in a path; empty if the message does not have it.
    notification_path: String,
}

impl MessageView {
    fn of(message: PlaygroundMessage, app: &str) -> Self {
        let payload = &message.payload;
        let id = match message.platform {
            Platform::Android => &payload["message"]["data"]["notification_id"],
            Platform::Ios => &payload["notification_id"],
            Platform::Web | Platform::FbMessenger | Platform::ChatApp => &Value::Null,
        };
        let device = message.device_id.as_ref();
        Self {
            label: format::platform(&message.platform),
            drawing: Drawing::of(message.platform, payload, app),
            payload: format::pretty_json(&payload.to_string()),
            device_path: device.map(|id| encoded(id.as_str())).unwrap_or_default(),
            notification_path: id.as_str().map(encoded).unwrap_or_default(),
            message,
        }
    }

    /// Whether the provider answered with an error, so that the device shows nothing.
    fn is_refused(&self) -> bool {
        self.message.answer.status != 200
    }

    fn tone(&self) -> &'static str {
        if self.is_refused() { "bad" } else { "good" }
    }

    /// Whether the page can explain what happened to the message.
    fn has_explanation(&self) -> bool {
        !self.device_path.is_empty() && !self.notification_path.is_empty()
    }
}

async fn playground(visit: Visit) -> Result<Response, ApiError> {
    page(visit, Problems::default()).await
}

async fn page(visit: Visit, problems: Problems) -> Result<Response, ApiError> {
    let layout = visit.layout("Playground", "Playground").await?;
    let running = match visit.admin(PLAYGROUND).await {
        Ok(playground) => running(&visit, &layout, playground).await,
        Err(error) => Err(error),
    };
    let running = match running {
        Ok(running) => Some(running),
        // It does not run, or another operator stopped it.
        Err(ApiError::NotFound) => None,
        Err(error) => return Err(error),
    };
    show(&PlaygroundPage { layout, problems, is_built: cfg!(feature = "sandbox"), running })
}

async fn running(
    visit: &Visit,
    layout: &Layout,
    playground: Playground,
) -> Result<Running, ApiError> {
    let scope = visit.scope_of(playground.app_id).await?;
    let path = format!("/v1/devices?limit={DEVICES_MAX}");
    let DeviceList { devices: known, .. } = visit.get(&scope, &path).await?;
    let known = known.into_iter().map(|device| (device.device_id.clone(), device)).collect();
    let path = format!("{PLAYGROUND}/messages");
    let PlaygroundMessageList { messages } = visit.admin(&path).await?;
    let drawn = if visit.query("all")?.is_empty() { MESSAGES_FIRST } else { messages.len() };
    let mut platforms: Vec<&str> = Vec::new();
    for device in &playground.devices {
        if !platforms.contains(&device.platform.as_str()) {
            platforms.push(device.platform.as_str());
        }
    }
    Ok(Running {
        base: format!("{}apps/{}", layout.root, scope.app.id),
        started_at: playground.started_at,
        platforms: platforms.join(","),
        left_out: messages.len().saturating_sub(drawn),
        messages: messages
            .into_iter()
            .take(drawn)
            .map(|message| MessageView::of(message, &scope.app.name))
            .collect(),
        devices: playground
            .devices
            .into_iter()
            .map(|device| DeviceRow::of(device, &known))
            .collect(),
    })
}

async fn start(visit: Visit, _: Form) -> Result<Response, ApiError> {
    match visit.change_admin::<Playground>(Method::POST, PLAYGROUND, &()).await {
        Ok(_) => Ok(redirect("../playground?done=started")),
        Err(error) => page(visit, Problems::of(error)?).await,
    }
}

async fn stop(visit: Visit, _: Form) -> Result<Response, ApiError> {
    match visit.change_admin::<Success>(Method::DELETE, PLAYGROUND, &()).await {
        // Another operator may have been faster.
        Ok(_) | Err(ApiError::NotFound) => Ok(redirect("../playground?done=stopped")),
        Err(error) => Err(error),
    }
}

async fn set_answer(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let device = encoded(&visit.ctx.path_param("device")?);
    let path = format!("{PLAYGROUND}/devices/{device}/answer");
    if form.text("answer").is_empty() {
        return Ok(redirect("../../../playground"));
    }
    let request = SetPlaygroundAnswer { answer: form.text("answer").to_owned() };
    match visit.change_admin::<Success>(Method::PUT, &path, &request).await {
        Ok(_) => Ok(redirect("../../../playground?done=scripted")),
        Err(error) => page(visit, Problems::of(error)?).await,
    }
}
