//! The fields of each provider's form, and the configuration that a form describes.

use notify_core::ProviderKind;
use serde_json::{Map, Value, json};

use crate::api::console::form::Form;
use crate::api::console::problems::Problems;

/// What an operator needs for a provider, and where to get it.
pub(super) struct About {
    /// Who receives messages through the provider.
    pub(super) serves: &'static str,
    /// What it needs.
    pub(super) needs: &'static str,
    /// Where that is.
    pub(super) place: &'static str,
    /// The address of that place.
    pub(super) link: Option<&'static str>,
    /// What happens to devices when the provider is removed.
    pub(super) removal: &'static str,
}

pub(super) fn about(provider: ProviderKind) -> About {
    const FAIL: &str = "Deliveries to its devices then fail with provider_not_configured.";
    match provider {
        ProviderKind::Apns => About {
            serves: "iPhones and iPads",
            needs: "A key of your Apple developer account: the file AuthKey_….p8, its key ID and your \
                    team ID. Apple offers the file for download only once.",
            place: "Apple Developer → Certificates, Identifiers & Profiles → Keys",
            link: Some("https://developer.apple.com/account/resources/authkeys/list"),
            removal: FAIL,
        },
        ProviderKind::Fcm => About {
            serves: "Android devices",
            needs: "A key of a service account of your Firebase project: a JSON file, such as \
                    shop-firebase-adminsdk-….json.",
            place: "Firebase console → Project settings → Service accounts → Generate new private key",
            link: Some(
                "https://console.firebase.google.com/project/_/settings/serviceaccounts/adminsdk",
            ),
            removal: FAIL,
        },
        ProviderKind::WebPush => About {
            serves: "Browsers",
            needs: "No file: the server makes its own key (VAPID). It needs a contact address of yours, \
                    which push services get with each message.",
            place: "",
            link: None,
            removal: "The server's key is deleted too: all subscriptions of browsers become invalid.",
        },
        ProviderKind::Messenger => About {
            serves: "People on Facebook Messenger",
            needs: "A page access token with pages_messaging, and the app secret with which Meta signs.",
            place: "Meta for Developers → your app → Messenger → Settings; App settings → Basic",
            link: Some("https://developers.facebook.com/apps"),
            removal: FAIL,
        },
        ProviderKind::Telegram => About {
            serves: "People and groups on Telegram (chatapp in the API)",
            needs: "The token of a bot, such as 123456789:AAE….",
            place: "Telegram: write /newbot or /token to @BotFather",
            link: Some("https://t.me/BotFather"),
            removal: FAIL,
        },
    }
}

/// How a field is entered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// One line.
    Line,
    /// One line, which no page shows again.
    Secret,
    /// Several lines: the content of a file with one of these endings.
    File(&'static str),
    /// As `File`, which no page shows again.
    SecretFile(&'static str),
    /// A JSON object: the content of a file, which no page shows again.
    SecretJson,
    /// A whole number.
    Number,
    /// A box to tick.
    Flag,
}

/// A field of a provider's configuration.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    pub(super) input: Input,
    pub(super) is_required: bool,
    /// Whether few installations need it.
    pub(super) is_rare: bool,
}

const fn required(
    name: &'static str,
    label: &'static str,
    input: Input,
    hint: &'static str,
) -> Field {
    Field { name, label, hint, input, is_required: true, is_rare: false }
}

const fn optional(
    name: &'static str,
    label: &'static str,
    input: Input,
    hint: &'static str,
) -> Field {
    Field { name, label, hint, input, is_required: false, is_rare: false }
}

const fn rare(name: &'static str, label: &'static str, input: Input, hint: &'static str) -> Field {
    Field { name, label, hint, input, is_required: false, is_rare: true }
}

const ENDPOINT: Field = rare(
    "endpoint",
    "Endpoint",
    Input::Line,
    "Replaces the provider's address, for a proxy or a test.",
);
const CERTIFICATE: Field = rare(
    "ca_certificate",
    "CA certificate",
    Input::File(".pem,.crt,.cer"),
    "PEM, trusted in addition to the system's certificates.",
);
const RATE: Field = rare(
    "rate_per_second",
    "Messages per second",
    Input::Number,
    "The most that the server sends; empty for the default.",
);

const APNS: &[Field] = &[
    required(
        "team_id",
        "Team ID",
        Input::Line,
        "Ten characters: Apple Developer → Membership details.",
    ),
    required(
        "key_id",
        "Key ID",
        Input::Line,
        "Ten characters: in the list of keys, and in the name of the file.",
    ),
    required(
        "private_key",
        "Key",
        Input::SecretFile(".p8"),
        "The content of AuthKey_….p8, with its first and last line.",
    ),
    required("topic", "Topic", Input::Line, "The bundle ID of the app, such as com.example.app."),
    ENDPOINT,
    rare(
        "sandbox_endpoint",
        "Endpoint for development",
        Input::Line,
        "Replaces Apple's sandbox host.",
    ),
    CERTIFICATE,
    RATE,
];
const FCM: &[Field] = &[
    required(
        "service_account",
        "Service account key",
        Input::SecretJson,
        "The whole content of the JSON file, from { to }.",
    ),
    optional(
        "enriched_as_data",
        "Send notifications with a campaign or a poll as data only",
        Input::Flag,
        "The app then draws them itself.",
    ),
    ENDPOINT,
    CERTIFICATE,
    RATE,
];
const WEBPUSH: &[Field] = &[
    required(
        "subject",
        "Contact",
        Input::Line,
        "mailto: or https: and a real address. Apple refuses every message if it is a placeholder.",
    ),
    rare(
        "vapid_private_key",
        "VAPID private key",
        Input::Secret,
        "Only to move here from another server: base64url or PEM. If it is empty, the present key stays, or a \
         new one is made. With another key all present subscriptions become invalid.",
    ),
    CERTIFICATE,
    RATE,
];
const MESSENGER: &[Field] = &[
    required("page_access_token", "Page access token", Input::Secret, "Begins with EAA."),
    optional(
        "app_secret",
        "App secret",
        Input::Secret,
        "Signs the calls to Meta, and proves what Meta sends.",
    ),
    optional(
        "verify_token",
        "Verify token",
        Input::Secret,
        "A text of your choice, which you enter at Meta with the address of the webhook.",
    ),
    ENDPOINT,
    CERTIFICATE,
    RATE,
];
const TELEGRAM: &[Field] = &[
    required("bot_token", "Bot token", Input::Secret, "As @BotFather sends it."),
    optional(
        "webhook_secret",
        "Webhook secret",
        Input::Secret,
        "The secret_token of setWebhook: 1 to 256 of A-Z a-z 0-9 _ -.",
    ),
    ENDPOINT,
    CERTIFICATE,
    RATE,
];

fn table(provider: ProviderKind) -> &'static [Field] {
    match provider {
        ProviderKind::Apns => APNS,
        ProviderKind::Fcm => FCM,
        ProviderKind::WebPush => WEBPUSH,
        ProviderKind::Messenger => MESSENGER,
        ProviderKind::Telegram => TELEGRAM,
    }
}

/// A field of the form, with its value and its problems.
pub(super) struct FieldView {
    pub(super) spec: &'static Field,
    /// The value to show; empty for secrets.
    pub(super) value: String,
    pub(super) problems: Vec<String>,
}

impl FieldView {
    pub(super) fn is_flag(&self) -> bool {
        self.spec.input == Input::Flag
    }

    pub(super) fn is_secret(&self) -> bool {
        matches!(self.spec.input, Input::Secret | Input::SecretFile(_) | Input::SecretJson)
    }

    /// The endings of the file whose content the field has; `None` for a field of one line.
    pub(super) fn endings(&self) -> Option<&'static str> {
        match self.spec.input {
            Input::File(endings) | Input::SecretFile(endings) => Some(endings),
            Input::SecretJson => Some(".json"),
            Input::Line | Input::Secret | Input::Number | Input::Flag => None,
        }
    }

    /// The type of the input of one line.
    pub(super) fn kind(&self) -> &'static str {
        match self.spec.input {
            Input::Secret => "password",
            _ => "text",
        }
    }

    pub(super) fn is_number(&self) -> bool {
        self.spec.input == Input::Number
    }
}

/// The fields of a provider's form with the values of a refused form, or else of the stored configuration.
pub(super) fn fields_of(
    provider: ProviderKind,
    config: &Value,
    refused: Option<&Form>,
    problems: &Problems,
) -> Vec<FieldView> {
    let views = table(provider).iter().map(|spec| {
        let mut view =
            FieldView { spec, value: String::new(), problems: problems_of(problems, spec.name) };
        if !view.is_secret() {
            view.value = match (refused, &config[spec.name]) {
                (Some(form), _) => form.text(spec.name).to_owned(),
                (None, Value::String(text)) => text.clone(),
                (None, Value::Null | Value::Bool(false)) => String::new(),
                (None, value) => value.to_string(),
            };
        }
        view
    });
    views.collect()
}

/// The problems of a field. Those of a part of it begin with the name of the part.
fn problems_of(problems: &Problems, field: &str) -> Vec<String> {
    let rules = problems.all().iter().filter_map(|rule| rule.strip_prefix(field));
    rules
        .filter_map(|rest| rest.strip_prefix(": ").or_else(|| rest.strip_prefix('.')))
        .map(str::to_owned)
        .collect()
}

/// The configuration that a form describes. A value of a wrong form is passed on as it is, so that the API
/// reports it together with the problems of all other fields.
pub(super) fn body_of(provider: ProviderKind, form: &Form) -> Value {
    let mut body = Map::new();
    for field in table(provider) {
        let text = form.text(field.name);
        let value = match field.input {
            Input::Flag => Value::Bool(!text.is_empty()),
            _ if text.is_empty() => continue,
            Input::Number => text.parse::<u64>().map_or_else(|_| json!(text), Value::from),
            Input::SecretJson => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
            // Browsers send the lines of a text with CR LF.
            Input::File(_) | Input::SecretFile(_) => {
                json!(format!("{}\n", text.replace("\r\n", "\n")))
            }
            Input::Line | Input::Secret => json!(text),
        };
        body.insert(field.name.to_owned(), value);
    }
    unpack_configuration(&mut body);
    Value::Object(body)
}

/// Takes apart a whole configuration of FCM, as a file for `notify providers put` has it, in the place of the
/// service account. What the other fields of the form have stays.
fn unpack_configuration(body: &mut Map<String, Value>) {
    const ACCOUNT: &str = "service_account";
    if !body.get(ACCOUNT).is_some_and(|account| account[ACCOUNT].is_object()) {
        return;
    }
    if let Some(Value::Object(whole)) = body.remove(ACCOUNT) {
        for (name, value) in whole {
            if matches!(body.get(&name), None | Some(Value::Bool(false))) {
                body.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::error::ApiError;

    fn form(text: &'static str) -> Form {
        Form::parse(&bytes::Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_form_describes_a_configuration() {
        let apns = form(
            "token=t&team_id=T&key_id=+K+&private_key=a%0D%0Ab%0D%0A&topic=&rate_per_second=7&x=y",
        );
        let expected =
            json!({"team_id": "T", "key_id": "K", "private_key": "a\nb\n", "rate_per_second": 7});
        assert_eq!(body_of(ProviderKind::Apns, &apns), expected);
        let fcm = form("service_account=%7B%22a%22%3A1%7D&rate_per_second=fast");
        let expected = json!({"service_account": {"a": 1}, "enriched_as_data": false,
            "rate_per_second": "fast"});
        assert_eq!(body_of(ProviderKind::Fcm, &fcm), expected);
        let fcm = form(
            "service_account=%7B%22service_account%22%3A%7B%22a%22%3A1%7D%2C%22endpoint%22%3A%22e%22%2C\
             %22ca_certificate%22%3A%22c%22%7D&endpoint=own",
        );
        let expected = json!({"service_account": {"a": 1}, "enriched_as_data": false,
            "endpoint": "own", "ca_certificate": "c"});
        assert_eq!(body_of(ProviderKind::Fcm, &fcm), expected);
        let fcm = form("service_account=no+json&enriched_as_data=on");
        let expected = json!({"service_account": "no json", "enriched_as_data": true});
        assert_eq!(body_of(ProviderKind::Fcm, &fcm), expected);
    }

    #[test]
    fn a_refused_form_keeps_its_input_without_secrets() {
        let refused = form("team_id=T&private_key=secret&topic=a%20b");
        let rules =
            ["topic: is wrong", "private_key: must be a key", "service_account.x: is wrong"];
        let problems = Problems::of(ApiError::Invalid(rules.map(str::to_owned).to_vec())).unwrap();
        let config = json!({"team_id": "old", "rate_per_second": 3});
        let fields = fields_of(ProviderKind::Apns, &config, Some(&refused), &problems);
        let shown = |name: &str| {
            let field = fields.iter().find(|field| field.spec.name == name).unwrap();
            (field.value.as_str(), field.problems.join("; "))
        };
        assert_eq!(shown("team_id"), ("T", String::new()));
        assert_eq!(shown("topic"), ("a b", "is wrong".to_owned()));
        assert_eq!(shown("private_key"), ("", "must be a key".to_owned()));
        assert_eq!(shown("rate_per_second").0, "");
        assert_eq!(problems_of(&problems, "service_account"), ["x: is wrong"]);
        let stored = fields_of(ProviderKind::Apns, &config, None, &Problems::default());
        assert_eq!((stored[0].value.as_str(), stored[7].value.as_str()), ("old", "3"));
    }
}
