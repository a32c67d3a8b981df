//! Notifications: creating, reporting, reading and cancelling them, and their deliveries.

use std::borrow::Cow;

use notify_core::{
    CampaignRef, Condition, Content, DEVICE_IDS_MAX, DeliveryList, LIMIT_DEFAULT, ListDeliveries,
    ListNotifications, NewPoll, NoBody, NoQuery, Notification, NotificationCreated, NotificationId,
    NotificationList, NotificationRecord, Platform, ProviderKind, Recipients, Report, Schedule,
    Success, Target, Timestamp,
};
use uuid::Uuid;

use super::segments;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::payload::{self, RenderContext};
use crate::provider_config::ProviderConfig;
use crate::store::audit;
use crate::store::{
    DeliveryFilter, Idempotent, NewNotification, NewReport, PageRequest, PollDraft, Reach, Reached,
    StoreError,
};

/// `POST /v1/notifications`.
pub(crate) async fn create(
    ctx: RequestCtx,
    notification: Notification,
) -> Result<JsonReply<NotificationCreated>, ApiError> {
    let id = NotificationId::from(Uuid::now_v7());
    let condition = segments::condition(&ctx, notification.recipients.audience.as_ref()).await?;
    let draft = Draft::new(&ctx, &id, &notification);
    check_payload_size(&ctx, &notification, &draft).await?;
    let poll = draft.poll;
    audit::set_object(&id);
    let accepted = NewNotification {
        id,
        request: ctx.body_text(),
        checked: notification,
        audience: condition.as_ref().map(Condition::to_json),
        poll,
        at: ctx.received_at,
    };
    let idempotency_key = ctx.idempotency_key()?;
    let result = ctx.api.store.accept_notification(ctx.app_no(), accepted, idempotency_key).await?;
    if matches!(result, Idempotent::Executed(_)) {
        ctx.api.metrics.count_notification(ctx.app_no());
    }
    Ok(result.into())
}

/// `POST /v1/notifications/notify`.
pub(crate) async fn report(
    ctx: RequestCtx,
    report: Report,
) -> Result<JsonReply<NotificationCreated>, ApiError> {
    let poll = poll_draft(&report.content);
    let report = NewReport { report, request: ctx.body_text(), poll, at: ctx.received_at };
    let result = ctx.api.store.record_report(ctx.app_no(), report, ctx.idempotency_key()?).await?;
    Ok(result.into())
}

/// `GET /v1/notifications/{id}`.
pub(crate) async fn get(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<NotificationRecord>, ApiError> {
    let id = ctx.notification_id()?;
    Ok(JsonReply::ok(ctx.api.store.notification(ctx.app_no(), id).await?))
}

/// `GET /v1/notifications`.
pub(crate) async fn list(
    ctx: RequestCtx,
    query: ListNotifications,
) -> Result<JsonReply<NotificationList>, ApiError> {
    let request = PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor };
    let page = ctx.api.store.list_notifications(ctx.app_no(), query.status, request).await?;
    Ok(JsonReply::ok(NotificationList { notifications: page.rows, next_cursor: page.next }))
}

/// `DELETE /v1/notifications/{id}`.
pub(crate) async fn cancel(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let id = ctx.notification_id()?;
    ctx.api.store.cancel_notification(ctx.app_no(), id, ctx.received_at).await?;
    Ok(JsonReply::success())
}

/// `POST /v1/notifications/{id}/pause`.
pub(crate) async fn pause(ctx: RequestCtx, _: NoBody) -> Result<JsonReply<Success>, ApiError> {
    let (id, once, at) = (ctx.notification_id()?, ctx.idempotency_key()?, ctx.received_at);
    Ok(ctx.api.store.pause_notification(ctx.app_no(), id, at, once).await?.into())
}

/// `POST /v1/notifications/{id}/resume`.
pub(crate) async fn resume(ctx: RequestCtx, _: NoBody) -> Result<JsonReply<Success>, ApiError> {
    let (id, once, at) = (ctx.notification_id()?, ctx.idempotency_key()?, ctx.received_at);
    Ok(ctx.api.store.resume_notification(ctx.app_no(), id, at, once).await?.into())
}

/// A notification with everything that its payloads are rendered from.
pub(super) struct Draft<'a> {
    id: &'a NotificationId,
    app_name: &'a str,
    notification: &'a Notification,
    /// The content for devices without attributes.
    content: Cow<'a, Content>,
    /// The poll of the notification, if it has one.
    pub(super) poll: Option<PollDraft>,
    poll_url: Option<String>,
    due_at: Timestamp,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        ctx: &'a RequestCtx,
        id: &'a NotificationId,
        notification: &'a Notification,
    ) -> Self {
        let poll = poll_draft(&notification.content);
        let poll_url = poll.as_ref().map(|poll| ctx.api.poll_url(poll.public_id));
        let due_at = match notification.schedule {
            // A notification with `send_at_local` is due zone by zone, and not before now.
            Schedule::Now | Schedule::Local(_) => ctx.received_at,
            Schedule::At(at) => at,
        };
        let content = &notification.content;
        let content = if content.is_personal() {
            Cow::Owned(content.with_defaults())
        } else {
            Cow::Borrowed(content)
        };
        Self { id, app_name: &ctx.app().name, notification, content, poll, poll_url, due_at }
    }

    /// When the notification is due; now, if it has a local time.
    pub(super) fn due_at(&self) -> Timestamp {
        self.due_at
    }

    pub(super) fn render_context(&self) -> RenderContext<'_> {
        let Self { id, app_name, notification, content, due_at, .. } = self;
        RenderContext {
            poll_url: self.poll_url.as_deref(),
            poll_answers: self.poll.as_ref().map_or(&[], |poll| poll.answers.as_slice()),
            ..RenderContext::of(id, app_name, notification, content, *due_at)
        }
    }
}

/// Refuses a notification whose payload is larger than a targeted provider accepts.
async fn check_payload_size(
    ctx: &RequestCtx,
    notification: &Notification,
    draft: &Draft<'_>,
) -> Result<(), ApiError> {
    let targeted = targeted_platforms(ctx, &notification.recipients.target).await?;
    check_silent(notification, &targeted)?;
    let is_enriched = notification.content.campaign().is_some() || draft.poll.is_some();
    let is_data_message =
        is_enriched && targeted.contains(&Platform::Android) && fcm_enriched_as_data(ctx).await?;
    let context = draft.render_context();
    let mut violations: Vec<String> = Vec::new();
    if let Err(too_large) = payload::check_size(&context, &targeted, is_data_message) {
        violations.extend(too_large.iter().map(|report| format!("{}: {report}", report.platform)));
    }
    let content = &*draft.content;
    for (language, content) in content.languages().iter().zip(&content.translated()) {
        let context = RenderContext { content, ..context };
        if let Err(too_large) = payload::check_size(&context, &targeted, is_data_message) {
            let lines = too_large.iter().map(|report| format!("translations.{language}: {report}"));
            violations.extend(lines);
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    // The campaign is usually checked by the store, which a notification of this size does not
    // reach. It is checked here, so that the response lists all violations.
    match check_campaign(ctx, notification).await {
        Ok(()) => {}
        Err(ApiError::Invalid(more)) => violations.extend(more),
        Err(error) => return Err(error),
    }
    Err(ApiError::Invalid(violations))
}

/// Refuses a silent notification to devices of platforms that show everything they get. Only `device_ids`
/// can name such devices; their platforms are known after the lookup.
pub(super) fn check_silent(
    notification: &Notification,
    targeted: &[Platform],
) -> Result<(), ApiError> {
    if !notification.content.is_silent() {
        return Ok(());
    }
    let others: Vec<&str> = targeted
        .iter()
        .filter(|platform| !matches!(platform, Platform::Android | Platform::Ios))
        .map(|platform| platform.as_str())
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let names = others.join(", ");
    let what = format!(
        "some devices are on {names}, but a silent notification goes only to android and ios"
    );
    Err(ApiError::invalid("device_ids", &what))
}

/// The platforms that a target reaches. For `device_ids` and `user_ids` the platforms of the devices
/// are looked up, because only the size limits of these platforms apply. This also checks that no
/// platform has more devices than one list of device ids may have.
async fn targeted_platforms(ctx: &RequestCtx, target: &Target) -> Result<Vec<Platform>, ApiError> {
    let names_devices = names_devices_of_any_platform(target);
    if !names_devices && !matches!(target, Target::Users { .. }) {
        return Ok(target.platforms());
    }
    let recipients = Recipients { target: target.clone(), tag: None, audience: None };
    let (app, at) = (ctx.app_no(), ctx.received_at);
    let reached = ctx.api.store.reach(app, recipients, None, at).await?;
    if names_devices {
        check_device_count(&reached)?;
    }
    Ok(reached.platforms.iter().map(|reach| reach.platform).collect())
}

/// Whether the target contains `device_ids`, the list that does not give the platforms of its
/// devices.
pub(super) fn names_devices_of_any_platform(target: &Target) -> bool {
    match target {
        Target::Devices { any, .. } => !any.is_empty(),
        Target::Users { .. } | Target::Platforms(_) => false,
    }
}

/// Refuses a target with more devices on one platform than one list may have. The devices in
/// `device_ids` count on their platforms.
pub(super) fn check_device_count(reached: &Reached) -> Result<(), ApiError> {
    let device_count = |reach: &Reach| reach.devices + reach.unknown + reach.excluded;
    let violations: Vec<String> = reached
        .platforms
        .iter()
        .filter(|reach| device_count(reach) > DEVICE_IDS_MAX as u64)
        .map(|reach| {
            format!(
                "device_ids: names, with the other lists, {} devices on {}: at most {DEVICE_IDS_MAX}",
                device_count(reach),
                reach.platform
            )
        })
        .collect();
    if violations.is_empty() { Ok(()) } else { Err(ApiError::Invalid(violations)) }
}

/// Refuses a campaign that is not active.
pub(super) async fn check_campaign(
    ctx: &RequestCtx,
    notification: &Notification,
) -> Result<(), ApiError> {
    let Some(campaign @ CampaignRef::Id(_)) = notification.content.campaign() else {
        return Ok(());
    };
    match ctx.api.store.active_campaign(ctx.app_no(), campaign).await {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound) => {
            Err(ApiError::invalid("campaign_id", "no active campaign has this id"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether the application's FCM configuration sends enriched notifications as data messages, which
/// have another size.
async fn fcm_enriched_as_data(ctx: &RequestCtx) -> Result<bool, ApiError> {
    let row = ctx.api.store.provider(ctx.app_no(), ProviderKind::Fcm).await?;
    let Some((app, row)) = row else { return Ok(false) };
    // If the configuration cannot be opened, the default applies: deliveries wait until it is
    // replaced.
    let config = ProviderConfig::open(&ctx.api.master_key, app, &row);
    Ok(config.is_ok_and(|config| config.enriched_as_data()))
}

/// The poll of a notification, with new ids; `None` for a message.
fn poll_draft(content: &Content) -> Option<PollDraft> {
    match content {
        Content::Message(_) => None,
        Content::Poll(poll) => Some(with_new_ids(poll)),
    }
}

fn with_new_ids(poll: &NewPoll) -> PollDraft {
    let answers = poll.answers.iter().map(|_| notify_core::AnswerId(Uuid::now_v7())).collect();
    // The public address of a poll must not be guessable. A UUIDv7 has only 74 random bits, so this
    // is a UUIDv4 with 122 random bits.
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random).expect("the operating system gives random bytes");
    let public_id = uuid::Builder::from_random_bytes(random).into_uuid();
    PollDraft { poll: poll.clone(), answers, public_id }
}

/// `GET /v1/notifications/{id}/deliveries`.
pub(crate) async fn list_deliveries(
    ctx: RequestCtx,
    query: ListDeliveries,
) -> Result<JsonReply<DeliveryList>, ApiError> {
    let id = ctx.notification_id()?;
    let request = PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor };
    let filter = DeliveryFilter { outcome: query.outcome, reason: query.reason };
    let page = ctx.api.store.list_deliveries(ctx.app_no(), id, filter, request).await?;
    Ok(JsonReply::ok(DeliveryList { deliveries: page.rows, next_cursor: page.next }))
}
