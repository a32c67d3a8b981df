//! How single platforms show a notification: `ios_options`, `android_options` and `web_options`.

use crate::json::Object;
use crate::request::model;
use crate::violations::{Path, Validator, path};
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
    pub struct IosOptions {
        /// Second line, below the title.
        pub subtitle: Option<String>,
        /// Notifications with the same id are grouped.
        pub thread_id: Option<String>,
        /// The category, which decides the buttons that the app has declared.
        pub category: Option<String>,
        /// `passive`, `active`, `time-sensitive` or `critical`.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<InterruptionLevel>))]
        pub interruption_level: Option<String>,
        /// Rank in the summary of notifications, 0 to 1.
        pub relevance_score: Option<f64>,
        /// Whether the app's notification service extension may change the notification. When absent, it
        /// may if there is an image or a campaign.
        pub mutable_content: Option<bool>,
    }
}

model! {
    /// How Android shows a notification.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct AndroidOptions {
        /// The notification channel, which the app has created.
        pub channel_id: Option<String>,
        /// Name of a drawable resource.
        pub icon: Option<String>,
        /// Color of the icon, `#rrggbb`.
        pub color: Option<String>,
        /// Number that a launcher can show on the app icon.
        pub notification_count: Option<u32> =
            |object| object.u32("notification_count", NOTIFICATION_COUNT_MAX),
        /// `private`, `public` or `secret`: what a locked screen shows.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<AndroidVisibility>))]
        pub visibility: Option<String>,
        /// Label of the message in Google's statistics.
        pub analytics_label: Option<String>,
        /// Whether the app may get the message before the device is unlocked for the first time.
        pub direct_boot_ok: Option<bool>,
    }
}

model! {
    /// How a browser shows a notification.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct WebOptions {
        /// Url of the icon.
        pub icon: Option<String>,
        /// Url of the small monochrome image that stands for the site where there is little room.
        pub badge: Option<String>,
        /// Whether the notification stays until the person acts on it.
        pub require_interaction: Option<bool>,
        /// Whether it makes no sound and no vibration.
        pub silent: Option<bool>,
        /// Whether a notification that replaces another one alerts again.
        pub renotify: Option<bool>,
    }
}

impl AndroidOptions {
    /// Reads the options of a poll. A poll ignores them, so the count may be any number.
    pub(super) fn read_ignored(object: &mut Object<'_, '_>) -> Self {
        object.optional::<f64>("notification_count");
        Self {
            channel_id: object.optional("channel_id"),
            icon: object.optional("icon"),
            color: object.optional("color"),
            notification_count: None,
            visibility: object.optional("visibility"),
            analytics_label: object.optional("analytics_label"),
            direct_boot_ok: object.optional("direct_boot_ok"),
        }
    }
}

/// The validated form of [`IosOptions`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IosPresentation {
    /// Second line.
    pub subtitle: Option<String>,
    /// Group of notifications.
    pub thread_id: Option<String>,
    /// Category, which decides the buttons.
    pub category: Option<String>,
    /// How much it interrupts.
    pub interruption_level: Option<InterruptionLevel>,
    /// Rank in the summary, 0 to 1.
    pub relevance_score: Option<f64>,
    /// Whether the app may change the notification; `None` leaves the decision to the content.
    pub mutable_content: Option<bool>,
}

/// The validated form of [`AndroidOptions`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AndroidPresentation {
    /// Notification channel.
    pub channel_id: Option<String>,
    /// Name of a drawable resource.
    pub icon: Option<String>,
    /// Color of the icon, `#rrggbb`.
    pub color: Option<String>,
    /// Number on the app icon.
    pub notification_count: Option<u32>,
    /// What a locked screen shows.
    pub visibility: Option<AndroidVisibility>,
    /// Label in Google's statistics.
    pub analytics_label: Option<String>,
    /// Whether the app may get the message before the first unlock.
    pub direct_boot_ok: Option<bool>,
}

/// The validated form of [`WebOptions`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebPresentation {
    /// Url of the icon.
    pub icon: Option<String>,
    /// Url of the small image.
    pub badge: Option<String>,
    /// Whether it stays until the person acts on it.
    pub require_interaction: Option<bool>,
    /// Whether it makes no sound and no vibration.
    pub silent: Option<bool>,
    /// Whether a replacement alerts again.
    pub renotify: Option<bool>,
}

impl IosOptions {
    pub(super) fn check(self, validator: &mut Validator) -> IosPresentation {
        let at = path("ios_options");
        let level = self.interruption_level.as_deref();
        if self.relevance_score.is_some_and(|score| !(0.0..=RELEVANCE_SCORE_MAX).contains(&score)) {
            validator.violation(&at.field("relevance_score"), "must be from 0 to 1");
        }
        IosPresentation {
            subtitle: option_text(&at.field("subtitle"), self.subtitle, validator),
            thread_id: option_text(&at.field("thread_id"), self.thread_id, validator),
            category: option_text(&at.field("category"), self.category, validator),
            interruption_level: validator.optional_one_of(&at.field("interruption_level"), level),
            relevance_score: self.relevance_score,
            mutable_content: self.mutable_content,
        }
    }
}

impl AndroidOptions {
    pub(super) fn check(self, validator: &mut Validator) -> AndroidPresentation {
        let at = path("android_options");
        let count_path = at.field("notification_count");
        if self.notification_count.is_some_and(|count| count > NOTIFICATION_COUNT_MAX) {
            let what = format_args!("must be at most {NOTIFICATION_COUNT_MAX}");
            validator.violation(&count_path, what);
        }
        let visibility = self.visibility.as_deref();
        AndroidPresentation {
            channel_id: option_text(&at.field("channel_id"), self.channel_id, validator),
            icon: option_text(&at.field("icon"), self.icon, validator),
            color: check_color(&at.field("color"), self.color, validator),
            notification_count: self.notification_count,
            visibility: validator.optional_one_of(&at.field("visibility"), visibility),
            analytics_label: option_text(
                &at.field("analytics_label"),
                self.analytics_label,
                validator,
            ),
            direct_boot_ok: self.direct_boot_ok,
        }
    }
}

impl WebOptions {
    pub(super) fn check(self, validator: &mut Validator) -> WebPresentation {
        let at = path("web_options");
        WebPresentation {
            icon: validator.wire_http_url(&at.field("icon"), self.icon),
            badge: validator.wire_http_url(&at.field("badge"), self.badge),
            require_interaction: self.require_interaction,
            silent: self.silent,
            renotify: self.renotify,
        }
    }
}

fn option_text(at: &Path<'_>, text: Option<String>, validator: &mut Validator) -> Option<String> {
    validator.text_up_to(at, text, OPTION_CHARS_MAX)
}

/// Checks a color, `#rrggbb`.
fn check_color(at: &Path<'_>, color: Option<String>, validator: &mut Validator) -> Option<String> {
    let color = color.filter(|color| !color.is_empty())?;
    let digits = color.strip_prefix('#').unwrap_or_default();
    if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        validator.violation(at, "must be a color as #rrggbb");
    }
    Some(color)
}
