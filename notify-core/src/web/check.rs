//! Reads and checks what an administrator allows and what browsers send.

use super::origin::{origin, push_service};
use super::{
    BrowserSubscription, SetWebAccess, WEB_EVENTS_PER_REQUEST_MAX, WEB_LANGUAGE_CHARS_MAX,
    WEB_ORIGINS_MAX, WEB_PUSH_SERVICES_DEFAULT, WEB_PUSH_SERVICES_MAX, WEB_SECRET_CHARS_MAX,
    WEB_TAGS_MAX, WebAccess, WebEvent, WebReport, WebReportEvent, WebSubscribe,
};
use crate::{
    DeviceId, EventType, NotificationId, Platform, Subscribe, TAG_NAME_CHARS_MAX, Timestamp,
    device::{check_subscription, read_subscription},
    json::{Body, Object},
    path::{Path, path},
    request::request,
    tag::{check_tags, read_tag},
    violations::Findings,
};

request!(SetWebAccess => WebAccess, Body::Required, read_access, check_access);
request!(WebSubscribe => BrowserSubscription, Body::Required, read_browser, check_browser);
request!(WebReport => Vec<WebEvent>, Body::Required, read_report, check_report);

fn read_access(object: &mut Object<'_, '_>) -> SetWebAccess {
    object.require("allowed_origins");
    SetWebAccess {
        allowed_origins: object.strings("allowed_origins", WEB_ORIGINS_MAX).unwrap_or_default(),
        allowed_tags: object.strings("allowed_tags", WEB_TAGS_MAX),
        push_services: object.strings("push_services", WEB_PUSH_SERVICES_MAX),
    }
}

fn check_access(
    request: SetWebAccess,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<WebAccess> {
    let origins = path("allowed_origins");
    if request.allowed_origins.is_empty() {
        findings.broken(&origins, "must hold at least 1 origin");
    }
    findings.at_most(&origins, request.allowed_origins.len(), WEB_ORIGINS_MAX, "origins");
    let tags = path("allowed_tags");
    let names = request.allowed_tags.unwrap_or_default();
    findings.at_most(&tags, names.len(), WEB_TAGS_MAX, "tags");
    for (place, name) in names.iter().enumerate() {
        findings.required_up_to(&tags.index(place), name.clone(), TAG_NAME_CHARS_MAX);
    }
    let services = path("push_services");
    let hosts = request
        .push_services
        .unwrap_or_else(|| WEB_PUSH_SERVICES_DEFAULT.map(str::to_owned).into());
    findings.at_most(&services, hosts.len(), WEB_PUSH_SERVICES_MAX, "hosts");
    Some(WebAccess {
        allowed_origins: each(&origins, &request.allowed_origins, findings, origin),
        allowed_tags: names,
        push_services: each(&services, &hosts, findings, push_service),
    })
}

/// The texts of a list in their own form, each once.
fn each(
    at: &Path<'_>,
    texts: &[String],
    findings: &mut Findings,
    read: fn(&str) -> Result<String, &'static str>,
) -> Vec<String> {
    let mut all = Vec::with_capacity(texts.len());
    for (place, text) in texts.iter().enumerate() {
        match read(text) {
            Ok(text) if !all.contains(&text) => all.push(text),
            Ok(_) => {}
            Err(rule) => findings.broken(&at.index(place), rule),
        }
    }
    all
}

fn read_browser(object: &mut Object<'_, '_>) -> WebSubscribe {
    object.require("subscription");
    WebSubscribe {
        subscription: object.object("subscription", read_subscription).unwrap_or_default(),
        device_id: object.string("device_id"),
        device_secret: object.string("device_secret"),
        language: object.string("language"),
        timezone: object.string("timezone"),
        utc_offset: object.string("utc_offset"),
        tags: object.objects("tags", WEB_TAGS_MAX, read_tag).unwrap_or_default(),
    }
}

fn check_browser(
    request: WebSubscribe,
    now: Timestamp,
    findings: &mut Findings,
) -> Option<BrowserSubscription> {
    let id = path("device_id");
    let device = findings.optional_id(&id, request.device_id.as_deref(), DeviceId::new);
    let at = path("device_secret");
    let secret = findings.text_up_to(&at, request.device_secret, WEB_SECRET_CHARS_MAX);
    if device.is_none() && secret.is_some() {
        findings.broken(&id, "is required with device_secret");
    }
    if device.is_some() && secret.is_none() {
        findings.broken(&at, "is required with device_id");
    }
    let tags = check_tags(request.tags, WEB_TAGS_MAX, findings);
    // A stranger may call this, and administrators read what is kept of it.
    if request.language.as_deref().is_some_and(|text| !text.is_empty() && !is_language(text)) {
        findings.broken(&path("language"), "must be a language code, such as en or pt-BR");
    }
    let subscribe = Subscribe {
        platform: Platform::Web.as_str().to_owned(),
        subscription: Some(request.subscription),
        language: request.language,
        timezone: request.timezone,
        utc_offset: request.utc_offset,
        ..Subscribe::default()
    };
    let subscription = check_subscription(subscribe, now, findings)?;
    Some(BrowserSubscription { subscription, known: device.zip(secret), tags })
}

/// Whether it has the form of a language tag (RFC 5646, section 2.1), as browsers give them.
fn is_language(text: &str) -> bool {
    let is_in_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.len() <= WEB_LANGUAGE_CHARS_MAX && text.bytes().all(is_in_tag)
}

fn read_report(object: &mut Object<'_, '_>) -> WebReport {
    let events = object.objects("events", WEB_EVENTS_PER_REQUEST_MAX, |event| WebReportEvent {
        kind: event.required_string("type"),
        notification_id: event.required_string("notification_id"),
        at: event.instant("at").map(Timestamp),
    });
    WebReport { events: events.unwrap_or_default() }
}

fn check_report(
    request: WebReport,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<Vec<WebEvent>> {
    let WebReport { events: reported } = request;
    let events = path("events");
    if reported.is_empty() {
        findings.broken(&events, "must hold at least 1 event");
    }
    findings.at_most(&events, reported.len(), WEB_EVENTS_PER_REQUEST_MAX, "events");
    let mut valid = Vec::with_capacity(reported.len());
    for (place, event) in reported.iter().enumerate() {
        valid.extend(check_event(&events.index(place), event, findings));
    }
    Some(valid)
}

fn check_event(at: &Path<'_>, event: &WebReportEvent, findings: &mut Findings) -> Option<WebEvent> {
    let kind = findings.word(&at.field("type"), &event.kind, &EventType::ALL, EventType::as_str);
    let id = at.field("notification_id");
    let notification_id = findings.id(&id, &event.notification_id, NotificationId::new);
    let happened = findings.instant(&at.field("at"), event.at.map(Timestamp::as_ms));
    Some(WebEvent { kind: kind?, notification_id: notification_id?, at: happened })
}
