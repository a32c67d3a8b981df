//! Every route there is. What is not here does not exist: 404, 405 with `Allow`, OpenAPI and the
//! route label of the metrics all come from it.

use notify_core::{
    AnswerPoll, AppCreated, AppDiagnostics, AppList, CampaignCreated, CampaignList, CampaignRecord,
    CheckFeed, CreateApp, CreateFeed, CreateKey, CreateNotification, CreateWebhook, DeliveryList,
    Device, DeviceList, DeviceStatistics, DeviceStatisticsQuery, Diagnostics, Enrichment,
    EnrichmentQuery, EventsAccepted, Explanation, FeedCheck, FeedCreated, FeedList, KeyCreated,
    KeyList, ListCampaigns, ListDeliveries, ListDevices, NoBody, NoQuery, NotificationCreated,
    NotificationList, NotificationPreview, NotificationRecord, NotificationStatistics,
    NotificationStatisticsQuery, PageQuery, Parameter, ParameterForm, Poll, ProviderList,
    ProviderTestResult, ProviderView, Query, RecoverWebhook, RegisterDevice, ReportEvents,
    ReportNotification, SetCampaignStatus, SetTags, SetWebAccess, StreamQuery, Subscribe,
    SubscriptionCreated, Success, TagList, Template, UpdateApp, UpdateWebhook, WebAccess,
    WebConfig, WebReport, WebSubscribe, WebSubscribed, Webhook, WebhookAttempt, WebhookAttemptList,
    WebhookCreated, WebhookList, WebhookRecovered,
};

use super::admin::{apps, diagnostics, keys, providers, web as web_access};
use super::openapi::Answer;
use super::route::{Route, delete, get, hook, patch, post, post_anew, put, raw};
use super::{
    campaigns, deliveries, devices, docs_page, enrichments, events, explain, feeds, hooks,
    notifications, poll_page, polls, preview, probes, sdk, statistics, stream, subscriptions, tags,
    web, webhooks,
};

/// What Meta sends to confirm a webhook.
const CONFIRMATION: &[Parameter] = &[
    Parameter::new("hub.mode", ParameterForm::Text, "`subscribe`"),
    Parameter::new(
        "hub.verify_token",
        ParameterForm::Text,
        "The `verify_token` of the provider `messenger`",
    ),
    Parameter::new("hub.challenge", ParameterForm::Text, "What is answered"),
];
const HTML: &[Answer] = &[Answer::ok(&["text/html"])];
const JSON: &[Answer] = &[Answer::ok(&["application/json"])];
const TEXT: &[Answer] = &[Answer::ok(&["text/plain"])];
const METRICS: &[Answer] = &[Answer::ok(&["text/plain", "application/openmetrics-text"])];
const PARTS: &[Answer] = &[Answer::ok(&["text/css", "text/javascript", "image/png"])];
const EVENT_STREAM: &[Answer] = &[Answer::ok(&["text/event-stream"])];
const SCRIPT: &[Answer] = &[Answer::ok(&["text/javascript"]), Answer::NOT_MODIFIED];

/// Every route there is, in the order of the reference: the application's API, the administrator's, the
/// rest.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = sending();
    routes.extend(audience());
    routes.extend(templates());
    routes.extend(events_out());
    routes.extend(administration());
    routes.extend(browsers());
    routes.extend(beside());
    routes.extend(hooks_of_platforms());
    routes
}

fn sending() -> Vec<Route> {
    vec![
        post::<CreateNotification, NotificationCreated>("/v1/notifications", notifications::create)
            .id("create_notification")
            .about("Create a notification", "spec 4.1, B12 to B17, B19"),
        get::<PageQuery, NotificationList>("/v1/notifications", notifications::list)
            .id("list_notifications")
            .about("List notifications, newest first", "B20"),
        post::<ReportNotification, NotificationCreated>(
            "/v1/notifications/notify",
            notifications::notify,
        )
        .id("report_notification")
        .about("Report a notification that the caller delivers", "spec 4.2, B18"),
        post::<CreateNotification, NotificationPreview>(
            "/v1/notifications/preview",
            preview::preview,
        )
        .id("preview_notification")
        .about("Preview a notification: its payloads, and how many devices it would reach", "B37"),
        get::<NoQuery, NotificationRecord>("/v1/notifications/{id}", notifications::get)
            .id("get_notification")
            .about("Read a notification with its counts", "B20"),
        delete::<NoQuery, Success>("/v1/notifications/{id}", notifications::cancel)
            .id("cancel_notification")
            .about("Cancel a notification: what has not been sent yet", "B20"),
        get::<ListDeliveries, DeliveryList>("/v1/notifications/{id}/deliveries", deliveries::list)
            .id("list_deliveries")
            .about("List the outcome for each device", "B20"),
        get::<NoQuery, Explanation>("/v1/notifications/{id}/explain/{device_id}", explain::explain)
            .id("explain_delivery")
            .about("Explain why a device did or did not receive a notification", "B38"),
        get::<NoQuery, Poll>("/v1/polls/{id}", polls::get)
            .id("get_poll")
            .about("Read a poll with its answer counts", "spec 4.6"),
        post::<AnswerPoll, Success>("/v1/polls/{id}/answers/{answer_id}", polls::answer)
            .id("answer_poll")
            .about("Record an answer to a poll", "B32"),
        post::<ReportEvents, EventsAccepted>("/v1/events", events::record)
            .id("report_events")
            .about("Record what devices did with notifications", "B33"),
    ]
}

fn audience() -> Vec<Route> {
    vec![
        post::<RegisterDevice, Success>("/v1/devices", devices::register)
            .id("register_device")
            .about("Register or update a device", "spec 4.3, B21, B22"),
        get::<ListDevices, DeviceList>("/v1/devices", devices::list)
            .id("list_devices")
            .about("List devices", "B23"),
        get::<NoQuery, Device>("/v1/devices/{device_id}", devices::get)
            .id("get_device")
            .about("Read a device", "B23"),
        delete::<NoQuery, Success>("/v1/devices/{device_id}", devices::delete)
            .id("delete_device")
            .about("Delete a device with all its data", "B23"),
        post::<SetTags, Success>("/v1/devices/{device_id}/tags", devices::set_tags)
            .id("set_device_tags")
            .about("Set tags of a device", "B24"),
        delete::<NoQuery, Success>("/v1/devices/{device_id}/tags/{name}", devices::remove_tag)
            .id("remove_device_tag")
            .about("Remove a tag of a device", "B24"),
        post::<Subscribe, SubscriptionCreated>("/v1/subscriptions", subscriptions::create)
            .id("subscribe")
            .about("Subscribe a browser, a Messenger person or a chat", "B25"),
        get::<PageQuery, TagList>("/v1/tags", tags::list).id("list_tags").about("List tags", "B24"),
        get::<DeviceStatisticsQuery, DeviceStatistics>(
            "/v1/statistics/devices",
            statistics::devices,
        )
        .id("get_device_statistics")
        .about("Count devices by platform and state", "spec 4.5, B26"),
        get::<NotificationStatisticsQuery, NotificationStatistics>(
            "/v1/statistics/notifications",
            statistics::notifications,
        )
        .id("get_notification_statistics")
        .about("Count what was sent and what devices did with it, by day (UTC)", "B33"),
    ]
}

fn templates() -> Vec<Route> {
    vec![
        post::<Template, CampaignCreated>("/v1/campaigns", campaigns::create)
            .id("create_campaign")
            .about("Create a campaign", "spec 2.2, B27, B29"),
        get::<ListCampaigns, CampaignList>("/v1/campaigns", campaigns::list)
            .id("list_campaigns")
            .about("View campaigns, newest first", "spec 4.4, B28"),
        get::<NoQuery, CampaignRecord>("/v1/campaigns/{id}", campaigns::get)
            .id("get_campaign")
            .about("Read a campaign with its template", "B27"),
        put::<Template, Success>("/v1/campaigns/{id}", campaigns::replace)
            .id("replace_campaign")
            .about("Replace the template of a campaign", "B27, B29"),
        put::<SetCampaignStatus, Success>("/v1/campaigns/{id}/status", campaigns::set_status)
            .id("set_campaign_status")
            .about("Activate or disable a campaign", "B27"),
        delete::<NoQuery, Success>("/v1/campaigns/{id}", campaigns::delete)
            .id("delete_campaign")
            .about("Delete a campaign that no notification names", "B27"),
        get::<EnrichmentQuery, Enrichment>("/v1/enrichments/{campaign_id}", enrichments::get)
            .id("get_enrichment")
            .about("Read what a device shows with a notification", "B31")
            .answers(&[Answer::NOT_MODIFIED]),
        post::<CreateFeed, FeedCreated>("/v1/feeds", feeds::create)
            .id("create_feed")
            .about("Create a feed, or find the one of that url", "B30"),
        post::<CheckFeed, FeedCheck>("/v1/feeds/check", feeds::check)
            .id("check_feed")
            .about("Check a feed: what would be read from its url", "B30"),
        get::<PageQuery, FeedList>("/v1/feeds", feeds::list)
            .id("list_feeds")
            .about("View feeds, newest first", "spec 4.7, B30"),
        delete::<NoQuery, Success>("/v1/feeds/{id}", feeds::delete)
            .id("delete_feed")
            .about("Delete a feed that no campaign uses", "B30"),
    ]
}

fn administration() -> Vec<Route> {
    vec![
        post::<CreateApp, AppCreated>("/admin/v1/apps", apps::create)
            .id("create_app")
            .about("Create an application", ""),
        get::<PageQuery, AppList>("/admin/v1/apps", apps::list)
            .id("list_apps")
            .about("List applications, oldest first", ""),
        get::<NoQuery, notify_core::App>("/admin/v1/apps/{id}", apps::get)
            .id("get_app")
            .about("Read an application", ""),
        patch::<UpdateApp, Success>("/admin/v1/apps/{id}", apps::change)
            .id("update_app")
            .about("Rename, suspend or resume an application", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}", apps::delete)
            .id("delete_app")
            .about("Delete an application with everything it owns", ""),
        post::<CreateKey, KeyCreated>("/admin/v1/apps/{id}/keys", keys::create)
            .id("create_api_key")
            .about("Create an API key; it is shown this once", ""),
        get::<NoQuery, KeyList>("/admin/v1/apps/{id}/keys", keys::list)
            .id("list_api_keys")
            .about("List API keys without their secrets", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/keys/{key_id}", keys::revoke)
            .id("revoke_api_key")
            .about("Revoke an API key at once", ""),
        get::<NoQuery, ProviderList>("/admin/v1/apps/{id}/providers", providers::list)
            .id("list_providers")
            .about("List configured providers without their secrets", ""),
        put::<providers::ProviderConfig, Success>(
            "/admin/v1/apps/{id}/providers/{provider}",
            providers::put,
        )
        .id("configure_provider")
        .about("Configure a provider", ""),
        get::<NoQuery, ProviderView>("/admin/v1/apps/{id}/providers/{provider}", providers::get)
            .id("get_provider")
            .about("Read a provider without its secrets", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/providers/{provider}", providers::delete)
            .id("delete_provider")
            .about("Remove a provider", ""),
        post::<NoBody, ProviderTestResult>(
            "/admin/v1/apps/{id}/providers/{provider}/test",
            providers::test,
        )
        .id("test_provider")
        .about("Check the credentials against the provider; no device receives anything", ""),
        post::<NoBody, Success>(
            "/admin/v1/apps/{id}/providers/{provider}/resume",
            providers::resume,
        )
        .id("resume_provider")
        .about("Resume deliveries that are held", ""),
        put::<SetWebAccess, Success>("/admin/v1/apps/{id}/web", web_access::put)
            .id("set_web_access")
            .about("Set which pages may subscribe browsers without an API key", ""),
        get::<NoQuery, WebAccess>("/admin/v1/apps/{id}/web", web_access::get)
            .id("get_web_access")
            .about("Read which pages may subscribe browsers", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/web", web_access::delete)
            .id("delete_web_access")
            .about("Stop all pages from subscribing browsers", ""),
        get::<NoQuery, AppDiagnostics>("/admin/v1/apps/{id}/devices/diagnostics", diagnostics::app)
            .id("get_app_diagnostics")
            .about("Diagnose the devices, providers, webhooks and feeds of an application", ""),
        get::<NoQuery, Diagnostics>("/admin/v1/diagnostics", diagnostics::server)
            .id("get_server_diagnostics")
            .about("Diagnose the server: its settings, storage and problems", ""),
    ]
}

fn browsers() -> Vec<Route> {
    vec![
        get::<NoQuery, WebConfig>("/web/v1/{app_id}", web::config)
            .id("get_web_config")
            .about("Read what a page needs to subscribe", ""),
        post::<WebSubscribe, WebSubscribed>(web::SUBSCRIBE, web::subscribe)
            .id("subscribe_browser")
            .about("Subscribe this browser", "B25"),
        delete::<NoQuery, Success>("/web/v1/{app_id}/devices/{device_id}", web::unsubscribe)
            .id("unsubscribe_browser")
            .about("Delete this browser's device with all its data", "B23"),
        post::<WebReport, EventsAccepted>(
            "/web/v1/{app_id}/devices/{device_id}/events",
            web::report,
        )
        .id("report_browser_events")
        .about("Record what this browser did with notifications", "B33"),
        get::<EnrichmentQuery, Enrichment>(
            "/web/v1/{app_id}/devices/{device_id}/enrichments/{campaign_id}",
            web::enrichment,
        )
        .id("get_browser_enrichment")
        .about("Read what this browser shows with a notification", "B31")
        .query(enrichments::OF_BROWSERS)
        .answers(&[Answer::NOT_MODIFIED]),
        raw("/sdk/notify.js", sdk::page)
            .id("get_sdk_script")
            .about("The SDK for pages", "")
            .answers(SCRIPT),
        raw("/sdk/notify-sw.js", sdk::worker)
            .id("get_service_worker_script")
            .about("The SDK for service workers", "")
            .answers(SCRIPT),
    ]
}

fn beside() -> Vec<Route> {
    vec![
        raw("/healthz", probes::health)
            .id("get_health")
            .about("Whether the process lives", "")
            .answers(JSON),
        raw("/readyz", probes::ready)
            .id("get_readiness")
            .about("Whether it can serve", "")
            .answers(JSON),
        raw("/metrics", probes::metrics)
            .id("get_metrics")
            .about("Metrics in Prometheus text", "")
            .answers(METRICS),
        raw("/openapi.json", probes::openapi)
            .id("get_openapi")
            .about("This document", "")
            .answers(JSON),
        raw("/", docs_page::elsewhere)
            .id("redirect_root_to_docs")
            .about("Redirect to the reference page", "")
            .answers(&[Answer::SEE_OTHER]),
        raw("/docs/", docs_page::elsewhere)
            .id("redirect_to_docs")
            .about("Redirect to the reference page", "")
            .answers(&[Answer::SEE_OTHER]),
        raw("/docs", docs_page::page).id("get_docs").about("Reference page", "").answers(HTML),
        raw("/docs/{file}", docs_page::file)
            .id("get_docs_file")
            .about("Part of the reference page", "")
            .answers(PARTS),
        raw("/polls/{public_id}", poll_page::show)
            .id("get_poll_page")
            .about("Page of a poll, for people", "B32")
            .answers(HTML),
        hook("/polls/{public_id}/votes", poll_page::vote)
            .id("vote_on_poll_page")
            .about("Form of the page of a poll", "B32")
            .reads("application/x-www-form-urlencoded", poll_page::form)
            .answers(&[Answer::SEE_OTHER]),
    ]
}

fn events_out() -> Vec<Route> {
    vec![
        post_anew::<CreateWebhook, WebhookCreated>("/v1/webhooks", webhooks::create)
            .id("create_webhook")
            .about("Create a webhook; its secret is shown this once", "spec 6"),
        get::<PageQuery, WebhookList>("/v1/webhooks", webhooks::list)
            .id("list_webhooks")
            .about("List webhooks, oldest first", "spec 6"),
        get::<NoQuery, Webhook>("/v1/webhooks/{id}", webhooks::get)
            .id("get_webhook")
            .about("Read a webhook", "spec 6"),
        patch::<UpdateWebhook, Success>("/v1/webhooks/{id}", webhooks::change)
            .id("update_webhook")
            .about("Change, disable or enable a webhook", "spec 6"),
        delete::<NoQuery, Success>("/v1/webhooks/{id}", webhooks::delete)
            .id("delete_webhook")
            .about("Delete a webhook with its messages", "spec 6"),
        post_anew::<NoBody, WebhookCreated>("/v1/webhooks/{id}/rotate", webhooks::rotate)
            .id("rotate_webhook_secret")
            .about("Give a webhook another secret; both sign for 24 hours", "spec 6"),
        post_anew::<NoBody, WebhookAttempt>("/v1/webhooks/{id}/test", webhooks::test)
            .id("test_webhook")
            .about("Send a test event to a webhook and answer its outcome", "spec 6"),
        get::<PageQuery, WebhookAttemptList>("/v1/webhooks/{id}/attempts", webhooks::attempts)
            .id("list_webhook_attempts")
            .about("List the messages of a webhook with their outcome, newest first", "spec 6"),
        post::<NoBody, Success>(
            "/v1/webhooks/{id}/attempts/{attempt_id}/redeliver",
            webhooks::redeliver,
        )
        .id("redeliver_webhook_attempt")
        .about("Send a message of a webhook again now", "spec 6"),
        post::<RecoverWebhook, WebhookRecovered>("/v1/webhooks/{id}/recover", webhooks::recover)
            .id("recover_webhook")
            .about("Send again what failed since an instant", "spec 6"),
        raw("/v1/events/stream", stream::stream)
            .id("stream_events")
            .about("Stream events as they happen, as server-sent events", "spec 6")
            .query(StreamQuery::PARAMETERS)
            .answers(EVENT_STREAM),
    ]
}

fn hooks_of_platforms() -> Vec<Route> {
    vec![
        raw("/hooks/messenger/{app_id}", hooks::messenger::verify)
            .id("confirm_messenger_webhook")
            .about("Confirm the webhook to Meta", "")
            .query(CONFIRMATION)
            .answers(TEXT),
        hook("/hooks/messenger/{app_id}", hooks::messenger::receive)
            .id("receive_messenger_events")
            .about("Receive events from Messenger", "B25, B32")
            .reads("application/json", hooks::any_call)
            .answers(JSON),
        hook("/hooks/telegram/{app_id}", hooks::telegram::receive)
            .id("receive_telegram_update")
            .about("Receive updates from Telegram", "B25, B32, B40")
            .reads("application/json", hooks::any_call)
            .answers(JSON),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_tells_what_it_does_and_is_listed_once() {
        let routes = routes();
        let mut seen = std::collections::HashSet::new();
        let mut ids = std::collections::HashSet::new();
        for route in &routes {
            assert!(!route.summary.is_empty(), "{}", route.template);
            let is_snake_case =
                route.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(is_snake_case && route.id.contains('_') || route.id == "subscribe");
            assert!(ids.insert(route.id), "{}", route.id);
            // These rows are shown to callers: nothing else may stand among them.
            let rows: Vec<&str> = route.rows.split(", ").filter(|row| !row.is_empty()).collect();
            let are_rows = rows.iter().all(|row| row.starts_with("spec ") || row.starts_with('B'));
            assert!(are_rows, "{}: {}", route.template, route.rows);
            assert!(!rows.is_empty() || !route.template.starts_with("/v1/"), "{}", route.template);
            assert!(seen.insert((route.method.clone(), route.template)));
        }
    }

    #[test]
    fn the_openapi_document_lists_exactly_the_routes() {
        let document: serde_json::Value =
            serde_json::from_str(&super::super::openapi_json()).unwrap();
        let mut listed: Vec<String> = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            let methods = item.as_object().unwrap().keys();
            listed.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
        }
        let mut expected: Vec<String> =
            routes().iter().map(|row| format!("{} {}", row.method, row.template)).collect();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
    }

    #[test]
    fn every_reference_of_the_openapi_document_leads_somewhere() {
        let text = super::super::openapi_json();
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
