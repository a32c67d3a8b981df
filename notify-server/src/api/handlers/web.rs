//! The API of pages and their service workers, without an API key (`/web/v1`). The pipeline
//! authorizes the origin. A browser can only act for its own device, with the secret from its
//! subscription.

use notify_core::{
    AppId, BrowserSubscription, DeviceId, Endpoint, Enrichment, EnrichmentQuery, Event,
    EventsAccepted, NoQuery, NotificationId, PresentedUserToken, ProviderKind, Success, WebAccess,
    WebConfig, WebEvent, WebSubscribed,
};
use url::Url;
use uuid::Uuid;

use super::app_devices::check_tags;
use super::devices::check_web_subscription;
use super::enrichments;
use super::own_device::{has_secret, own_device};
use super::users::log_in_with_token;
use crate::api::device_calls::DeviceCall;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::keys::{make_device_secret, sha256};
use crate::provider_config::ProviderConfig;
use crate::store::NewBrowser;

/// Path template of subscriptions.
pub(crate) const SUBSCRIBE: &str = "/web/v1/{app_id}/devices";

/// `GET /web/v1/{app_id}`.
pub(crate) async fn config(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<WebConfig>, ApiError> {
    DeviceCall::of(&ctx).count_without_device()?;
    let app: AppId = ctx.web_origin().app;
    let row = ctx.api.store.provider(ctx.app_no(), ProviderKind::WebPush).await?;
    let (id, row) = row.ok_or(ApiError::NotFound)?;
    // A configuration that cannot be opened is logged when it is used to send.
    match ProviderConfig::open(&ctx.api.master_key, id, &row) {
        Ok(ProviderConfig::WebPush(webpush)) => {
            Ok(JsonReply::ok(WebConfig { app, vapid_public_key: webpush.vapid.public }))
        }
        Ok(_) | Err(_) => Err(ApiError::NotFound),
    }
}

/// `POST /web/v1/{app_id}/devices`.
pub(crate) async fn subscribe(
    ctx: RequestCtx,
    browser: BrowserSubscription,
) -> Result<JsonReply<WebSubscribed>, ApiError> {
    let call = DeviceCall::of(&ctx);
    let existing =
        browser.device.as_ref().map(|own| (own.device_id.clone(), sha256(own.secret.as_bytes())));
    let is_known = match &existing {
        Some((device, secret)) => has_secret(&ctx, &call, device, *secret).await?,
        None => false,
    };
    if !is_known {
        call.count_registration()?;
    }
    check_subscription(&ctx, &browser)?;
    let (secret, hash) = make_device_secret();
    let browser = NewBrowser {
        subscription: browser.subscription,
        existing,
        generated_id: DeviceId::from(Uuid::now_v7()),
        secret: hash,
        tags: browser.tags,
    };
    let subscribed =
        ctx.api.store.subscribe_browser(ctx.app_no(), browser, ctx.received_at).await?;
    if subscribed.has_new_secret {
        call.remember(subscribed.id.clone(), hash);
    }
    let device_secret = subscribed.has_new_secret.then_some(secret);
    Ok(JsonReply::ok(WebSubscribed { id: subscribed.id, device_secret }))
}

/// Checks the rules that notify-core cannot check: those of [`check_web_subscription`], and the
/// application's settings for browsers.
fn check_subscription(ctx: &RequestCtx, browser: &BrowserSubscription) -> Result<(), ApiError> {
    let access = &ctx.web_origin().web.access;
    if let Endpoint::Web(web) = &browser.subscription.endpoint {
        check_web_subscription(web, &ctx.api.outbound)?;
        check_push_service(access, &web.endpoint)?;
    }
    check_tags(&access.allowed_tags, &browser.tags, "browsers")
}

/// Only endpoints of push services are allowed: without this rule, anyone could make the server
/// send requests to any public address.
fn check_push_service(access: &WebAccess, endpoint: &str) -> Result<(), ApiError> {
    let url = Url::parse(endpoint).ok();
    let host = url.as_ref().and_then(Url::host_str);
    if host.is_some_and(|host| access.allows_push_service(host)) {
        return Ok(());
    }
    Err(ApiError::invalid("subscription.endpoint", "does not belong to an allowed push service"))
}

/// `DELETE /web/v1/{app_id}/devices/{device_id}`.
pub(crate) async fn unsubscribe(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    ctx.api.store.delete_device(ctx.app_no(), device, ctx.received_at).await?;
    Ok(JsonReply::success())
}

/// `PUT /web/v1/{app_id}/devices/{device_id}/user`. The token proves who the user is; a page cannot name one.
pub(crate) async fn log_in(
    ctx: RequestCtx,
    token: PresentedUserToken,
) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    log_in_with_token(&ctx, ctx.web_origin().app, device, &token).await
}

/// `DELETE /web/v1/{app_id}/devices/{device_id}/user`.
pub(crate) async fn log_out(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    Ok(JsonReply::ok(ctx.api.store.log_out(ctx.app_no(), device).await?))
}

/// `POST /web/v1/{app_id}/devices/{device_id}/events`.
pub(crate) async fn report(
    ctx: RequestCtx,
    events: Vec<WebEvent>,
) -> Result<JsonReply<EventsAccepted>, ApiError> {
    let device = own_device(&ctx).await?;
    record(&ctx, device, events).await
}

/// Records the events of a device.
pub(super) async fn record(
    ctx: &RequestCtx,
    device: DeviceId,
    events: Vec<WebEvent>,
) -> Result<JsonReply<EventsAccepted>, ApiError> {
    let to_event = |event: WebEvent| Event {
        kind: event.kind,
        notification_id: event.notification_id,
        device_id: device.clone(),
        at: event.at,
    };
    let events = events.into_iter().map(to_event).collect();
    Ok(ctx.api.store.record_events(ctx.app_no(), events, ctx.received_at, None).await?.into())
}

/// `GET /web/v1/{app_id}/devices/{device_id}/enrichments/{campaign_id}`.
pub(crate) async fn enrichment(
    ctx: RequestCtx,
    query: EnrichmentQuery,
) -> Result<JsonReply<Enrichment>, ApiError> {
    let device = own_device(&ctx).await?;
    enrichment_of(&ctx, device, query).await
}

/// The enrichment of the campaign in the path, for a device.
pub(super) async fn enrichment_of(
    ctx: &RequestCtx,
    device: DeviceId,
    query: EnrichmentQuery,
) -> Result<JsonReply<Enrichment>, ApiError> {
    if query.device_id.is_some() {
        return Err(ApiError::invalid("device_id", "is given in the path"));
    }
    let notification = query
        .notification_id
        .map(NotificationId::new)
        .transpose()
        .map_err(|_| ApiError::NotFound)?;
    enrichments::enrichment(ctx, notification, Some(device)).await
}
