//! The CSV export of OneSignal's subscriptions, which were called players.

use notify_client::notify_core::{AttributeValue, is_attribute_name};

use super::device_row::{Conversion, DeviceRow, Outcome, WebAddress};
use super::pairs::pairs;
use super::record::Record;
use super::zone::{Unit, offset};

/// What precedes the name of a tag that does not begin with a letter.
const TAG_PREFIX: &str = "tag_";

pub(super) fn device(record: &Record) -> Conversion<DeviceRow> {
    let platform = match &*record.text("device_type").unwrap_or_default() {
        "0" | "iOSPush" => "ios",
        "1" | "AndroidPush" => "android",
        // Chrome, Firefox, Edge, and Safari since it has Web Push.
        "5" | "8" | "12" | "17" | "ChromePush" | "FirefoxPush" | "EdgePush" | "SafariPush" => "web",
        other => return excluded(other),
    };
    let mut errors = Vec::new();
    match is_unsubscribed(record) {
        Ok(true) => return Ok(Outcome::LeftOut("unsubscribed")),
        Ok(false) => {}
        Err(error) => errors.push(error),
    }
    let mut found = DeviceRow::new(platform, "identifier");
    let identifier = record.text("identifier");
    let registration = &mut found.draft.registration;
    if platform == "web" {
        if identifier.as_ref().is_some_and(|url| !url.starts_with("https://")) {
            errors.push("identifier: must be the URL of a browser's subscription".to_owned());
        }
        let (p256dh, auth) = (record.text("web_p256"), record.text("web_auth"));
        found.web = WebAddress { endpoint: identifier, p256dh, auth };
    } else {
        registration.push_token = identifier;
        registration.app_version = record.text("game_version");
        registration.os_version = record.text("device_os");
        registration.device_description = record.text("device_model");
        registration.ad_id = record.text("ad_id").filter(|id| !id.eq_ignore_ascii_case("OptedOut"));
        registration.country = record.text("country");
    }
    let ids = ["subscription_id", "player_id", "id"];
    registration.device_id = record.first_text(&ids).unwrap_or_default();
    registration.user_id = record.first_text(&["external_user_id", "external_id"]);
    registration.language = record.text("language");
    registration.timezone = record.text("timezone_id");
    match utc_offset(record) {
        Ok(offset) => registration.utc_offset = offset,
        Err(error) => errors.push(error),
    }
    match record.text("tags").map(|tags| pairs(&tags)) {
        Some(Ok(tags)) => set_attributes(&mut found, tags, &mut errors),
        Some(Err(rule)) => errors.push(format!("tags: {rule}")),
        None => {}
    }
    if errors.is_empty() { Ok(Outcome::device(found)) } else { Err(errors) }
}

/// Why a subscription of this type is left out.
fn excluded(device_type: &str) -> Conversion<DeviceRow> {
    Ok(Outcome::LeftOut(match device_type {
        "2" | "FireOSPush" => "Amazon device",
        "3" | "6" | "WindowsPush" => "Windows device",
        "4" | "ChromeExtensionPush" => "Chrome extension",
        "7" | "SafariLegacyPush" => "Safari before Web Push",
        "9" | "macOSPush" => "Apple device other than iOS",
        "10" => "Alexa",
        "11" | "Email" => "email address",
        "13" | "HuaweiPush" => "Huawei device",
        "14" | "SMS" => "telephone number",
        other => return Err(vec![format!("device_type: `{other}` is unknown")]),
    }))
}

/// Whether OneSignal sends nothing to the subscription: its identifier no longer works, or the user opted
/// out. The export does not tell one from the other.
fn is_unsubscribed(record: &Record) -> Result<bool, String> {
    if record.flag("invalid_identifier")? == Some(true) {
        return Ok(true);
    }
    let Some(types) = record.text("notification_types") else { return Ok(false) };
    let types: f64 =
        types.parse().map_err(|_| "notification_types: must be a number".to_owned())?;
    Ok(types <= 0.0)
}

/// The offset of `timezone`, which is in seconds: that of the zone when the device was last active.
fn utc_offset(record: &Record) -> Result<Option<String>, String> {
    let Some(seconds) = record.text("timezone") else { return Ok(None) };
    offset(&seconds, Unit::Seconds).map(Some).map_err(|rule| format!("timezone: {rule}"))
}

/// Makes attributes of OneSignal's tags, which have names and values. The values stay texts, as in OneSignal.
/// If those that look like numbers became numbers, `zip = "10115"` would not match, and `3.10` would be 3.1.
fn set_attributes(found: &mut DeviceRow, tags: Vec<(String, String)>, errors: &mut Vec<String>) {
    for (tag, value) in tags {
        let name = attribute_name(&tag);
        if !is_attribute_name(&name) {
            errors.push(format!("tags: the name `{tag}` is too long for an attribute"));
        } else if found
            .draft
            .attributes
            .0
            .insert(name.clone(), Some(AttributeValue::Text(value)))
            .is_some()
        {
            errors
                .push(format!("tags: `{tag}` and another tag both become the attribute `{name}`"));
        }
    }
}

/// The name of an attribute for a tag: `firstName` and `First name` become `first_name`.
fn attribute_name(tag: &str) -> String {
    let mut name = String::new();
    let mut is_after_small = false;
    for letter in tag.chars() {
        if letter.is_ascii_uppercase() && is_after_small && !name.ends_with('_') {
            name.push('_');
        }
        is_after_small = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_end_matches('_');
    if name.starts_with(|letter: char| letter.is_ascii_lowercase()) {
        name.to_owned()
    } else {
        format!("{TAG_PREFIX}{name}")
    }
}
