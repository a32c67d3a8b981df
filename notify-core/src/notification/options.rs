//! How single platforms show a notification: `ios_options`, `android_options` and `web_options`.

#[cfg(feature = "openapi")]
use serde_json::{Value as Json, json};

use crate::field::{Flag, HttpUrl, InMessage, Integer, Kind, NameOf, Text, TextKind};
use crate::json::Value;
use crate::request::model;
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;

/// Longest text of an option, in characters.
pub const OPTION_CHARS_MAX: usize = 255;
/// Largest `notification_count`: FCM takes a signed number of 32 bits.
pub const NOTIFICATION_COUNT_MAX: u32 = i32::MAX as u32;
/// Largest `relevance_score`.
pub const RELEVANCE_SCORE_MAX: f64 = 1.0;

wire_enum! {
    /// How much a notification interrupts on iOS.
    pub enum InterruptionLevel {
        /// It goes to the list of notifications, without light or sound.
        Passive = "passive",
        /// It lights the screen and can play a sound.
        Active = "active",
        /// It is shown at once, also while a focus holds others back.
        TimeSensitive = "time-sensitive",
        /// It plays a sound even while the device is muted. Apple has to permit this to the app.
        Critical = "critical",
    }
}

wire_enum! {
    /// What a locked screen shows of a notification on Android.
    pub enum AndroidVisibility {
        /// That there is one, without its content.
        Private = "private",
        /// All of it.
        Public = "public",
        /// Nothing.
        Secret = "secret",
    }
}

model! {
    /// How iOS shows a notification.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct IosOptions => #[derive(Debug, Clone, Default, PartialEq)] pub IosPresentation {
        /// Second line, below the title.
        pub subtitle: Option<String> as OptionText,
        /// Notifications with the same id are grouped.
        pub thread_id: Option<String> as OptionText,
        /// The category, which decides the buttons that the app has declared.
        pub category: Option<String> as OptionText,
        /// `passive`, `active`, `time-sensitive` or `critical`.
        pub interruption_level: Option<String>
            as NameOf<InterruptionLevel> => Option<InterruptionLevel>,
        /// Rank in the summary of notifications, 0 to 1.
        pub relevance_score: Option<f64> as RelevanceScore,
        /// Whether the app's notification service extension may change the notification. When absent, it
        /// may if there is an image or a campaign.
        pub mutable_content: Option<bool> as Flag,
    }
}

model! {
    /// How Android shows a notification.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct AndroidOptions => #[derive(Debug, Clone, Default, PartialEq, Eq)] pub AndroidPresentation {
        /// The notification channel, which the app has created.
        pub channel_id: Option<String> as OptionText,
        /// Name of a drawable resource.
        pub icon: Option<String> as OptionText,
        /// Color of the icon, `#rrggbb`.
        pub color: Option<String> as Color,
        /// Number that a launcher can show on the app icon.
        pub notification_count: Option<u32> as Integer<0, NOTIFICATION_COUNT_MAX>,
        /// `private`, `public` or `secret`: what a locked screen shows.
        pub visibility: Option<String> as NameOf<AndroidVisibility> => Option<AndroidVisibility>,
        /// Label of the message in Google's statistics.
        pub analytics_label: Option<String> as OptionText,
        /// Whether the app may get the message before the device is unlocked for the first time.
        pub direct_boot_ok: Option<bool> as Flag,
    }
}

model! {
    /// How a browser shows a notification.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct WebOptions => #[derive(Debug, Clone, Default, PartialEq, Eq)] pub WebPresentation {
        /// Url of the icon.
        pub icon: Option<String> as InMessage<HttpUrl>,
        /// Url of the small monochrome image that stands for the site where there is little room.
        pub badge: Option<String> as InMessage<HttpUrl>,
        /// Whether the notification stays until the person acts on it.
        pub require_interaction: Option<bool> as Flag,
        /// Whether it makes no sound and no vibration.
        pub silent: Option<bool> as Flag,
        /// Whether a notification that replaces another one alerts again.
        pub renotify: Option<bool> as Flag,
    }
}

/// A text of an option.
type OptionText = Text<OPTION_CHARS_MAX>;

/// A number from 0 to [`RELEVANCE_SCORE_MAX`].
pub(crate) struct RelevanceScore;

impl Kind for RelevanceScore {
    type Raw = f64;
    type Valid = f64;

    fn read(value: Value<'_, '_>) -> Option<f64> {
        value.float()
    }

    fn check(raw: &f64, at: &Path<'_>, validator: &mut Validator) -> Option<f64> {
        if !(0.0..=RELEVANCE_SCORE_MAX).contains(raw) {
            validator.violation(at, "must be from 0 to 1");
        }
        Some(*raw)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "number", "format": "double", "minimum": 0, "maximum": RELEVANCE_SCORE_MAX })
    }
}

/// A color, `#rrggbb`.
pub(crate) struct Color;

impl TextKind for Color {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        let digits = raw.strip_prefix('#').unwrap_or_default();
        if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            validator.violation(at, "must be a color as #rrggbb");
        }
        Some(raw.to_owned())
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "pattern": "^#[0-9A-Fa-f]{6}$" })
    }
}
