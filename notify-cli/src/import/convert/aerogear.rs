//! The installations of a variant of AeroGear UnifiedPush Server
//! (`GET /rest/export/{variant}/installations`).

use notify_client::notify_core::decode_base64;
use serde_json::Value;

use super::device_row::{Conversion, DeviceRow, Outcome, WebAddress};
use super::record::{Record, text_of, texts_of};

pub(super) fn device(record: &Record) -> Conversion<DeviceRow> {
    let system = record.text("operatingSystem").unwrap_or_default().to_lowercase();
    let variant = record.text("platform").unwrap_or_else(|| system.clone()).to_lowercase();
    let platform = match &*variant {
        "android" => "android",
        "ios" | "ios_token" | "ipados" => "ios",
        "web_push" => "web",
        "windows_wns" | "windows_mpns" => return Ok(Outcome::LeftOut("Windows device")),
        "adm" => return Ok(Outcome::LeftOut("Amazon device")),
        "simplepush" | "simple_push" => return Ok(Outcome::LeftOut("SimplePush device")),
        other => return Err(vec![format!("platform: `{other}` is unknown")]),
    };
    let mut found = DeviceRow::new(platform, "deviceToken");
    let mut errors = Vec::new();
    let token = record.text("deviceToken");
    if platform == "web" {
        match token.as_deref().map(subscription) {
            Some(Ok(web)) => found.web = web,
            Some(Err(rule)) => errors.push(format!("deviceToken: {rule}")),
            None => {}
        }
    } else {
        found.draft.registration.push_token = token;
    }
    let registration = &mut found.draft.registration;
    registration.device_id = record.text("id").unwrap_or_default();
    registration.os_version = record.text("osVersion");
    registration.device_description = record.text("deviceType");
    registration.user_id = record.text("alias");
    match record.flag("enabled") {
        // An operator disabled the device; its address still works.
        Ok(Some(false)) => registration.push_disabled = Some(true),
        Ok(_) => {}
        Err(error) => errors.push(error),
    }
    if let Some(categories) = record.value("categories") {
        match texts_of(&categories) {
            Ok(names) => found.add_tags(names),
            Err(rule) => errors.push(format!("categories: {rule}")),
        }
    }
    if errors.is_empty() { Ok(Outcome::device(found)) } else { Err(errors) }
}

/// The subscription of a browser: the JSON of a `PushSubscription`, in base64.
fn subscription(token: &str) -> Result<WebAddress, &'static str> {
    const RULE: &str = "must be the JSON of a browser's subscription, in base64";
    let json = if token.starts_with('{') {
        token.as_bytes().to_vec()
    } else {
        decode_base64(token).ok_or(RULE)?
    };
    let subscription: Value = serde_json::from_slice(&json).map_err(|_| RULE)?;
    let key = |name: &str| text_of(&subscription["keys"][name]);
    let endpoint = text_of(&subscription["endpoint"]).ok_or(RULE)?;
    Ok(WebAddress { endpoint: Some(endpoint), p256dh: key("p256dh"), auth: key("auth") })
}
