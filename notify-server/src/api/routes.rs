//! Every route there is. What is not here does not exist: 404, 405 with `Allow`, OpenAPI and the
//! route label of the metrics all come from it.

use notify_core::{
    AnswerPoll, AppCreated, AppDiagnostics, AppList, CampaignCreated, CampaignList, CampaignRecord,
    CheckFeed, CreateApp, CreateFeed, CreateKey, CreateNotification, CreateWebhook, DeliveryList,
    Device, DeviceList, DeviceStatistics, DeviceStatisticsQuery, Diagnostics, Enrichment,
    EnrichmentQuery, EventsAccepted, Explanation, FeedCheck, FeedCreated, FeedList, KeyCreated,
    KeyList, ListCampaigns, ListDeliveries, ListDevices, NoBody, NoQuery, NotificationCreated,
    NotificationList, NotificationPreview, NotificationRecord, NotificationStatistics,
    NotificationStatisticsQuery, PageQuery, Parameter, ParameterForm, Poll, ProviderChecked,
    ProviderList, ProviderView, Query, RecoverWebhook, RegisterDevice, ReportEvents,
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

/// Every route there is.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = sending();
    routes.extend(audience());
    routes.extend(templates());
    routes.extend(administration());
    routes.extend(browsers());
    routes.extend(beside());
    routes.extend(hooks_of_platforms());
    routes.extend(events_out());
    routes
}

fn sending() -> Vec<Route> {
    vec![
        post::<CreateNotification, NotificationCreated>("/v1/notifications", notifications::create)
            .about("Create a notification", "spec 4.1, B12 to B17, B19"),
        get::<PageQuery, NotificationList>("/v1/notifications", notifications::list)
            .about("List notifications, newest first", "B20"),
        post::<ReportNotification, NotificationCreated>(
            "/v1/notifications/notify",
            notifications::notify,
        )
        .about("Report a notification that the caller delivers", "spec 4.2, B18"),
        post::<CreateNotification, NotificationPreview>(
            "/v1/notifications/preview",
            preview::preview,
        )
        .about("Show what a notification would be and whom it would reach", "B37"),
        get::<NoQuery, NotificationRecord>("/v1/notifications/{id}", notifications::get)
            .about("Read a notification with its counts", "B20"),
        delete::<NoQuery, Success>("/v1/notifications/{id}", notifications::cancel)
            .about("Cancel what has not been sent yet", "B20"),
        get::<ListDeliveries, DeliveryList>("/v1/notifications/{id}/deliveries", deliveries::list)
            .about("List what became of it device by device", "B20"),
        get::<NoQuery, Explanation>("/v1/notifications/{id}/explain/{device_id}", explain::explain)
            .about("Tell why a device did or did not get it", "B38"),
        get::<NoQuery, Poll>("/v1/polls/{id}", polls::get)
            .about("Read a poll with its answer counts", "spec 4.6"),
        post::<AnswerPoll, Success>("/v1/polls/{id}/answers/{answer_id}", polls::answer)
            .about("Record an answer to a poll", "B32"),
        post::<ReportEvents, EventsAccepted>("/v1/events", events::record)
            .about("Record what devices did with notifications", "B33"),
    ]
}

fn audience() -> Vec<Route> {
    vec![
        post::<RegisterDevice, Success>("/v1/devices", devices::register)
            .about("Register or update a device", "spec 4.3, B21, B22"),
        get::<ListDevices, DeviceList>("/v1/devices", devices::list).about("List devices", "B23"),
        get::<NoQuery, Device>("/v1/devices/{device_id}", devices::get)
            .about("Read a device", "B23"),
        delete::<NoQuery, Success>("/v1/devices/{device_id}", devices::delete)
            .about("Erase a device with all that is kept about it", "B23"),
        post::<SetTags, Success>("/v1/devices/{device_id}/tags", devices::set_tags)
            .about("Set tags of a device", "B24"),
        delete::<NoQuery, Success>("/v1/devices/{device_id}/tags/{name}", devices::remove_tag)
            .about("Remove a tag of a device", "B24"),
        post::<Subscribe, SubscriptionCreated>("/v1/subscriptions", subscriptions::create)
            .about("Subscribe a browser, a Messenger person or a chat", "B25"),
        get::<PageQuery, TagList>("/v1/tags", tags::list).about("List tags", "B24"),
        get::<DeviceStatisticsQuery, DeviceStatistics>(
            "/v1/statistics/devices",
            statistics::devices,
        )
        .about("Count devices by platform and state", "spec 4.5, B26"),
        get::<NotificationStatisticsQuery, NotificationStatistics>(
            "/v1/statistics/notifications",
            statistics::notifications,
        )
        .about("Count what was sent and what devices did with it, by day (UTC)", "B33"),
    ]
}

fn templates() -> Vec<Route> {
    vec![
        post::<Template, CampaignCreated>("/v1/campaigns", campaigns::create)
            .about("Create a campaign", "spec 2.2, B27, B29"),
        get::<ListCampaigns, CampaignList>("/v1/campaigns", campaigns::list)
            .about("View campaigns, newest first", "spec 4.4, B28"),
        get::<NoQuery, CampaignRecord>("/v1/campaigns/{id}", campaigns::get)
            .about("Read a campaign with its template", "B27"),
        put::<Template, Success>("/v1/campaigns/{id}", campaigns::replace)
            .about("Replace the template of a campaign", "B27, B29"),
        put::<SetCampaignStatus, Success>("/v1/campaigns/{id}/status", campaigns::set_status)
            .about("Activate or disable a campaign", "B27"),
        delete::<NoQuery, Success>("/v1/campaigns/{id}", campaigns::delete)
            .about("Delete a campaign that no notification names", "B27"),
        get::<EnrichmentQuery, Enrichment>("/v1/enrichments/{campaign_id}", enrichments::get)
            .about("What a device shows beside a notification", "B31")
            .answers(&[Answer::NOT_MODIFIED]),
        post::<CreateFeed, FeedCreated>("/v1/feeds", feeds::create)
            .about("Create a feed, or find the one of that url", "B30"),
        post::<CheckFeed, FeedCheck>("/v1/feeds/check", feeds::check)
            .about("Show what would be taken from the feed of a url", "B30"),
        get::<PageQuery, FeedList>("/v1/feeds", feeds::list)
            .about("View feeds, newest first", "spec 4.7, B30"),
        delete::<NoQuery, Success>("/v1/feeds/{id}", feeds::delete)
            .about("Delete a feed that no campaign uses", "B30"),
    ]
}

fn administration() -> Vec<Route> {
    vec![
        post::<CreateApp, AppCreated>("/admin/v1/apps", apps::create)
            .about("Create an application", ""),
        get::<PageQuery, AppList>("/admin/v1/apps", apps::list)
            .about("List applications, oldest first", ""),
        get::<NoQuery, notify_core::App>("/admin/v1/apps/{id}", apps::get)
            .about("Read an application", ""),
        patch::<UpdateApp, Success>("/admin/v1/apps/{id}", apps::change)
            .about("Rename, suspend or resume an application", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}", apps::delete)
            .about("Delete an application with everything it owns", ""),
        post::<CreateKey, KeyCreated>("/admin/v1/apps/{id}/keys", keys::create)
            .about("Create an API key; it is shown this once", ""),
        get::<NoQuery, KeyList>("/admin/v1/apps/{id}/keys", keys::list)
            .about("List API keys without their secrets", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/keys/{key_id}", keys::revoke)
            .about("Revoke an API key at once", ""),
        get::<NoQuery, ProviderList>("/admin/v1/apps/{id}/providers", providers::list)
            .about("List configured providers without their secrets", ""),
        put::<providers::ProviderConfig, Success>(
            "/admin/v1/apps/{id}/providers/{provider}",
            providers::put,
        )
        .about("Configure a provider", ""),
        get::<NoQuery, ProviderView>("/admin/v1/apps/{id}/providers/{provider}", providers::get)
            .about("Read a provider without its secrets", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/providers/{provider}", providers::delete)
            .about("Remove a provider", ""),
        post::<NoBody, ProviderChecked>(
            "/admin/v1/apps/{id}/providers/{provider}/test",
            providers::test,
        )
        .about("Check the credentials against the provider; nobody gets anything", ""),
        post::<NoBody, Success>(
            "/admin/v1/apps/{id}/providers/{provider}/resume",
            providers::resume,
        )
        .about("Let deliveries go on that are held", ""),
        put::<SetWebAccess, Success>("/admin/v1/apps/{id}/web", web_access::put)
            .about("Say which pages may subscribe browsers without an API key", ""),
        get::<NoQuery, WebAccess>("/admin/v1/apps/{id}/web", web_access::get)
            .about("Read which pages may", ""),
        delete::<NoQuery, Success>("/admin/v1/apps/{id}/web", web_access::delete)
            .about("Let no page call any more", ""),
        get::<NoQuery, AppDiagnostics>("/admin/v1/apps/{id}/devices/diagnostics", diagnostics::app)
            .about("How the devices of an application fit its providers", ""),
        get::<NoQuery, Diagnostics>("/admin/v1/diagnostics", diagnostics::server)
            .about("How the server is set up, and whether it works", ""),
    ]
}

fn browsers() -> Vec<Route> {
    vec![
        get::<NoQuery, WebConfig>("/web/v1/{app_id}", web::config)
            .about("What a page needs to subscribe", ""),
        post::<WebSubscribe, WebSubscribed>(web::SUBSCRIBE, web::subscribe)
            .about("Subscribe this browser", "B25"),
        delete::<NoQuery, Success>("/web/v1/{app_id}/devices/{device_id}", web::unsubscribe)
            .about("Erase this browser's device with all that is kept about it", "B23"),
        post::<WebReport, EventsAccepted>(
            "/web/v1/{app_id}/devices/{device_id}/events",
            web::report,
        )
        .about("Record what this browser did with notifications", "B33"),
        get::<EnrichmentQuery, Enrichment>(
            "/web/v1/{app_id}/devices/{device_id}/enrichments/{campaign_id}",
            web::enrichment,
        )
        .about("What this browser shows beside a notification", "B31")
        .query(enrichments::OF_BROWSERS)
        .answers(&[Answer::NOT_MODIFIED]),
        raw("/sdk/notify.js", sdk::page).about("The SDK for pages", "").answers(SCRIPT),
        raw("/sdk/notify-sw.js", sdk::worker)
            .about("The SDK for service workers", "")
            .answers(SCRIPT),
    ]
}

fn beside() -> Vec<Route> {
    vec![
        raw("/healthz", probes::health).about("Whether the process lives", "").answers(JSON),
        raw("/readyz", probes::ready).about("Whether it can serve", "").answers(JSON),
        raw("/metrics", probes::metrics).about("Metrics in Prometheus text", "").answers(METRICS),
        raw("/openapi.json", probes::openapi).about("This document", "").answers(JSON),
        raw("/", docs_page::elsewhere)
            .about("To the reference page", "")
            .answers(&[Answer::SEE_OTHER]),
        raw("/docs/", docs_page::elsewhere)
            .about("To the reference page", "")
            .answers(&[Answer::SEE_OTHER]),
        raw("/docs", docs_page::page).about("Reference page", "").answers(HTML),
        raw("/docs/{file}", docs_page::file).about("Part of the reference page", "").answers(PARTS),
        raw("/polls/{public_id}", poll_page::show)
            .about("Page of a poll, for people", "B32")
            .answers(HTML),
        hook("/polls/{public_id}/votes", poll_page::vote)
            .about("Form of the page of a poll", "B32")
            .reads("application/x-www-form-urlencoded", poll_page::form)
            .answers(&[Answer::SEE_OTHER]),
    ]
}

fn events_out() -> Vec<Route> {
    vec![
        post_anew::<CreateWebhook, WebhookCreated>("/v1/webhooks", webhooks::create)
            .about("Create a webhook; its secret is shown this once", "spec 6"),
        get::<PageQuery, WebhookList>("/v1/webhooks", webhooks::list)
            .about("List webhooks, oldest first", "spec 6"),
        get::<NoQuery, Webhook>("/v1/webhooks/{id}", webhooks::get)
            .about("Read a webhook", "spec 6"),
        patch::<UpdateWebhook, Success>("/v1/webhooks/{id}", webhooks::change)
            .about("Change, disable or enable a webhook", "spec 6"),
        delete::<NoQuery, Success>("/v1/webhooks/{id}", webhooks::delete)
            .about("Delete a webhook with its messages", "spec 6"),
        post_anew::<NoBody, WebhookCreated>("/v1/webhooks/{id}/rotate", webhooks::rotate)
            .about("Give a webhook another secret; both sign for 24 hours", "spec 6"),
        post_anew::<NoBody, WebhookAttempt>("/v1/webhooks/{id}/test", webhooks::test)
            .about("Send an event that tests a webhook, and tell what came of it", "spec 6"),
        get::<PageQuery, WebhookAttemptList>("/v1/webhooks/{id}/attempts", webhooks::attempts)
            .about("List what was sent to a webhook and what came of it, newest first", "spec 6"),
        post::<NoBody, Success>(
            "/v1/webhooks/{id}/attempts/{attempt_id}/redeliver",
            webhooks::redeliver,
        )
        .about("Send a message now, whether it is over or waits to be tried again", "spec 6"),
        post::<RecoverWebhook, WebhookRecovered>("/v1/webhooks/{id}/recover", webhooks::recover)
            .about("Send now what failed since then", "spec 6"),
        raw("/v1/events/stream", stream::stream)
            .about("Show what happens as it happens, as server-sent events", "spec 6")
            .query(StreamQuery::PARAMETERS)
            .answers(EVENT_STREAM),
    ]
}

fn hooks_of_platforms() -> Vec<Route> {
    vec![
        raw("/hooks/messenger/{app_id}", hooks::messenger::verify)
            .about("Confirm the webhook to Meta", "")
            .query(CONFIRMATION)
            .answers(TEXT),
        hook("/hooks/messenger/{app_id}", hooks::messenger::receive)
            .about("Hear from Messenger what people did", "B25, B32")
            .reads("application/json", hooks::any_call)
            .answers(JSON),
        hook("/hooks/telegram/{app_id}", hooks::telegram::receive)
            .about("Hear from Telegram what people did", "B25, B32, B40")
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
        for route in &routes {
            assert!(!route.summary.is_empty(), "{}", route.template);
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
