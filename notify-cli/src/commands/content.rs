//! Content options of `send` and `report`.

use clap::Args;
use notify_client::notify_core::{
    AndroidSettings, IosSettings, MessengerSettings, NotificationContent, json::JsonObject,
};

use crate::{failure::Failure, input};

/// The content of a notification. Web push buttons and the options of platforms need
/// `--file`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Content")]
pub(crate) struct ContentArgs {
    /// Main text; `-` for standard input.
    #[arg(long)]
    pub(crate) text: Option<String>,
    /// Title (default: the application's name).
    #[arg(long)]
    title: Option<String>,
    /// The texts for devices of other languages, as JSON, or a file with it (`-` for standard input):
    /// `{"de": {"text": "…", "title": "…", "url": "…", "image_url": "…"}}`.
    #[arg(long, value_name = "FILE|JSON")]
    translations: Option<String>,
    /// Only devices that have this tag set to true.
    #[arg(long, help_heading = "Target", value_parser = input::filter())]
    pub(crate) tag: Option<String>,
    /// Deep link.
    #[arg(long)]
    url: Option<String>,
    /// Image shown with the notification.
    #[arg(long, value_name = "URL")]
    image_url: Option<String>,
    /// Name or id of the campaign to attach, or `default`.
    #[arg(long, value_name = "NAME|ID", value_parser = input::filter())]
    pub(crate) campaign: Option<String>,
    /// Key of extra data.
    #[arg(long, value_name = "KEY", requires = "custom_json_value")]
    custom_json_key: Option<String>,
    /// Extra data, a JSON object.
    #[arg(
        long, value_name = "JSON", requires = "custom_json_key",
        value_parser = input::json_object,
    )]
    custom_json_value: Option<JsonObject>,
    /// Raw payload on Android, which replaces all other content.
    #[arg(long, value_name = "JSON", value_parser = input::json_object)]
    android_json: Option<JsonObject>,
    /// Raw payload on iOS, which replaces all other content.
    #[arg(long, value_name = "JSON", value_parser = input::json_object)]
    ios_json: Option<JsonObject>,
    /// Title on Android, in place of --title.
    #[arg(long, value_name = "TITLE")]
    android_title: Option<String>,
    /// File name of a sound in the Android app.
    #[arg(long, value_name = "NAME")]
    android_sound: Option<String>,
    /// Number on the app icon on iOS; requires --ios-sound.
    #[arg(long, value_name = "N", requires = "ios_sound")]
    ios_badge: Option<u32>,
    /// File name of a sound in the iOS app, or `default`; requires --ios-badge.
    #[arg(long, value_name = "NAME", requires = "ios_badge")]
    ios_sound: Option<String>,
    /// Button text on Messenger and Telegram.
    #[arg(long, value_name = "TEXT")]
    view_button: Option<String>,
}

impl ContentArgs {
    /// The text and the other content.
    ///
    /// # Errors
    /// When the text or the translations cannot be read.
    pub(crate) fn into_parts(self) -> Result<(Option<String>, NotificationContent), Failure> {
        let text = self.text.map(input::text).transpose()?;
        let translations = self.translations.as_deref().map(input::translations).transpose()?;
        let has_android_settings = self.android_title.is_some() || self.android_sound.is_some();
        let android_settings = has_android_settings
            .then_some(AndroidSettings { title: self.android_title, sound: self.android_sound });
        let content = NotificationContent {
            title: self.title,
            translations,
            tags: self.tag.map(|tag| vec![tag]),
            url: self.url,
            image_url: self.image_url,
            campaign_id: self.campaign,
            custom_json_key: self.custom_json_key,
            custom_json_value: self.custom_json_value,
            android_json: self.android_json,
            ios_json: self.ios_json,
            android_settings,
            ios_settings: self.ios_sound.map(|sound| IosSettings { badge: self.ios_badge, sound }),
            social_messenger_settings: self
                .view_button
                .map(|text| MessengerSettings { view_button: Some(text) }),
            // The options of platforms and buttons of browsers need `--file`.
            ..NotificationContent::default()
        };
        Ok((text, content))
    }
}
