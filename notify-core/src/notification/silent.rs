//! The rules of silent notifications, which wake the app and show nothing.

use crate::violations::{Validator, path};
use crate::{NotificationContent, Platform};

/// The platforms whose apps can be woken without showing anything.
pub(super) const PLATFORMS: [Platform; 2] = [Platform::Android, Platform::Ios];

const SHOWS: &str = "must be absent from a silent notification, which shows nothing";

/// Checks that nothing shows, and that there is something for the app.
pub(super) fn check(text: Option<&str>, content: &NotificationContent, validator: &mut Validator) {
    let has_text = |text: Option<&str>| text.is_some_and(|text| !text.is_empty());
    let android = content.android_options.as_ref();
    let android_text =
        |option: fn(&crate::AndroidOptions) -> Option<&str>| has_text(android.and_then(option));
    let android_path = path("android_options");
    let shown = [
        (path("text"), has_text(text)),
        (path("title"), has_text(content.title.as_deref())),
        (path("translations"), content.translations.is_some()),
        (path("poll"), content.poll.is_some()),
        (path("image_url"), has_text(content.image_url.as_deref())),
        (path("android_json"), content.android_json.is_some()),
        (path("ios_json"), content.ios_json.is_some()),
        (path("android_settings"), content.android_settings.is_some()),
        (path("ios_settings"), content.ios_settings.is_some()),
        (path("web_push_settings"), content.web_push_settings.is_some()),
        (path("social_messenger_settings"), content.social_messenger_settings.is_some()),
        (path("ios_options"), content.ios_options.is_some()),
        (path("web_options"), content.web_options.is_some()),
        // The other options of Android concern the message, and show nothing.
        (android_path.field("channel_id"), android_text(|of| of.channel_id.as_deref())),
        (android_path.field("icon"), android_text(|of| of.icon.as_deref())),
        (android_path.field("color"), android_text(|of| of.color.as_deref())),
        (
            android_path.field("notification_count"),
            android.is_some_and(|options| options.notification_count.is_some()),
        ),
        (android_path.field("visibility"), android_text(|of| of.visibility.as_deref())),
    ];
    for (at, _) in shown.iter().filter(|(_, is_given)| *is_given) {
        validator.violation(at, SHOWS);
    }
    let has_data = has_text(content.url.as_deref())
        || has_text(content.campaign_id.as_deref())
        || has_text(content.custom_json_key.as_deref());
    if !has_data && content.poll.is_none() {
        validator.violation(&path("silent"), "requires url, campaign_id or custom_json_key");
    }
}

/// Checks that a target of platforms has no other ones. Unknown names are reported elsewhere.
pub(super) fn check_platforms(platforms: &[String], validator: &mut Validator) {
    let at = path("platforms");
    for (index, name) in platforms.iter().enumerate() {
        if name.parse().is_ok_and(|platform| !PLATFORMS.contains(&platform)) {
            let what = "cannot get a silent notification, which goes to android and ios alone";
            validator.violation(&at.index(index), what);
        }
    }
}
