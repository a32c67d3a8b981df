//! Reads the bodies of notifications that are created or reported. Target and timing are unknown to
//! a report.

use super::{
    AndroidSettings, CreateNotification, DEVICE_IDS_MAX, IosSettings, MessengerSettings,
    NotificationContent, ReportNotification, TAGS_MAX, TTL_SECONDS_MAX, WEB_PUSH_ACTIONS_MAX,
    WebPushAction, WebPushSettings,
};
use crate::{json::Object, read_poll};

/// Values of `platforms` that are kept: duplicates count once, so that there is no limit.
const PLATFORMS_KEPT_MAX: usize = usize::MAX;

pub(super) fn create(object: &mut Object<'_, '_>) -> CreateNotification {
    CreateNotification {
        text: object.string("text"),
        platforms: object.strings("platforms", PLATFORMS_KEPT_MAX),
        android_device_ids: object.strings("android_device_ids", DEVICE_IDS_MAX),
        ios_device_ids: object.strings("ios_device_ids", DEVICE_IDS_MAX),
        device_ids: object.strings("device_ids", DEVICE_IDS_MAX),
        content: content(object),
        send_at: object.instant("send_at"),
        send_at_local: object.string("send_at_local"),
        ttl_seconds: object.whole("ttl_seconds", TTL_SECONDS_MAX),
        priority: object.string("priority"),
        collapse_key: object.string("collapse_key"),
    }
}

pub(super) fn report(object: &mut Object<'_, '_>) -> ReportNotification {
    ReportNotification {
        id: object.required_string("id"),
        text: object.string("text"),
        platforms: object.strings("platforms", PLATFORMS_KEPT_MAX),
        content: content(object),
    }
}

fn content(object: &mut Object<'_, '_>) -> NotificationContent {
    let is_poll = object.has("poll");
    NotificationContent {
        tags: object.strings("tags", TAGS_MAX),
        url: object.string("url"),
        image_url: object.string("image_url"),
        campaign_id: object.string("campaign_id"),
        custom_json_key: object.string("custom_json_key"),
        custom_json_value: object.raw_object("custom_json_value"),
        android_json: object.raw_object("android_json"),
        ios_json: object.raw_object("ios_json"),
        android_settings: object.object("android_settings", |settings| AndroidSettings {
            title: settings.string("title"),
            sound: settings.string("sound"),
        }),
        ios_settings: object.object("ios_settings", |settings| ios_settings(settings, is_poll)),
        web_push_settings: object.object("web_push_settings", |settings| WebPushSettings {
            actions: settings
                .objects("actions", WEB_PUSH_ACTIONS_MAX, web_push_action)
                .unwrap_or_default(),
        }),
        social_messenger_settings: object.object("social_messenger_settings", |settings| {
            MessengerSettings { view_button: settings.string("view_button") }
        }),
        poll: object.object("poll", read_poll),
    }
}

/// With a poll the badge is ignored: any number will do.
fn ios_settings(object: &mut Object<'_, '_>, is_poll: bool) -> IosSettings {
    let badge =
        if is_poll { object.float("badge").and(None) } else { object.whole("badge", u32::MAX) };
    IosSettings { badge, sound: object.required_string("sound") }
}

fn web_push_action(object: &mut Object<'_, '_>) -> WebPushAction {
    WebPushAction {
        title: object.required_string("title"),
        icon: object.string("icon"),
        action: object.string("action"),
        url: object.string("url"),
    }
}
