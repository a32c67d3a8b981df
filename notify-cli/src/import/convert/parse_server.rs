//! The class `_Installation` of Parse Server: as the REST API returns it (`{"results": […]}`), as MongoDB
//! exports it (`mongoexport`), and as a CSV file.

use super::device_row::{Conversion, DeviceRow, Outcome};
use super::record::{Record, texts_of};
use super::zone::language_and_country;

/// How MongoDB stores a pointer to a user: this, and the id.
const USER_POINTER: &str = "_User$";

pub(super) fn device(record: &Record) -> Conversion<DeviceRow> {
    let push_type = record.text("pushType").unwrap_or_default().to_lowercase();
    let platform = match (&*record.text("deviceType").unwrap_or_default(), &*push_type) {
        ("ios", "gcm" | "fcm") => return Ok(Outcome::LeftOut("FCM token of an iOS device")),
        ("android", "ppns") => return Ok(Outcome::LeftOut("push service of Parse (ppns)")),
        ("ios", _) => "ios",
        ("android", _) => "android",
        ("winrt" | "winphone" | "dotnet" | "windows", _) => {
            return Ok(Outcome::LeftOut("Windows device"));
        }
        ("osx" | "macos" | "tvos" | "watchos" | "xros", _) => {
            return Ok(Outcome::LeftOut("Apple device other than iOS"));
        }
        ("embedded", _) => return Ok(Outcome::LeftOut("embedded device")),
        ("js" | "web", _) => return Ok(Outcome::LeftOut("installation without push")),
        (other, _) => return Err(vec![format!("deviceType: `{other}` is unknown")]),
    };
    let mut found = DeviceRow::new(platform, "deviceToken");
    let mut errors = Vec::new();
    let registration = &mut found.draft.registration;
    registration.push_token = record.text("deviceToken");
    let ids = ["installationId", "objectId", "_id"];
    registration.device_id = record.first_text(&ids).unwrap_or_default();
    registration.app_version = record.text("appVersion");
    registration.store_identifier = record.text("appIdentifier");
    registration.user_id = user(record);
    if let Some(locale) = record.text("localeIdentifier") {
        let (language, country) = language_and_country(&locale);
        (registration.language, registration.country) = (Some(language), country);
    }
    registration.timezone = record.text("timeZone");
    if let Some(channels) = record.value("channels") {
        match texts_of(&channels) {
            Ok(names) => found.add_tags(names),
            Err(rule) => errors.push(format!("channels: {rule}")),
        }
    }
    if errors.is_empty() { Ok(Outcome::device(found)) } else { Err(errors) }
}

/// The id of the user to whom the installation points: as MongoDB stores it, as the REST API returns it, or
/// as PostgreSQL stores it.
fn user(record: &Record) -> Option<String> {
    let pointer = record.first_text(&["_p_user", "user"])?;
    Some(pointer.strip_prefix(USER_POINTER).unwrap_or(&pointer).to_owned())
}
