//! Notifications: the list, the outcome of one, its deliveries, and the explanation for a device.

use askama::Template;
use http::Method;
use notify_core::{
    Counts, Delivery, DeliveryList, DeliveryOutcome, Device, DeviceId, ExplainedOutcome,
    ExplainedStep, ExplainedSummary, Explanation, NotificationList, NotificationRecord,
    NotificationStatus, NotificationUser, NotificationUsers, ProviderKind, StepKind, Success,
    Timestamp, UserCounts, UserState, beginning,
};
use warp::reply::Response;

use crate::api::console::calls::{AppScope, encoded, with_query};
use crate::api::console::form::Form;
use crate::api::console::format;
use crate::api::console::format::title_of;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;
use crate::playground;

/// The longest text of a notification in a list, in characters.
const TEXT_CHARS_MAX: usize = 80;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/notifications", list),
        screen("/console/apps/{app}/notifications/{id}", notification),
        action("/console/apps/{app}/notifications/{id}/pause", pause),
        action("/console/apps/{app}/notifications/{id}/resume", resume),
        action("/console/apps/{app}/notifications/{id}/cancel", cancel),
        screen("/console/apps/{app}/notifications/{id}/deliveries", deliveries),
        screen("/console/apps/{app}/notifications/{id}/users", users),
        screen("/console/apps/{app}/notifications/{id}/explain", explain),
    ]
}

/// A notification in a list.
pub(super) struct Row {
    pub(super) path_id: String,
    pub(super) text: String,
    pub(super) status: &'static str,
    pub(super) tone: &'static str,
    pub(super) created_at: Timestamp,
    pub(super) sent: String,
    /// Failed, unregistered and expired deliveries.
    pub(super) lost: String,
}

impl Row {
    pub(super) fn of(record: &NotificationRecord) -> Self {
        let counts = &record.counts;
        Self {
            path_id: encoded(record.id.as_str()),
            text: text_of(record),
            status: record.status.as_str(),
            tone: tone_of(record.status),
            created_at: record.created_at,
            sent: format::number(&counts.sent),
            lost: format::number(&(counts.failed + counts.unregistered + counts.expired)),
        }
    }
}

/// The text of a notification, or its id if it has no text.
fn text_of(record: &NotificationRecord) -> String {
    let request: serde_json::Value =
        serde_json::from_str(record.request.as_str()).unwrap_or_default();
    let text = request["text"].as_str().or(request["poll"]["text"].as_str()).unwrap_or_default();
    let text = if text.trim().is_empty() { record.id.as_str() } else { text };
    let mut shown = beginning(text, TEXT_CHARS_MAX).to_owned();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn tone_of(status: NotificationStatus) -> &'static str {
    match status {
        NotificationStatus::Completed => "good",
        NotificationStatus::Sending | NotificationStatus::Queued => "busy",
        NotificationStatus::Canceled => "bad",
        NotificationStatus::Scheduled | NotificationStatus::Reported => "",
    }
}

#[derive(Template)]
#[template(path = "notifications.html")]
struct List {
    layout: Layout,
    scope: AppScope,
    status: String,
    statuses: &'static [&'static str],
    notifications: Vec<Row>,
    next: Option<String>,
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Notifications", "Notifications").await?;
    let status = visit.query("status")?;
    let query = [("cursor", &*visit.query("cursor")?), ("status", &status)];
    let path = with_query("/v1/notifications", &query);
    let page: NotificationList = visit.get(&scope, &path).await?;
    let notifications = page.notifications.iter().map(Row::of).collect();
    let statuses = &NotificationStatus::NAMES;
    show(&List { layout, scope, status, statuses, notifications, next: page.next_cursor })
}

#[derive(Template)]
#[template(path = "notification.html")]
struct Notification {
    layout: Layout,
    base: String,
    path_id: String,
    text: String,
    tone: &'static str,
    /// Whether it has not ended, so that the page refreshes itself and can cancel it.
    is_open: bool,
    /// When it is due, if that was later than the request.
    scheduled_for: Option<Timestamp>,
    /// Whether the application is the playground's.
    is_playground: bool,
    counts: Vec<Count>,
    /// The numbers of users by state; empty if the request names no users.
    users: Vec<Count>,
    /// The condition of the audience, as an expression.
    audience: Option<String>,
    request: String,
    record: NotificationRecord,
    /// The device id in the form that asks for an explanation.
    device: String,
    /// Why there is no explanation for this device.
    problem: Option<String>,
}

/// One of the counts of a notification.
struct Count {
    name: &'static str,
    value: u64,
}

impl Count {
    /// Whether deliveries can be listed by this name.
    fn is_outcome(&self) -> bool {
        self.name.parse::<DeliveryOutcome>().is_ok()
    }

    /// Whether this is the name of a state of users, by which they can be listed.
    fn is_state(&self) -> bool {
        self.name.parse::<UserState>().is_ok()
    }
}

fn user_counts_of(users: &UserCounts) -> Vec<Count> {
    [
        ("named", users.named),
        ("reached", users.reached),
        ("unreached", users.unreached),
        ("pending", users.pending),
        ("unknown", users.unknown),
    ]
    .map(|(name, value)| Count { name, value })
    .into_iter()
    .collect()
}

fn counts_of(counts: &Counts) -> Vec<Count> {
    [
        ("targeted", counts.targeted),
        ("sent", counts.sent),
        ("failed", counts.failed),
        ("unregistered", counts.unregistered),
        ("expired", counts.expired),
        ("canceled", counts.canceled),
        ("pending", counts.pending),
        ("unknown", counts.unknown),
        ("excluded", counts.excluded),
    ]
    .map(|(name, value)| Count { name, value })
    .into_iter()
    .collect()
}

async fn notification(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&notification_page(&visit, &scope, String::new(), None).await?)
}

async fn notification_page(
    visit: &Visit,
    scope: &AppScope,
    device: String,
    problem: Option<String>,
) -> Result<Notification, ApiError> {
    let layout = visit.app_layout(scope, "Notification", "Notifications").await?;
    let path_id = encoded(&visit.ctx.path_param("id")?);
    let record: NotificationRecord =
        visit.get(scope, &format!("/v1/notifications/{path_id}")).await?;
    Ok(Notification {
        base: base_of(&layout, scope),
        text: text_of(&record),
        tone: tone_of(record.status),
        is_open: matches!(
            record.status,
            NotificationStatus::Scheduled
                | NotificationStatus::Queued
                | NotificationStatus::Sending
        ),
        scheduled_for: record.send_at.filter(|at| *at > record.created_at),
        is_playground: playground::owns(scope.app.id),
        counts: counts_of(&record.counts),
        users: record.users.as_ref().map(user_counts_of).unwrap_or_default(),
        audience: record.audience.as_ref().map(ToString::to_string),
        request: format::pretty_json(record.request.as_str()),
        layout,
        path_id,
        record,
        device,
        problem,
    })
}

async fn pause(visit: Visit, _: Form) -> Result<Response, ApiError> {
    change(visit, "pause", "paused").await
}

async fn resume(visit: Visit, _: Form) -> Result<Response, ApiError> {
    change(visit, "resume", "continued").await
}

/// Pauses or resumes the notification.
async fn change(visit: Visit, what: &str, done: &str) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path_id = encoded(&visit.ctx.path_param("id")?);
    let path = format!("/v1/notifications/{path_id}/{what}");
    let Success { .. } = visit.change(&scope, Method::POST, &path, &(), None).await?;
    Ok(redirect(&format!("../{path_id}?done={done}")))
}

async fn cancel(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path_id = encoded(&visit.ctx.path_param("id")?);
    let path = format!("/v1/notifications/{path_id}");
    let Success { .. } = visit.change(&scope, Method::DELETE, &path, &(), None).await?;
    Ok(redirect(&format!("../{path_id}?done=canceled")))
}

#[derive(Template)]
#[template(path = "deliveries.html")]
struct Deliveries {
    layout: Layout,
    base: String,
    path_id: String,
    id: String,
    outcome: String,
    reason: String,
    outcomes: &'static [&'static str],
    deliveries: Vec<DeliveryRow>,
    next: Option<String>,
}

struct DeliveryRow {
    delivery: Delivery,
    device_path: String,
}

impl DeliveryRow {
    fn of(delivery: Delivery) -> Self {
        let device = delivery.device_id.as_ref();
        let device_path = device.map(|id| encoded(id.as_str())).unwrap_or_default();
        Self { delivery, device_path }
    }

    fn platform(&self) -> &'static str {
        format::platform(&self.delivery.platform)
    }

    fn tone(&self) -> &'static str {
        match self.delivery.outcome {
            DeliveryOutcome::Sent => "good",
            DeliveryOutcome::Pending => "busy",
            DeliveryOutcome::Failed
            | DeliveryOutcome::Unregistered
            | DeliveryOutcome::Expired
            | DeliveryOutcome::Canceled => "bad",
        }
    }
}

async fn deliveries(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Deliveries", "Notifications").await?;
    let id = visit.ctx.path_param("id")?.into_owned();
    let path_id = encoded(&id);
    let (outcome, reason) = (visit.query("outcome")?, visit.query("reason")?);
    let path = with_query(
        &format!("/v1/notifications/{path_id}/deliveries"),
        &[("cursor", &visit.query("cursor")?), ("outcome", &outcome), ("reason", &reason)],
    );
    let page: DeliveryList = visit.get(&scope, &path).await?;
    let page = Deliveries {
        base: base_of(&layout, &scope),
        layout,
        path_id,
        id,
        outcome,
        reason,
        outcomes: &DeliveryOutcome::NAMES,
        deliveries: page.deliveries.into_iter().map(DeliveryRow::of).collect(),
        next: page.next_cursor,
    };
    show(&page)
}

#[derive(Template)]
#[template(path = "notification_users.html")]
struct Users {
    layout: Layout,
    base: String,
    path_id: String,
    id: String,
    state: String,
    states: &'static [&'static str],
    users: Vec<UserRow>,
    next: Option<String>,
}

struct UserRow {
    user: NotificationUser,
    user_path: String,
}

impl UserRow {
    fn of(user: NotificationUser) -> Self {
        let user_path = user.user_id.as_ref().map(|id| encoded(id.as_str())).unwrap_or_default();
        Self { user, user_path }
    }

    fn tone(&self) -> &'static str {
        match self.user.state {
            UserState::Reached => "good",
            UserState::Pending => "busy",
            UserState::Unreached | UserState::Unknown => "bad",
        }
    }

    /// Whether the user existed when the notification became due.
    fn is_known(&self) -> bool {
        self.user.state != UserState::Unknown
    }
}

async fn users(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Users", "Notifications").await?;
    let id = visit.ctx.path_param("id")?.into_owned();
    let (path_id, state) = (encoded(&id), visit.query("state")?);
    let path = with_query(
        &format!("/v1/notifications/{path_id}/users"),
        &[("cursor", &visit.query("cursor")?), ("state", &state)],
    );
    let page: NotificationUsers = visit.get(&scope, &path).await?;
    show(&Users {
        base: base_of(&layout, &scope),
        layout,
        path_id,
        id,
        state,
        states: &UserState::NAMES,
        users: page.users.into_iter().map(UserRow::of).collect(),
        next: page.next_cursor,
    })
}

#[derive(Template)]
#[template(path = "explain.html")]
struct Explained {
    layout: Layout,
    base: String,
    path_id: String,
    id: String,
    device_path: String,
    explanation: Explanation,
    summary: ExplainedSummary,
    tone: &'static str,
    remedy: Option<Remedy>,
}

/// Where the cause of an outcome can be corrected.
struct Remedy {
    text: String,
    /// The address, relative to the pages of the application.
    path: String,
}

/// Where an operator can correct what a step of an explanation says; `None` if there is nothing to correct.
fn remedy(step: StepKind, provider: ProviderKind, id: &str, device: &str) -> Option<Remedy> {
    use StepKind as Step;
    let (text, path) = match step {
        Step::ProviderNotConfigured => {
            (format!("Configure {}", title_of(provider)), format!("providers/{provider}"))
        }
        Step::CredentialsRefused | Step::Paused | Step::Failed => {
            (format!("Check {}", title_of(provider)), format!("providers/{provider}"))
        }
        Step::LacksTag => ("Add the tag".to_owned(), format!("devices/{device}#tags")),
        Step::FailsAudience
        | Step::Language
        | Step::UserChanged
        | Step::Disabled
        | Step::AddressDead
        | Step::NoAddress
        | Step::AddressMoved
        | Step::AddressUnusable
        | Step::PassedOver
        | Step::Unregistered => ("See the device".to_owned(), format!("devices/{device}")),
        Step::NotTargeted | Step::RegisteredLater => {
            ("Send to this device".to_owned(), format!("send?device={device}"))
        }
        Step::Expired | Step::Canceled | Step::CancelRequested => {
            ("Send it again".to_owned(), format!("send?from={id}"))
        }
        Step::Accepted
        | Step::Reported
        | Step::Scheduled
        | Step::Started
        | Step::Targeted
        | Step::HasTag
        | Step::Enabled
        | Step::HasAddress
        | Step::Canary
        | Step::Waiting
        | Step::Attempted
        | Step::NextAttempt
        | Step::Sent => return None,
    };
    Some(Remedy { text, path })
}

/// The class of the badge of an outcome for one device.
pub(super) fn tone_of_outcome(outcome: ExplainedOutcome) -> &'static str {
    match outcome {
        ExplainedOutcome::Sent => "good",
        ExplainedOutcome::Pending => "busy",
        ExplainedOutcome::Failed
        | ExplainedOutcome::Unregistered
        | ExplainedOutcome::Expired
        | ExplainedOutcome::Canceled => "bad",
        ExplainedOutcome::NotTargeted | ExplainedOutcome::Reported => "",
    }
}

async fn explain(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let id = visit.ctx.path_param("id")?.into_owned();
    let path_id = encoded(&id);
    let device = visit.query("device")?;
    if let Err(rule) = DeviceId::new(device.clone()) {
        let problem = format!("the device id {rule}");
        return show(&notification_page(&visit, &scope, device, Some(problem)).await?);
    }
    let device_path = encoded(&device);
    let path = format!("/v1/notifications/{path_id}/explain/{device_path}");
    let explanation: Explanation = match visit.get(&scope, &path).await {
        // If it is the notification that does not exist, its page fails with the same error.
        Err(ApiError::NotFound) => {
            let problem = format!("no device has the id `{device}`");
            return show(&notification_page(&visit, &scope, device, Some(problem)).await?);
        }
        explanation => explanation?,
    };
    let layout = visit.app_layout(&scope, "Why?", "Notifications").await?;
    let device: Device = visit.get(&scope, &format!("/v1/devices/{device_path}")).await?;
    let (base, summary) = (base_of(&layout, &scope), explanation.summary());
    let provider = device.platform.provider();
    // A pause of the provider has no time.
    let is_paused = |step: &ExplainedStep| step.what == StepKind::Paused && step.at.is_some();
    let remedy = if explanation.steps.iter().any(is_paused) {
        let text = "Resume the notification".to_owned();
        Some(Remedy { text, path: format!("notifications/{path_id}#cancel") })
    } else {
        summary.step.and_then(|step| remedy(step, provider, &path_id, &device_path))
    };
    let page = Explained {
        tone: tone_of_outcome(explanation.outcome),
        remedy,
        layout,
        base,
        path_id,
        id,
        device_path,
        explanation,
        summary,
    };
    show(&page)
}
