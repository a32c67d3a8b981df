//! Checks what a message shows.

use super::{
    ActionButton, CampaignRef, Extra, IosAlert, IosSettings, Message, NotificationContent,
    WEB_PUSH_ACTIONS_MAX, WEB_PUSH_ACTIONS_MIN, WebPushAction, payload,
};
use crate::json::JsonObject;
use crate::rules::REQUIRED;
use crate::violations::{Findings, Path, path};

pub(super) fn check(
    text: String,
    content: NotificationContent,
    findings: &mut Findings,
) -> Message {
    let text = findings.required(&path("text"), text);
    let android = content.android_settings.unwrap_or_default();
    let android_path = path("android_settings");
    let messenger = content.social_messenger_settings.unwrap_or_default();
    let messenger_path = path("social_messenger_settings");
    if let Some(android_json) = &content.android_json {
        payload::check_android(android_json, findings);
    }
    if let Some(ios_json) = &content.ios_json {
        payload::check_ios(ios_json, findings);
    }
    Message {
        text,
        url: findings.uri(&path("url"), content.url),
        image_url: findings.http_url(&path("image_url"), content.image_url),
        campaign: check_campaign(content.campaign_id.as_deref(), findings),
        extra: check_extra(content.custom_json_key, content.custom_json_value, findings),
        android_json: content.android_json,
        ios_json: content.ios_json,
        android_title: findings.text(&android_path.field("title"), android.title),
        android_sound: findings.text(&android_path.field("sound"), android.sound),
        ios_alert: content.ios_settings.and_then(|settings| check_ios(settings, findings)),
        web_push_actions: content
            .web_push_settings
            .map(|settings| check_actions(settings.actions, findings))
            .unwrap_or_default(),
        view_button: findings.text(&messenger_path.field("view_button"), messenger.view_button),
    }
}

fn check_campaign(id: Option<&str>, findings: &mut Findings) -> Option<CampaignRef> {
    findings.optional_id(&path("campaign_id"), id, |id| match id {
        "default" => Ok(CampaignRef::Default),
        id => id.parse().map(CampaignRef::Id).map_err(|_| "names no campaign"),
    })
}

/// Key and value come together or not at all.
fn check_extra(
    key: Option<String>,
    value: Option<JsonObject>,
    findings: &mut Findings,
) -> Option<Extra> {
    let key_path = path("custom_json_key");
    let key = findings.text(&key_path, key);
    if let Some(key) = &key {
        payload::check_extra_key(&key_path, key, findings);
    }
    match (key, value) {
        (Some(key), Some(value)) => Some(Extra { key, value }),
        (Some(_), None) => {
            findings.broken(&path("custom_json_value"), "is required with custom_json_key");
            None
        }
        (None, Some(_)) => {
            findings.broken(&key_path, "is required with custom_json_value");
            None
        }
        (None, None) => None,
    }
}

fn check_ios(settings: IosSettings, findings: &mut Findings) -> Option<IosAlert> {
    let at = path("ios_settings");
    if settings.badge.is_none() {
        findings.broken(&at.field("badge"), REQUIRED);
    }
    let sound = findings.required(&at.field("sound"), settings.sound);
    Some(IosAlert { badge: settings.badge?, sound })
}

fn check_actions(actions: Vec<WebPushAction>, findings: &mut Findings) -> Vec<ActionButton> {
    let settings = path("web_push_settings");
    let at = settings.field("actions");
    if !(WEB_PUSH_ACTIONS_MIN..=WEB_PUSH_ACTIONS_MAX).contains(&actions.len()) {
        let (min, max) = (WEB_PUSH_ACTIONS_MIN, WEB_PUSH_ACTIONS_MAX);
        findings.broken(&at, format_args!("must hold {min} to {max} actions"));
    }
    let mut taken: Vec<String> = Vec::with_capacity(actions.len());
    for (place, action) in actions.iter().enumerate() {
        let Some(name) = action.action.as_ref().filter(|name| !name.is_empty()) else { continue };
        if taken.contains(name) {
            findings.broken(&at.index(place).field("action"), "must not be shared by two actions");
        }
        taken.push(name.clone());
    }
    let mut valid = Vec::with_capacity(actions.len());
    for (place, mut action) in actions.into_iter().enumerate() {
        let given = action.action.take().filter(|name| !name.is_empty());
        let name = given.unwrap_or_else(|| free_name(&mut taken, place));
        valid.push(check_action(&at.index(place), action, name, findings));
    }
    valid
}

/// `action-N` by the button's place, or the next one that is free.
fn free_name(taken: &mut Vec<String>, place: usize) -> String {
    let mut number = place + 1;
    let name = loop {
        let name = format!("action-{number}");
        if !taken.contains(&name) {
            break name;
        }
        number += 1;
    };
    taken.push(name.clone());
    name
}

fn check_action(
    at: &Path<'_>,
    action: WebPushAction,
    name: String,
    findings: &mut Findings,
) -> ActionButton {
    ActionButton {
        title: findings.required(&at.field("title"), action.title),
        icon: findings.http_url(&at.field("icon"), action.icon),
        action: findings.text(&at.field("action"), Some(name)).unwrap_or_default(),
        url: findings.uri(&at.field("url"), action.url),
    }
}
