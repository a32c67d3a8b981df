//! Checks the bodies of notifications that are created or reported.

use super::{
    Audience, Content, CreateNotification, Notification, NotificationContent, Report,
    ReportNotification, audience, message, read, schedule,
};
use crate::json::Body;
use crate::request::{self, request};
use crate::violations::{Findings, path};
use crate::{NotificationId, RESERVED_NOTIFICATION_IDS, Timestamp, Violations, check_poll};

request!(CreateNotification => Notification, Body::Required, read::create, create);
request!(ReportNotification => Report, Body::Required, read::report, report);

impl CreateNotification {
    /// Reads a request that was accepted before. Its texts may be longer than new ones may be: it was
    /// promised to be delivered.
    ///
    /// # Errors
    /// Everything else that is wrong.
    pub fn parse_accepted(body: &[u8], now: Timestamp) -> Result<Notification, Violations> {
        let given = (Body::Required, now);
        request::parse_into(Findings::of_accepted(), body, given, read::create, create)
    }
}

fn create(
    request: CreateNotification,
    now: Timestamp,
    findings: &mut Findings,
) -> Option<Notification> {
    let target = audience::check_target(
        &audience::Asked {
            platforms: request.platforms.as_deref(),
            android: request.android_device_ids.as_deref(),
            ios: request.ios_device_ids.as_deref(),
            any: request.device_ids.as_deref(),
        },
        findings,
    );
    let tag = audience::check_tags(request.content.tags.as_deref(), findings);
    let schedule =
        schedule::check(request.send_at, request.send_at_local.as_deref(), now, findings);
    let ttl_seconds = schedule::check_ttl(request.ttl_seconds, findings);
    let priority = schedule::check_priority(request.priority.as_deref(), findings);
    let collapse_key = schedule::check_collapse_key(request.collapse_key, findings);
    let content = check_content(request.text, request.content, findings);
    Some(Notification {
        audience: Audience { target: target?, tag },
        content: content?,
        schedule: schedule?,
        passed_send_at: request.send_at.map(Timestamp).filter(|at| *at <= now),
        ttl_seconds,
        priority: priority?,
        collapse_key,
    })
}

fn report(request: ReportNotification, _now: Timestamp, findings: &mut Findings) -> Option<Report> {
    let id = findings.id(&path("id"), &request.id, |text| {
        if RESERVED_NOTIFICATION_IDS.contains(&text) {
            return Err("must not be `notify` or `preview`");
        }
        NotificationId::new(text)
    });
    let platforms = audience::check_platforms(request.platforms.as_deref(), findings);
    let tag = audience::check_tags(request.content.tags.as_deref(), findings);
    let content = check_content(request.text, request.content, findings);
    Some(Report { id: id?, platforms, tag, content: content? })
}

/// With a poll, every other setting is ignored.
fn check_content(
    text: Option<String>,
    content: NotificationContent,
    findings: &mut Findings,
) -> Option<Content> {
    match content.poll {
        Some(poll) => check_poll(&path("poll"), poll, findings).map(Content::Poll),
        None => {
            let message = message::check(text.unwrap_or_default(), content, findings);
            Some(Content::Message(Box::new(message)))
        }
    }
}
