//! The fields of the send page for `ios_options`, `android_options` and `web_options`.

use std::collections::BTreeMap;

use notify_core::{
    AndroidOptions, AndroidVisibility, InterruptionLevel, IosOptions, NotificationContent,
    WebOptions,
};
use serde_json::Value;

use crate::api::console::form::{Form, number, optional};

/// A field for one option.
pub(super) struct OptionField {
    /// The path of the option in the request. It is also the name of the field.
    pub(super) path: &'static str,
    pub(super) label: &'static str,
    /// The values to choose from; empty if the value is typed.
    pub(super) choices: &'static [&'static str],
    pub(super) placeholder: &'static str,
}

const fn typed(path: &'static str, label: &'static str, placeholder: &'static str) -> OptionField {
    OptionField { path, label, choices: &[], placeholder }
}

const fn chosen(
    path: &'static str,
    label: &'static str,
    choices: &'static [&'static str],
) -> OptionField {
    OptionField { path, label, choices, placeholder: "" }
}

const FLAG: &[&str] = &["true", "false"];

/// Every option, in the order of the page.
const FIELDS: [OptionField; 18] = [
    typed("ios_options.subtitle", "Subtitle, iOS", ""),
    typed("ios_options.thread_id", "Group, iOS", ""),
    typed("ios_options.category", "Category, iOS", ""),
    chosen("ios_options.interruption_level", "Interruption, iOS", &InterruptionLevel::NAMES),
    typed("ios_options.relevance_score", "Relevance, iOS", "0 to 1"),
    chosen("ios_options.mutable_content", "The app may change it, iOS", FLAG),
    typed("android_options.channel_id", "Channel on Android", ""),
    typed("android_options.icon", "Icon on Android", ""),
    typed("android_options.color", "Color on Android", "#rrggbb"),
    typed("android_options.notification_count", "Number on the icon, Android", ""),
    chosen("android_options.visibility", "On a locked screen, Android", &AndroidVisibility::NAMES),
    typed("android_options.analytics_label", "Label in Google's statistics", ""),
    chosen("android_options.direct_boot_ok", "Before the first unlock, Android", FLAG),
    typed("web_options.icon", "Icon in browsers", "https://…"),
    typed("web_options.badge", "Badge in browsers", "https://…"),
    chosen("web_options.require_interaction", "Stays until a click, browsers", FLAG),
    chosen("web_options.silent", "Without sound, browsers", FLAG),
    chosen("web_options.renotify", "A replacement alerts again, browsers", FLAG),
];

/// The options as they were entered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PlatformOptions(BTreeMap<&'static str, String>);

impl PlatformOptions {
    pub(super) fn of_form(form: &Form) -> Self {
        Self::read(|path| form.text(path).to_owned())
    }

    pub(super) fn of_request(request: &Value) -> Self {
        Self::read(|path| {
            let (group, name) = path.split_once('.').unwrap_or((path, ""));
            match &request[group][name] {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
            }
        })
    }

    fn read(text: impl Fn(&'static str) -> String) -> Self {
        let entered = FIELDS.iter().map(|field| (field.path, text(field.path)));
        Self(entered.filter(|(_, text)| !text.is_empty()).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields and what was entered.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static OptionField, &str)> {
        FIELDS.iter().map(|field| (field, self.get(field.path)))
    }

    fn get(&self, path: &str) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }

    /// Adds the options to the content. A text that is no number or flag is a problem.
    pub(super) fn add_to(&self, content: &mut NotificationContent, problems: &mut Vec<String>) {
        let text = |path: &str| optional(self.get(path));
        let mut flag = |path: &str| {
            let flag = self.get(path).parse().ok();
            if flag.is_none() && !self.get(path).is_empty() {
                problems.push(format!("{path}: must be true or false"));
            }
            flag
        };
        let mutable_content = flag("ios_options.mutable_content");
        let direct_boot_ok = flag("android_options.direct_boot_ok");
        let web = WebOptions {
            icon: text("web_options.icon"),
            badge: text("web_options.badge"),
            require_interaction: flag("web_options.require_interaction"),
            silent: flag("web_options.silent"),
            renotify: flag("web_options.renotify"),
        };
        let ios = IosOptions {
            subtitle: text("ios_options.subtitle"),
            thread_id: text("ios_options.thread_id"),
            category: text("ios_options.category"),
            interruption_level: text("ios_options.interruption_level"),
            relevance_score: self.relevance_score(problems),
            mutable_content,
        };
        let count_path = "android_options.notification_count";
        let android = AndroidOptions {
            channel_id: text("android_options.channel_id"),
            icon: text("android_options.icon"),
            color: text("android_options.color"),
            notification_count: number(self.get(count_path), count_path, problems),
            visibility: text("android_options.visibility"),
            analytics_label: text("android_options.analytics_label"),
            direct_boot_ok,
        };
        content.ios_options = Some(ios).filter(|options| *options != IosOptions::default());
        content.android_options =
            Some(android).filter(|options| *options != AndroidOptions::default());
        content.web_options = Some(web).filter(|options| *options != WebOptions::default());
    }

    fn relevance_score(&self, problems: &mut Vec<String>) -> Option<f64> {
        const PATH: &str = "ios_options.relevance_score";
        let score = self.get(PATH).parse().ok().filter(|score: &f64| score.is_finite());
        if score.is_none() && !self.get(PATH).is_empty() {
            problems.push(format!("{PATH}: must be a number"));
        }
        score
    }
}
