//! The API of pages and their service workers, without an API key (`/web/v1`). The pipeline
//! authorizes the origin. A browser can only act for its own device, with the secret from its
//! subscription.

use notify_core::{
    AppId, BrowserSubscription, DeviceId, Endpoint, NoQuery, ProviderKind, WebAccess, WebConfig,
    WebSubscribed,
};
use url::Url;
use uuid::Uuid;

use super::app_devices::check_tags;
use super::devices::check_web_subscription;
use super::own_device::has_secret;
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
