//! The list of all routes. Routing, 405 with `Allow`, the OpenAPI document and the route label of
//! metrics come from it.

use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;
use notify_core::{
    AdminKeyCreated, AdminKeyList, AnswerPoll, AppCreated, AppDevice, AppDiagnostics, AppList,
    AuditList, CampaignCreated, CampaignList, CampaignRecord, CheckFeed, CreateAdminKey, CreateApp,
    CreateFeed, CreateKey, CreateNotification, CreateUserToken, CreateWebhook, DeleteUser,
    DeliveryList, Device, DeviceList, DeviceRegistered, DeviceStatistics, DeviceStatisticsQuery,
    Diagnostics, Enrichment, EnrichmentQuery, EventsAccepted, Explanation, FeedCheck, FeedCreated,
    FeedList, KeyCreated, KeyList, ListAudit, ListCampaigns, ListDeliveries, ListDevices,
    ListNotificationUsers, ListNotifications, LogIn, LogInWithToken, NoBody, NoQuery,
    NotificationCreated, NotificationList, NotificationPreview, NotificationRecord,
    NotificationStatistics, NotificationStatisticsQuery, NotificationUsers, OpenApiQuery,
    PageQuery, Parameter, ParameterForm, PatchAttributes, PatchUser, Poll, PreviewQuery,
    PreviewSegment, ProviderList, ProviderTestResult, ProviderView, PutSegment, Query,
    RecoverWebhook, RegisterAppDevice, RegisterDevice, RenameKey, ReportEvents, ReportNotification,
    RotateKey, Segment, SegmentList, SegmentPreview, SessionList, SetCampaignStatus, SetTags,
    SetWebAccess, StreamQuery, Subscribe, SubscriptionCreated, Success, TagList, Template,
    UpdateApp, UpdateWebhook, User, UserList, UserToken, WebAccess, WebConfig, WebReport,
    WebSubscribe, WebSubscribed, Webhook, WebhookAttempt, WebhookAttemptList, WebhookCreated,
    WebhookList, WebhookRecovered,
};
#[cfg(feature = "sandbox")]
use notify_core::{Playground, PlaygroundMessageList, SetPlaygroundAnswer};
use warp::reply::Response;

use super::error::ApiError;
#[cfg(feature = "sandbox")]
use super::handlers::admin::playground;
use super::handlers::admin::{apps, diagnostics, operators, providers};
use super::handlers::{
    app_devices, campaigns, devices, docs_page, enrichments, event_stream, explain, feeds,
    notifications, own_device, poll_page, polls, preview, probes, sdk, segments, statistics, users,
    web, webhooks,
};
use super::inbound;
use super::json_reply::json_response;
use super::openapi::shape::OtherResponse;
use super::openapi::{self, DocumentForm};
use super::path::{ADMIN_API, is_below};
use super::request_ctx::RequestCtx;
use super::router::{
    Endpoint, delete, get, get_raw, patch, post, post_raw, post_with_query, post_without_replay,
    put,
};

/// The path of the metrics.
const METRICS_PATH: &str = "/metrics";

/// The parameters with which Meta verifies a webhook.
const VERIFICATION: &[Parameter] = &[
    Parameter::new("hub.mode", ParameterForm::Text, "`subscribe`"),
    Parameter::new(
        "hub.verify_token",
        ParameterForm::Text,
        "The `verify_token` of the provider `messenger`",
    ),
    Parameter::new("hub.challenge", ParameterForm::Text, "The text of the response"),
];
const HTML: &[OtherResponse] = &[OtherResponse::ok(&["text/html"])];
const JSON: &[OtherResponse] = &[OtherResponse::ok(&["application/json"])];
const TEXT: &[OtherResponse] = &[OtherResponse::ok(&["text/plain"])];
const METRICS: &[OtherResponse] =
    &[OtherResponse::ok(&["text/plain", "application/openmetrics-text"])];
const DOCS_FILE: &[OtherResponse] =
    &[OtherResponse::ok(&["text/css", "text/javascript", "image/png"])];
const EVENT_STREAM: &[OtherResponse] = &[OtherResponse::ok(&["text/event-stream"])];
const SCRIPT: &[OtherResponse] =
    &[OtherResponse::ok(&["text/javascript"]), OtherResponse::NOT_MODIFIED];

/// The routes of an address whose admin API and metrics are at another address.
pub(crate) fn public_routes() -> Vec<Endpoint> {
    let mut all = routes();
    all.retain(|endpoint| !is_below(endpoint.path, ADMIN_API) && endpoint.path != METRICS_PATH);
    all
}

/// All routes of the API, in the order of the API reference: first the API of applications, then the admin
/// API, then all others.
pub(crate) fn routes() -> Vec<Endpoint> {
    let mut routes = notification_routes();
    routes.extend(device_routes());
    routes.extend(user_routes());
    routes.extend(campaign_routes());
    routes.extend(webhook_routes());
    routes.extend(app_key_routes());
    routes.extend(admin_routes());
    routes.extend(operator_routes());
    #[cfg(feature = "sandbox")]
    routes.extend(playground_routes());
    routes.extend(app_device_routes());
    routes.extend(browser_routes());
    routes.extend(operation_routes());
    routes.extend(inbound_routes());
    routes
}

/// The OpenAPI document of `/openapi.json` and `notify-server openapi`, which generators of clients read.
#[must_use]
pub fn openapi_json() -> String {
    openapi::document(&routes(), DocumentForm::Flat)
}

/// The OpenAPI document of `/openapi.json?strict=true`, which describes requests as strictly as they are
/// validated.
#[must_use]
pub fn strict_openapi_json() -> String {
    openapi::document(&routes(), DocumentForm::Strict)
}

static OPENAPI: LazyLock<String> = LazyLock::new(openapi_json);
static STRICT_OPENAPI: LazyLock<String> = LazyLock::new(strict_openapi_json);

/// `GET /openapi.json`.
async fn open_api(ctx: RequestCtx) -> Result<Response, ApiError> {
    let query = OpenApiQuery::parse(&ctx.query()?, ctx.received_at)?;
    let document = if query.strict { &STRICT_OPENAPI } else { &OPENAPI };
    Ok(json_response(StatusCode::OK, Bytes::from_static(document.as_bytes())))
}

fn notification_routes() -> Vec<Endpoint> {
    vec![
        post::<CreateNotification, NotificationCreated>("/v1/notifications", notifications::create)
            .id("create_notification")
            .summary("Create a notification"),
        get::<ListNotifications, NotificationList>("/v1/notifications", notifications::list)
            .id("list_notifications")
            .summary("List notifications, newest first"),
        post::<ReportNotification, NotificationCreated>(
            "/v1/notifications/notify",
            notifications::report,
        )
        .id("report_notification")
        .summary("Report a notification that the caller delivers itself"),
        post_with_query::<CreateNotification, PreviewQuery, NotificationPreview>(
            "/v1/notifications/preview",
            preview::preview,
        )
        .id("preview_notification")
        .summary("Preview the payloads and the audience of a notification"),
        get::<NoQuery, NotificationRecord>("/v1/notifications/{id}", notifications::get)
            .id("get_notification")
            .summary("Get a notification with its counts"),
        delete::<NoQuery, Success>("/v1/notifications/{id}", notifications::cancel)
            .id("cancel_notification")
            .summary("Cancel what has not been sent of a notification"),
        post::<NoBody, Success>("/v1/notifications/{id}/pause", notifications::pause)
            .id("pause_notification")
            .summary("Pause what has not been sent of a notification"),
        post::<NoBody, Success>("/v1/notifications/{id}/resume", notifications::resume)
            .id("resume_notification")
            .summary("Resume a paused notification"),
        get::<ListDeliveries, DeliveryList>(
            "/v1/notifications/{id}/deliveries",
            notifications::list_deliveries,
        )
        .id("list_deliveries")
        .summary("List the outcome for each device"),
        get::<ListNotificationUsers, NotificationUsers>(
            "/v1/notifications/{id}/users",
            users::list_of_notification,
        )
        .id("list_notification_users")
        .summary("List the users of a notification, and whether they were reached"),
        get::<NoQuery, Explanation>("/v1/notifications/{id}/explain/{device_id}", explain::explain)
            .id("explain_delivery")
            .summary("Explain why a device did or did not receive a notification"),
        get::<NoQuery, Poll>("/v1/polls/{id}", polls::get)
            .id("get_poll")
            .summary("Get a poll with its results"),
        post::<AnswerPoll, Success>("/v1/polls/{id}/answers/{answer_id}", polls::answer)
            .id("answer_poll")
            .summary("Record an answer to a poll"),
        post::<ReportEvents, EventsAccepted>("/v1/events", devices::record_events)
            .id("report_events")
            .summary("Record what devices did with notifications"),
    ]
}

fn device_routes() -> Vec<Endpoint> {
    vec![
        post::<RegisterDevice, DeviceRegistered>("/v1/devices", devices::register)
            .id("register_device")
            .summary("Register or update a device"),
        get::<ListDevices, DeviceList>("/v1/devices", devices::list)
            .id("list_devices")
            .summary("List devices"),
        get::<NoQuery, Device>("/v1/devices/{device_id}", devices::get)
            .id("get_device")
            .summary("Get a device"),
        delete::<NoQuery, Success>("/v1/devices/{device_id}", devices::delete)
            .id("delete_device")
            .summary("Delete a device with all its data"),
        post::<SetTags, Success>("/v1/devices/{device_id}/tags", devices::set_tags)
            .id("set_device_tags")
            .summary("Set tags of a device"),
        delete::<NoQuery, Success>("/v1/devices/{device_id}/tags/{name}", devices::remove_tag)
            .id("remove_device_tag")
            .summary("Remove a tag of a device"),
        patch::<PatchAttributes, Success>(
            "/v1/devices/{device_id}/attributes",
            users::change_device_attributes,
        )
        .id("update_device_attributes")
        .summary("Set and remove attributes of a device"),
        put::<LogIn, Success>("/v1/devices/{device_id}/user", users::log_in)
            .id("log_in")
            .summary("Log a device in as a user"),
        delete::<NoQuery, Success>("/v1/devices/{device_id}/user", users::log_out)
            .id("log_out")
            .summary("Log a device out"),
        post_without_replay::<NoBody, AppDevice>(
            "/v1/devices/{device_id}/secret",
            app_devices::make_secret,
        )
        .id("create_device_secret")
        .summary("Create a secret for a device, which is shown only once"),
        post::<Subscribe, SubscriptionCreated>("/v1/subscriptions", devices::subscribe)
            .id("subscribe")
            .summary("Subscribe a browser, a Messenger user or a Telegram chat"),
        get::<PageQuery, TagList>("/v1/tags", devices::list_tags)
            .id("list_tags")
            .summary("List tags"),
        get::<DeviceStatisticsQuery, DeviceStatistics>(
            "/v1/statistics/devices",
            statistics::devices,
        )
        .id("get_device_statistics")
        .summary("Count devices by platform and state"),
        get::<NotificationStatisticsQuery, NotificationStatistics>(
            "/v1/statistics/notifications",
            statistics::notifications,
        )
        .id("get_notification_statistics")
        .summary("Count deliveries and events by day (UTC)"),
    ]
}

fn user_routes() -> Vec<Endpoint> {
    vec![
        get::<PageQuery, UserList>("/v1/users", users::list)
            .id("list_users")
            .summary("List users, oldest first"),
        get::<NoQuery, User>("/v1/users/{user_id}", users::get)
            .id("get_user")
            .summary("Get a user with its devices"),
        patch::<PatchUser, User>("/v1/users/{user_id}", users::change)
            .id("update_user")
            .summary("Create a user, or set and remove its attributes"),
        delete::<DeleteUser, Success>("/v1/users/{user_id}", users::delete)
            .id("delete_user")
            .summary("Delete a user, with its devices unless they are kept"),
        post_without_replay::<CreateUserToken, UserToken>(
            "/v1/users/{user_id}/tokens",
            users::create_token,
        )
        .id("create_user_token")
        .summary("Create a token with which an app or a page logs a user in"),
        get::<PageQuery, SegmentList>("/v1/segments", segments::list)
            .id("list_segments")
            .summary("List segments"),
        post::<PreviewSegment, SegmentPreview>("/v1/segments/preview", segments::preview)
            .id("preview_segment")
            .summary("Count the devices that meet a condition"),
        get::<NoQuery, Segment>("/v1/segments/{name}", segments::get)
            .id("get_segment")
            .summary("Get a segment"),
        put::<PutSegment, Segment>("/v1/segments/{name}", segments::put)
            .id("put_segment")
            .summary("Create or replace a segment"),
        delete::<NoQuery, Success>("/v1/segments/{name}", segments::delete)
            .id("delete_segment")
            .summary("Delete a segment"),
    ]
}

fn campaign_routes() -> Vec<Endpoint> {
    vec![
        post::<Template, CampaignCreated>("/v1/campaigns", campaigns::create)
            .id("create_campaign")
            .summary("Create a campaign"),
        get::<ListCampaigns, CampaignList>("/v1/campaigns", campaigns::list)
            .id("list_campaigns")
            .summary("List campaigns, newest first"),
        get::<NoQuery, CampaignRecord>("/v1/campaigns/{id}", campaigns::get)
            .id("get_campaign")
            .summary("Get a campaign with its template"),
        put::<Template, Success>("/v1/campaigns/{id}", campaigns::replace)
            .id("replace_campaign")
            .summary("Replace the template of a campaign"),
        put::<SetCampaignStatus, Success>("/v1/campaigns/{id}/status", campaigns::set_status)
            .id("set_campaign_status")
            .summary("Activate or disable a campaign"),
        delete::<NoQuery, Success>("/v1/campaigns/{id}", campaigns::delete)
            .id("delete_campaign")
            .summary("Delete a campaign that no notification uses"),
        get::<EnrichmentQuery, Enrichment>("/v1/enrichments/{campaign_id}", enrichments::get)
            .id("get_enrichment")
            .summary("Get the enrichment of a notification")
            .responses(&[OtherResponse::NOT_MODIFIED]),
        post::<CreateFeed, FeedCreated>("/v1/feeds", feeds::create)
            .id("create_feed")
            .summary("Create a feed, or get the existing one of the URL"),
        post::<CheckFeed, FeedCheck>("/v1/feeds/check", feeds::check)
            .id("check_feed")
            .summary("Fetch a URL and show which items it has"),
        get::<PageQuery, FeedList>("/v1/feeds", feeds::list)
            .id("list_feeds")
            .summary("List feeds, newest first"),
        delete::<NoQuery, Success>("/v1/feeds/{id}", feeds::delete)
            .id("delete_feed")
            .summary("Delete a feed that no campaign uses"),
    ]
}

fn app_key_routes() -> Vec<Endpoint> {
    vec![
        post::<CreateKey, KeyCreated>("/admin/v1/apps/{id}/keys", apps::create_key)
            .id("create_api_key")
            .summary("Create an API key, which is shown only once"),
        get::<NoQuery, KeyList>("/admin/v1/apps/{id}/keys", apps::list_keys)
            .id("list_api_keys")
            .summary("List API keys without their secrets"),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/keys/{key_id}", apps::revoke_key)
            .id("revoke_api_key")
            .summary("Revoke an API key"),
        post::<RotateKey, KeyCreated>("/admin/v1/apps/{id}/keys/{key_id}/rotate", apps::rotate_key)
            .id("rotate_api_key")
            .summary("Create the successor of an API key, which expires after an overlap"),
    ]
}

fn admin_routes() -> Vec<Endpoint> {
    vec![
        post::<CreateApp, AppCreated>("/admin/v1/apps", apps::create)
            .id("create_app")
            .summary("Create an application"),
        get::<PageQuery, AppList>("/admin/v1/apps", apps::list)
            .id("list_apps")
            .summary("List applications, oldest first"),
        get::<NoQuery, notify_core::App>("/admin/v1/apps/{id}", apps::get)
            .id("get_app")
            .summary("Get an application"),
        patch::<UpdateApp, Success>("/admin/v1/apps/{id}", apps::change)
            .id("update_app")
            .summary("Rename, suspend or resume an application"),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}", apps::delete)
            .id("delete_app")
            .summary("Delete an application with all its data"),
        get::<NoQuery, ProviderList>("/admin/v1/apps/{id}/providers", providers::list)
            .id("list_providers")
            .summary("List configured providers without their secrets"),
        put::<providers::ProviderConfig, Success>(
            "/admin/v1/apps/{id}/providers/{provider}",
            providers::put,
        )
        .id("configure_provider")
        .summary("Configure a provider"),
        get::<NoQuery, ProviderView>("/admin/v1/apps/{id}/providers/{provider}", providers::get)
            .id("get_provider")
            .summary("Get a provider without its secrets"),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/providers/{provider}", providers::delete)
            .id("delete_provider")
            .summary("Remove a provider"),
        post::<NoBody, ProviderTestResult>(
            "/admin/v1/apps/{id}/providers/{provider}/test",
            providers::test,
        )
        .id("test_provider")
        .summary("Check the credentials of a provider without sending to a device"),
        post::<NoBody, Success>(
            "/admin/v1/apps/{id}/providers/{provider}/resume",
            providers::resume,
        )
        .id("resume_provider")
        .summary("Resume delivery through a provider"),
        put::<SetWebAccess, Success>("/admin/v1/apps/{id}/web", apps::put_web_access)
            .id("set_web_access")
            .summary("Set the browser origins allowed to subscribe"),
        get::<NoQuery, WebAccess>("/admin/v1/apps/{id}/web", apps::web_access)
            .id("get_web_access")
            .summary("Get the browser origins allowed to subscribe"),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/web", apps::delete_web_access)
            .id("delete_web_access")
            .summary("Disable browser access"),
        get::<NoQuery, AppDiagnostics>("/admin/v1/apps/{id}/devices/diagnostics", diagnostics::app)
            .id("get_app_diagnostics")
            .summary("Get diagnostics of an application: devices, providers, webhooks and feeds"),
        get::<NoQuery, Diagnostics>("/admin/v1/diagnostics", diagnostics::server)
            .id("get_server_diagnostics")
            .summary("Get diagnostics of the server: settings, storage and problems"),
    ]
}

fn operator_routes() -> Vec<Endpoint> {
    vec![
        post::<CreateAdminKey, AdminKeyCreated>("/admin/v1/keys", operators::create_key)
            .id("create_admin_key")
            .summary("Create an admin key, which is shown only once"),
        get::<NoQuery, AdminKeyList>("/admin/v1/keys", operators::list_keys)
            .id("list_admin_keys")
            .summary("List admin keys without their secrets"),
        patch::<RenameKey, Success>("/admin/v1/keys/{key_id}", operators::rename_key)
            .id("rename_admin_key")
            .summary("Rename an admin key"),
        delete::<NoQuery, Success>("/admin/v1/keys/{key_id}", operators::revoke_key)
            .id("revoke_admin_key")
            .summary("Revoke an admin key and end its sessions"),
        get::<PageQuery, SessionList>("/admin/v1/sessions", operators::list_sessions)
            .id("list_sessions")
            .summary("List the sessions of the console, newest first"),
        delete::<NoQuery, Success>("/admin/v1/sessions/{session_id}", operators::end_session)
            .id("end_session")
            .summary("End a session of the console"),
        get::<ListAudit, AuditList>("/admin/v1/audit", operators::audit)
            .id("list_audit")
            .summary("List the changes that operators made, newest first"),
    ]
}

#[cfg(feature = "sandbox")]
fn playground_routes() -> Vec<Endpoint> {
    vec![
        post::<NoBody, Playground>("/admin/v1/playground", playground::start)
            .id("start_playground")
            .summary("Start the playground, or get the running one with its API key"),
        get::<NoQuery, Playground>("/admin/v1/playground", playground::get)
            .id("get_playground")
            .summary("Get the running playground"),
        delete::<NoQuery, Success>("/admin/v1/playground", playground::stop)
            .id("stop_playground")
            .summary("Stop the playground and delete its application"),
        get::<NoQuery, PlaygroundMessageList>(
            "/admin/v1/playground/messages",
            playground::messages,
        )
        .id("list_playground_messages")
        .summary("List the last messages that the playground's providers received, newest first"),
        put::<SetPlaygroundAnswer, Success>(
            "/admin/v1/playground/devices/{device_id}/answer",
            playground::set_answer,
        )
        .id("set_playground_answer")
        .summary("Set the provider's answer to the next message to a device of the playground"),
    ]
}

fn app_device_routes() -> Vec<Endpoint> {
    vec![
        post::<RegisterAppDevice, AppDevice>("/device/v1/devices", app_devices::register)
            .id("register_app_device")
            .summary("Register or update the device of this app"),
        delete::<NoQuery, Success>("/device/v1/devices/{device_id}", own_device::delete)
            .id("delete_app_device")
            .summary("Delete the device of this app with all its data"),
        put::<LogInWithToken, Success>("/device/v1/devices/{device_id}/user", own_device::log_in)
            .id("log_in_app_device")
            .summary("Log the device of this app in with a token of the user"),
        delete::<NoQuery, Success>("/device/v1/devices/{device_id}/user", own_device::log_out)
            .id("log_out_app_device")
            .summary("Log the device of this app out"),
        post::<SetTags, Success>("/device/v1/devices/{device_id}/tags", app_devices::set_tags)
            .id("set_app_device_tags")
            .summary("Set tags of the device of this app"),
        post::<PatchAttributes, Success>(
            "/device/v1/devices/{device_id}/attributes",
            app_devices::change_attributes,
        )
        .id("update_app_device_attributes")
        .summary("Set and remove attributes of the device of this app"),
        post::<WebReport, EventsAccepted>(
            "/device/v1/devices/{device_id}/events",
            own_device::report,
        )
        .id("report_app_device_events")
        .summary("Record what this app did with notifications"),
        get::<EnrichmentQuery, Enrichment>(
            "/device/v1/devices/{device_id}/enrichments/{campaign_id}",
            own_device::enrichment,
        )
        .id("get_app_device_enrichment")
        .summary("Get the enrichment of a notification for this app")
        .query(enrichments::BROWSER_QUERY)
        .responses(&[OtherResponse::NOT_MODIFIED]),
    ]
}

fn browser_routes() -> Vec<Endpoint> {
    vec![
        get::<NoQuery, WebConfig>("/web/v1/{app_id}", web::config)
            .id("get_web_config")
            .summary("Get the settings with which a browser subscribes"),
        post::<WebSubscribe, WebSubscribed>(web::SUBSCRIBE, web::subscribe)
            .id("subscribe_browser")
            .summary("Subscribe this browser"),
        delete::<NoQuery, Success>("/web/v1/{app_id}/devices/{device_id}", own_device::delete)
            .id("unsubscribe_browser")
            .summary("Delete the device of this browser with all its data"),
        put::<LogInWithToken, Success>(
            "/web/v1/{app_id}/devices/{device_id}/user",
            own_device::log_in,
        )
        .id("log_in_browser")
        .summary("Log this browser in with a token of the user"),
        delete::<NoQuery, Success>(
            "/web/v1/{app_id}/devices/{device_id}/user",
            own_device::log_out,
        )
        .id("log_out_browser")
        .summary("Log this browser out"),
        post::<WebReport, EventsAccepted>(
            "/web/v1/{app_id}/devices/{device_id}/events",
            own_device::report,
        )
        .id("report_browser_events")
        .summary("Record what this browser did with notifications"),
        get::<EnrichmentQuery, Enrichment>(
            "/web/v1/{app_id}/devices/{device_id}/enrichments/{campaign_id}",
            own_device::enrichment,
        )
        .id("get_browser_enrichment")
        .summary("Get the enrichment of a notification for this browser")
        .query(enrichments::BROWSER_QUERY)
        .responses(&[OtherResponse::NOT_MODIFIED]),
        get_raw("/sdk/notify.js", sdk::page)
            .id("get_sdk_script")
            .summary("SDK for pages")
            .responses(SCRIPT),
        get_raw("/sdk/notify-sw.js", sdk::worker)
            .id("get_service_worker_script")
            .summary("SDK for service workers")
            .responses(SCRIPT),
    ]
}

fn operation_routes() -> Vec<Endpoint> {
    vec![
        get_raw("/healthz", probes::health)
            .id("get_health")
            .summary("Liveness probe")
            .response::<Success>(),
        get_raw("/readyz", probes::ready)
            .id("get_readiness")
            .summary("Readiness probe")
            .response::<Success>(),
        get_raw(METRICS_PATH, probes::metrics)
            .id("get_metrics")
            .summary("Metrics in the Prometheus format")
            .responses(METRICS),
        get_raw("/openapi.json", open_api)
            .id("get_openapi")
            .summary("OpenAPI document")
            .query(OpenApiQuery::PARAMETERS)
            .responses(JSON),
        get_raw("/", docs_page::redirect)
            .id("redirect_root_to_docs")
            .summary("Redirect to the API reference")
            .responses(&[OtherResponse::SEE_OTHER]),
        get_raw("/docs/", docs_page::redirect)
            .id("redirect_to_docs")
            .summary("Redirect to the API reference")
            .responses(&[OtherResponse::SEE_OTHER]),
        get_raw("/docs", docs_page::page).id("get_docs").summary("API reference").responses(HTML),
        get_raw("/docs/{file}", docs_page::file)
            .id("get_docs_file")
            .summary("File of the API reference")
            .responses(DOCS_FILE),
        get_raw("/polls/{public_id}", poll_page::show)
            .id("get_poll_page")
            .summary("Public page of a poll")
            .responses(HTML),
        post_raw(poll_page::VOTES, poll_page::vote)
            .id("vote_on_poll_page")
            .summary("Vote on the public page of a poll")
            .raw_body("application/x-www-form-urlencoded", poll_page::form_schema)
            .responses(&[OtherResponse::SEE_OTHER]),
    ]
}

fn webhook_routes() -> Vec<Endpoint> {
    vec![
        post_without_replay::<CreateWebhook, WebhookCreated>("/v1/webhooks", webhooks::create)
            .id("create_webhook")
            .summary("Create a webhook, whose secret is shown only once"),
        get::<PageQuery, WebhookList>("/v1/webhooks", webhooks::list)
            .id("list_webhooks")
            .summary("List webhooks, oldest first"),
        get::<NoQuery, Webhook>("/v1/webhooks/{id}", webhooks::get)
            .id("get_webhook")
            .summary("Get a webhook"),
        patch::<UpdateWebhook, Success>("/v1/webhooks/{id}", webhooks::change)
            .id("update_webhook")
            .summary("Update, disable or enable a webhook"),
        delete::<NoQuery, Success>("/v1/webhooks/{id}", webhooks::delete)
            .id("delete_webhook")
            .summary("Delete a webhook with its messages"),
        post_without_replay::<NoBody, WebhookCreated>("/v1/webhooks/{id}/rotate", webhooks::rotate)
            .id("rotate_webhook_secret")
            .summary("Rotate the secret of a webhook"),
        post_without_replay::<NoBody, WebhookAttempt>("/v1/webhooks/{id}/test", webhooks::test)
            .id("test_webhook")
            .summary("Send a test event to a webhook and wait for the outcome"),
        get::<PageQuery, WebhookAttemptList>("/v1/webhooks/{id}/attempts", webhooks::list_attempts)
            .id("list_webhook_attempts")
            .summary("List the messages of a webhook with their outcome, newest first"),
        post::<NoBody, Success>(
            "/v1/webhooks/{id}/attempts/{attempt_id}/redeliver",
            webhooks::redeliver,
        )
        .id("redeliver_webhook_attempt")
        .summary("Redeliver a finished webhook message"),
        post::<RecoverWebhook, WebhookRecovered>("/v1/webhooks/{id}/recover", webhooks::recover)
            .id("recover_webhook")
            .summary("Redeliver all webhook messages that failed since an instant"),
        get_raw("/v1/events/stream", event_stream::stream)
            .id("stream_events")
            .summary("Stream events as server-sent events")
            .query(StreamQuery::PARAMETERS)
            .responses(EVENT_STREAM),
    ]
}

fn inbound_routes() -> Vec<Endpoint> {
    vec![
        get_raw("/hooks/messenger/{app_id}", inbound::messenger::verify)
            .id("confirm_messenger_webhook")
            .summary("Verify the webhook for Meta")
            .query(VERIFICATION)
            .responses(TEXT),
        post_raw("/hooks/messenger/{app_id}", inbound::messenger::receive)
            .id("receive_messenger_events")
            .summary("Receive Messenger events")
            .raw_body("application/json", inbound::any_object_schema)
            .responses(JSON),
        post_raw("/hooks/telegram/{app_id}", inbound::telegram::receive)
            .id("receive_telegram_update")
            .summary("Receive Telegram updates")
            .raw_body("application/json", inbound::any_object_schema)
            .responses(JSON),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::path::segments;

    #[test]
    fn every_route_is_documented_and_listed_once() {
        let mut seen = std::collections::HashSet::new();
        let mut ids = std::collections::HashSet::new();
        for Endpoint { method, path, docs, .. } in &routes() {
            assert!(!docs.summary.is_empty(), "{path}");
            let id = docs.operation_id;
            let is_snake_case = id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(is_snake_case && id.contains('_') || id == "subscribe");
            assert!(ids.insert(id), "{id}");
            assert!(seen.insert((method.clone(), *path)));
        }
    }

    #[test]
    fn openapi_lists_exactly_the_routes() {
        let document: serde_json::Value = serde_json::from_str(&openapi_json()).unwrap();
        let mut listed: Vec<String> = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let methods = item.as_object().unwrap().keys();
            listed.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
        }
        let mut expected: Vec<String> =
            routes().iter().map(|route| format!("{} {}", route.method, route.path)).collect();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
    }

    /// The first segments of paths that a proxy in front keeps internal.
    const INTERNAL: [&str; 7] =
        ["", "admin", "docs", "healthz", "metrics", "openapi.json", "readyz"];

    /// The first segments of the paths that the file names between two marks.
    fn named<'a>(file: &'a str, start: &str, end: &str) -> BTreeSet<&'a str> {
        let part = file.split_once(start).unwrap().1.split_once(end).unwrap().0;
        let is_of_path = |c: char| c == '/' || c.is_ascii_alphanumeric();
        part.split(|c| !is_of_path(c)).filter_map(|word| word.strip_prefix('/')).collect()
    }

    #[test]
    fn deployment_files_forward_every_public_path() {
        let routes = routes();
        let first = routes.iter().filter_map(|route| segments(route.path).next());
        let public: BTreeSet<&str> = first.filter(|first| !INTERNAL.contains(first)).collect();
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (file, start, end) in [
            ("docs/operations.md", "\nproxy forwards ", "."),
            ("deploy/helm/notify/templates/ingress.yaml", "range list ", "}}"),
            ("deploy/helm/notify/templates/service.yaml", "forward only ", "."),
        ] {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            assert_eq!(named(&text, start, end), public, "{file}");
        }
    }

    #[test]
    fn every_openapi_reference_resolves() {
        for text in [openapi_json(), strict_openapi_json()] {
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let mut references = 0;
            for part in text.split("\"#/components/schemas/").skip(1) {
                let name = part.split('"').next().unwrap();
                assert!(schemas.contains_key(name), "{name}");
                references += 1;
            }
            assert!(references > 50);
        }
    }
}
