//! How a device shows a message, read from the message itself. A preview and a received message are drawn
//! the same way, also if the caller wrote the payload.

use notify_core::Platform;
use serde_json::Value;

/// A message as its device shows it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Drawing {
    /// The look, which is a class of the style sheet: `ios`, `android`, `web` or `chat`.
    pub(super) look: &'static str,
    /// The name of the application.
    pub(super) app: String,
    /// The title; empty if there is none.
    pub(super) title: String,
    /// The text below the title.
    pub(super) body: String,
    /// The image; empty if there is none.
    pub(super) image: String,
    /// The labels of the buttons.
    pub(super) buttons: Vec<String>,
    /// The number on the icon; empty if the message does not change it.
    pub(super) badge: String,
    /// What a click opens; empty if it only opens the app.
    pub(super) link: String,
}

impl Drawing {
    /// Draws a payload of a platform.
    pub(super) fn of(platform: Platform, payload: &Value, app: &str) -> Self {
        let drawing = match platform {
            Platform::Ios => ios(payload),
            Platform::Android => android(&payload["message"]),
            Platform::Web => web(payload),
            Platform::FbMessenger => messenger(&payload["message"]),
            Platform::ChatApp => telegram(payload),
        };
        Self { app: app.to_owned(), ..drawing }
    }

    /// Whether the system shows nothing, because the app has to do it.
    pub(super) fn is_silent(&self) -> bool {
        self.title.is_empty() && self.body.is_empty() && self.image.is_empty()
    }

    /// Whether the page may load the image: its policy allows only https.
    pub(super) fn can_show_image(&self) -> bool {
        self.image.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
    }

    /// The letter that stands for the application's icon.
    pub(super) fn initial(&self) -> String {
        let first = self.app.chars().find(|char| char.is_alphanumeric());
        first.map_or_else(|| "•".to_owned(), |first| first.to_uppercase().collect())
    }
}

/// A text of the payload; empty if it is missing. A caller's own payload may have a number there.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

fn labels(buttons: &Value, name: &str) -> Vec<String> {
    let buttons = buttons.as_array().into_iter().flatten();
    buttons.map(|button| text(&button[name])).filter(|label| !label.is_empty()).collect()
}

fn ios(payload: &Value) -> Drawing {
    let (aps, alert) = (&payload["aps"], &payload["aps"]["alert"]);
    // `alert` is an object, or only the text.
    let body = if alert.is_string() { text(alert) } else { text(&alert["body"]) };
    let lines = [text(&alert["subtitle"]), body];
    Drawing {
        look: "ios",
        title: text(&alert["title"]),
        body: lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n"),
        image: text(&payload["image_url"]),
        badge: text(&aps["badge"]),
        link: text(&payload["url"]),
        ..Drawing::default()
    }
}

fn android(message: &Value) -> Drawing {
    let (shown, data) = (&message["notification"], &message["data"]);
    // The SDK shows a message without `notification` from these keys of `data`.
    let (from, image) = if shown.is_object() {
        (shown, text(&shown["image"]))
    } else {
        (data, text(&data["image_url"]))
    };
    Drawing {
        look: "android",
        title: text(&from["title"]),
        body: text(&from["body"]),
        image,
        link: text(&data["url"]),
        ..Drawing::default()
    }
}

fn web(payload: &Value) -> Drawing {
    Drawing {
        look: "web",
        title: text(&payload["title"]),
        body: text(&payload["body"]),
        image: text(&payload["image"]),
        buttons: labels(&payload["actions"], "title"),
        link: text(&payload["url"]),
        ..Drawing::default()
    }
}

fn messenger(message: &Value) -> Drawing {
    let template = &message["attachment"]["payload"];
    let card = &template["elements"][0];
    let (body, buttons) = if card.is_object() {
        (text(&card["subtitle"]), &card["buttons"])
    } else if template.is_object() {
        (text(&template["text"]), &template["buttons"])
    } else {
        (text(&message["text"]), &Value::Null)
    };
    let mut buttons = labels(buttons, "title");
    buttons.extend(labels(&message["quick_replies"], "title"));
    Drawing {
        look: "chat",
        title: text(&card["title"]),
        body,
        image: text(&card["image_url"]),
        buttons,
        link: text(&card["default_action"]["url"]),
        ..Drawing::default()
    }
}

fn telegram(payload: &Value) -> Drawing {
    let texts = [text(&payload["text"]), text(&payload["caption"])];
    let rows = payload["reply_markup"]["inline_keyboard"].as_array().into_iter().flatten();
    Drawing {
        look: "chat",
        body: texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
        image: text(&payload["photo"]),
        buttons: rows.flat_map(|row| labels(row, "text")).collect(),
        ..Drawing::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_payload_is_drawn_as_its_platform_shows_it() {
        let drawn = |platform, payload: Value| {
            let drawing = Drawing::of(platform, &payload, "shop");
            assert_eq!((drawing.app.as_str(), drawing.initial().as_str()), ("shop", "S"));
            (drawing.title, drawing.body, drawing.image, drawing.buttons.join("|"))
        };
        let texts = |title: &str, body: &str, image: &str, buttons: &str| {
            (title.to_owned(), body.to_owned(), image.to_owned(), buttons.to_owned())
        };
        let image = "https://shop.example/i.png";
        for (platform, payload, expected) in [
            (
                Platform::Ios,
                json!({"aps": {"alert": {"title": "T", "subtitle": "S", "body": "B"}},
                    "image_url": image}),
                texts("T", "S\nB", image, ""),
            ),
            (Platform::Ios, json!({"aps": {"alert": "B"}}), texts("", "B", "", "")),
            (
                Platform::Android,
                json!({"message": {"notification": {"title": "T", "body": "B", "image": image}}}),
                texts("T", "B", image, ""),
            ),
            (
                Platform::Android,
                json!({"message": {"data": {"title": "T", "body": "B", "image_url": image}}}),
                texts("T", "B", image, ""),
            ),
            (
                Platform::Web,
                json!({"title": "T", "body": "B", "actions": [{"title": "One"}, {"title": "Two"}]}),
                texts("T", "B", "", "One|Two"),
            ),
            (Platform::FbMessenger, json!({"message": {"text": "B"}}), texts("", "B", "", "")),
            (
                Platform::FbMessenger,
                json!({"message": {"attachment": {"payload": {"elements": [{"title": "T",
                    "subtitle": "B", "image_url": image, "buttons": [{"title": "View"}]}]}},
                    "quick_replies": [{"title": "yes"}]}}),
                texts("T", "B", image, "View|yes"),
            ),
            (
                Platform::FbMessenger,
                json!({"message": {"attachment": {"payload": {"text": "B",
                    "buttons": [{"title": "View"}]}}}}),
                texts("", "B", "", "View"),
            ),
            (
                Platform::ChatApp,
                json!({"photo": image, "caption": "B",
                    "reply_markup": {"inline_keyboard": [[{"text": "View"}]]}}),
                texts("", "B", image, "View"),
            ),
        ] {
            assert_eq!(drawn(platform, payload.clone()), expected, "{payload}");
        }
    }

    #[test]
    fn a_payload_of_any_shape_is_drawn() {
        for platform in Platform::ALL {
            for payload in [json!({}), json!("no JSON"), json!({"aps": [], "message": 1})] {
                assert!(Drawing::of(platform, &payload, "").is_silent(), "{payload}");
            }
        }
    }

    #[test]
    fn only_images_over_https_are_loaded() {
        let shows = |image: &str| {
            Drawing { image: image.to_owned(), ..Drawing::default() }.can_show_image()
        };
        assert!(shows("https://shop.example/i.png") && shows("HTTPS://shop.example/i.png"));
        assert!(!shows("http://shop.example/i.png") && !shows("javascript:alert(1)") && !shows(""));
    }
}
