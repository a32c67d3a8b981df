//! What pages and their service workers call, without an API key (`/web/v1`). The front has let the
//! page's origin in; from there on a browser acts for its own device alone, which it proves by the
//! secret that it was given when it subscribed.

use http::header;
use notify_core::{
    AppId, BrowserSubscription, DeviceId, Endpoint, Enrichment, EnrichmentQuery, Event,
    EventsAccepted, NoQuery, NotificationId, ProviderKind, Success, Tag, WebAccess, WebConfig,
    WebEvent, WebSubscribed,
};
use url::Url;
use uuid::Uuid;

use super::ctx::Ctx;
use super::enrichments;
use super::error::ApiError;
use super::reply::Reply;
use super::subscriptions::check_web;
use crate::keys::{make_device_secret, sha256};
use crate::provider_config::ProviderConfig;
use crate::store::NewBrowser;

/// Where browsers subscribe; what makes devices has a rate of its own.
pub(crate) const SUBSCRIBE: &str = "/web/v1/{app_id}/devices";
const SECRET: header::HeaderName = header::HeaderName::from_static("x-device-secret");

/// `GET /web/v1/{app_id}`.
pub(crate) async fn config(ctx: Ctx, _: NoQuery) -> Result<Reply<WebConfig>, ApiError> {
    let app: AppId = ctx.page().app;
    let row = ctx.api().store.provider(ctx.app_no(), ProviderKind::WebPush).await?;
    let (id, row) = row.ok_or(ApiError::NotFound)?;
    // That it does not open is told where it is used to send.
    match ProviderConfig::open(&ctx.api().master_key, id, &row) {
        Ok(ProviderConfig::WebPush(webpush)) => {
            Ok(Reply::now(WebConfig { app, vapid_public_key: webpush.vapid.public }))
        }
        Ok(_) | Err(_) => Err(ApiError::NotFound),
    }
}

/// `POST /web/v1/{app_id}/devices`.
pub(crate) async fn subscribe(
    ctx: Ctx,
    browser: BrowserSubscription,
) -> Result<Reply<WebSubscribed>, ApiError> {
    check(&ctx, &browser)?;
    let (secret, hash) = make_device_secret();
    let browser = NewBrowser {
        subscription: browser.subscription,
        known: browser.device.map(|device| (device.device_id, sha256(device.secret.as_bytes()))),
        made: DeviceId::from(Uuid::now_v7()),
        secret: hash,
        tags: browser.tags,
    };
    let subscribed = ctx.api().store.subscribe_browser(ctx.app_no(), browser, ctx.at()).await?;
    let device_secret = subscribed.has_new_secret.then_some(secret);
    Ok(Reply::now(WebSubscribed { id: subscribed.id, device_secret }))
}

/// The rules that need addresses, a curve, or what the application allows.
fn check(ctx: &Ctx, browser: &BrowserSubscription) -> Result<(), ApiError> {
    let access = &ctx.page().web.access;
    if let Endpoint::Web(web) = &browser.subscription.endpoint {
        check_web(web, &ctx.api().outbound)?;
        check_push_service(access, &web.endpoint)?;
    }
    check_tags(access, &browser.tags)
}

/// Anybody can call this, so that an endpoint may only be where browsers are: without this rule a
/// stranger could have the server post to any address that is public.
fn check_push_service(access: &WebAccess, endpoint: &str) -> Result<(), ApiError> {
    let url = Url::parse(endpoint).ok();
    let host = url.as_ref().and_then(Url::host_str);
    if host.is_some_and(|host| access.allows_push_service(host)) {
        return Ok(());
    }
    Err(ApiError::invalid("subscription.endpoint", "is of no push service that is allowed"))
}

/// A tag may stand for something that a browser cannot give itself.
fn check_tags(access: &WebAccess, tags: &[Tag]) -> Result<(), ApiError> {
    let broken: Vec<String> = tags
        .iter()
        .enumerate()
        .filter(|(_, tag)| !access.allowed_tags.contains(&tag.name))
        .map(|(place, _)| format!("tags[{place}].name: is no tag that browsers may set"))
        .collect();
    if broken.is_empty() { Ok(()) } else { Err(ApiError::Invalid(broken)) }
}

/// `DELETE /web/v1/{app_id}/devices/{device_id}`.
pub(crate) async fn unsubscribe(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    let device = own_device(&ctx).await?;
    ctx.api().store.delete_device(ctx.app_no(), device, ctx.at()).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `POST /web/v1/{app_id}/devices/{device_id}/events`.
pub(crate) async fn report(
    ctx: Ctx,
    events: Vec<WebEvent>,
) -> Result<Reply<EventsAccepted>, ApiError> {
    let device = own_device(&ctx).await?;
    let of_device = |event: WebEvent| Event {
        kind: event.kind,
        notification_id: event.notification_id,
        device_id: device.clone(),
        at: event.at,
    };
    let events = events.into_iter().map(of_device).collect();
    Ok(ctx.api().store.record_events(ctx.app_no(), events, ctx.at(), None).await?.into())
}

/// `GET /web/v1/{app_id}/devices/{device_id}/enrichments/{campaign_id}`.
pub(crate) async fn enrichment(
    ctx: Ctx,
    query: EnrichmentQuery,
) -> Result<Reply<Enrichment>, ApiError> {
    let device = own_device(&ctx).await?;
    if query.device_id.is_some() {
        return Err(ApiError::invalid("device_id", "stands in the path"));
    }
    let notification = query.notification_id.map(NotificationId::new).transpose();
    let notification = notification.map_err(|_| ApiError::NotFound)?;
    enrichments::answer(&ctx, notification, Some(device)).await
}

/// The device of the path, whose secret is shown. An unknown device and a wrong secret are one.
async fn own_device(ctx: &Ctx) -> Result<DeviceId, ApiError> {
    let device = ctx.device_id().map_err(|_| ApiError::DeviceUnauthorized)?;
    let secret = ctx.header(&SECRET).ok_or(ApiError::DeviceUnauthorized)?;
    let secret = sha256(secret.as_bytes());
    match ctx.api().store.opens_device(ctx.app_no(), device.clone(), secret).await? {
        true => Ok(device),
        false => Err(ApiError::DeviceUnauthorized),
    }
}
