//! A preview of the message that would be sent to a placeholder device, with notes for the author.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use notify_core::{AndroidPresentation, Message, Platform};

use super::{RenderContext, TooLarge, apns, fcm, messenger, telegram, web_push};
use crate::payload::DisplayFields;
use crate::payload::unsupported;
use crate::payload::{
    APNS_BYTES_MAX, FCM_BYTES_MAX, MESSENGER_CHARS_MAX, TELEGRAM_CHARS_MAX, WEB_PUSH_BYTES_MAX,
};

/// The token of the placeholder device.
const TOKEN: &str = "device-token";

/// The person or chat of the placeholder device.
const RECIPIENT: &str = "recipient-id";

/// The parts of a provider's configuration that affect its messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreviewSettings {
    /// Topic of every message to APNs.
    pub(crate) apns_topic: Option<String>,
    /// Whether enriched notifications are sent to FCM as data only.
    pub(crate) fcm_enriched_as_data: bool,
}

/// A message to one placeholder device.
#[derive(Debug)]
pub(crate) struct Preview {
    /// JSON; `None` if the provider would not accept it.
    pub(crate) payload: Option<Bytes>,
    /// Header fields, except the authorization.
    pub(crate) headers: HeaderMap,
    /// Size, in the unit of the limit.
    pub(crate) size: usize,
    /// The provider's limit.
    pub(crate) limit: usize,
    /// Notes for the author.
    pub(crate) problems: Vec<String>,
}

/// Renders a notification for a placeholder device of a platform.
pub(crate) fn preview(
    platform: Platform,
    context: &RenderContext<'_>,
    settings: &PreviewSettings,
) -> Preview {
    let rendered = match platform {
        Platform::Android => to_android(context, settings),
        Platform::Ios => to_ios(context, settings),
        Platform::Web => to_web(context),
        Platform::FbMessenger | Platform::ChatApp => to_chat(context, platform),
    };
    rendered.unwrap_or_else(|too_large| Preview {
        payload: None,
        headers: HeaderMap::new(),
        size: too_large.bytes,
        limit: too_large.limit,
        problems: vec![too_large.to_string()],
    })
}

fn to_ios(context: &RenderContext<'_>, settings: &PreviewSettings) -> Result<Preview, TooLarge> {
    let apns::Payload { body, mut headers } = apns::render(context)?;
    headers.insert(apns::ID, apns::placeholder_id(context.id.as_str(), TOKEN));
    let topic = settings.apns_topic.as_deref().and_then(|topic| topic.parse().ok());
    if let Some(topic) = topic {
        headers.insert(apns::TOPIC, topic);
    }
    let shown = DisplayFields::of(context);
    let mut problems = Vec::new();
    if shown.message.is_some_and(|message| message.ios_json.is_some()) {
        problems.push("ios_json replaces everything else of the notification".to_owned());
    } else if shown.is_silent() {
        problems.push(
            "silent: Apple delivers few of these messages, when the power state of the device allows it"
                .to_owned(),
        );
    } else {
        if shown.image_url.is_some() || shown.campaign_id.is_some() {
            problems.push(
                "image and campaign show only where the app has a notification service extension"
                    .to_owned(),
            );
        }
        note_shortened(shown.title, &body, &mut problems);
    }
    let size = body.len();
    Ok(Preview { payload: Some(body), headers, size, limit: APNS_BYTES_MAX, problems })
}

fn to_android(
    context: &RenderContext<'_>,
    settings: &PreviewSettings,
) -> Result<Preview, TooLarge> {
    let rendered = fcm::render(context, settings.fcm_enriched_as_data)?;
    let body = rendered.body.put(TOKEN);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let shown = DisplayFields::of(context);
    let mut problems = Vec::new();
    if shown.message.is_some_and(|message| message.android_json.is_some()) {
        problems.push(
            "android_json replaces everything else and goes as data: the app has to show it, and \
             a repeat after a crash is not recognised"
                .to_owned(),
        );
    } else if !shown.is_silent() {
        if shown.is_enriched() && !settings.fcm_enriched_as_data {
            problems.push(
                "while the app sleeps the system shows this without its campaign or poll: set \
                 enriched_as_data of the fcm provider"
                    .to_owned(),
            );
        }
        let is_data = shown.is_enriched() && settings.fcm_enriched_as_data;
        note_android_options(shown.message, is_data, &mut problems);
        let title = shown.message.and_then(|message| message.android_title.as_deref());
        note_shortened(title.unwrap_or(shown.title), &body, &mut problems);
    }
    let (size, limit) = (rendered.counted_bytes, FCM_BYTES_MAX);
    Ok(Preview { payload: Some(body), headers, size, limit, problems })
}

/// Longest `analytics_label` that Google accepts, in characters (Google, `AndroidFcmOptions`).
const ANALYTICS_LABEL_CHARS_MAX: usize = 50;

/// Adds notes on options that Google refuses, or that a message without `notification` does not have.
fn note_android_options(message: Option<&Message>, is_data: bool, problems: &mut Vec<String>) {
    let Some(options) = message.map(|message| &message.android) else { return };
    let is_label = |label: &String| {
        label.len() <= ANALYTICS_LABEL_CHARS_MAX
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~%".contains(&byte))
    };
    if options.analytics_label.as_ref().is_some_and(|label| !is_label(label)) {
        problems.push(format!(
            "Google refuses this analytics_label: at most {ANALYTICS_LABEL_CHARS_MAX} of \
             A-Z a-z 0-9 - _ . ~ %"
        ));
    }
    let delivery = AndroidPresentation {
        analytics_label: options.analytics_label.clone(),
        direct_boot_ok: options.direct_boot_ok,
        ..AndroidPresentation::default()
    };
    if is_data && *options != delivery {
        problems.push("android_options do not show: the message goes as data alone".to_owned());
    }
}

fn to_web(context: &RenderContext<'_>) -> Result<Preview, TooLarge> {
    let web_push::Payload { body, headers } = web_push::render(context)?;
    let mut problems = Vec::new();
    note_shortened(DisplayFields::of(context).title, &body, &mut problems);
    let (size, limit) = (body.len(), WEB_PUSH_BYTES_MAX);
    Ok(Preview { payload: Some(body), headers, size, limit, problems })
}

/// A message to a person on Messenger, or to a chat on any other platform. The limit applies to the text.
fn to_chat(context: &RenderContext<'_>, platform: Platform) -> Result<Preview, TooLarge> {
    let (body, limit) = match platform {
        Platform::FbMessenger => {
            (messenger::render(context)?.first.put(RECIPIENT), MESSENGER_CHARS_MAX)
        }
        Platform::ChatApp | Platform::Android | Platform::Ios | Platform::Web => {
            (telegram::render(context)?.first().body.put(RECIPIENT), TELEGRAM_CHARS_MAX)
        }
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let size = DisplayFields::of(context).text.chars().count();
    let problems = unsupported(context, platform);
    Ok(Preview { payload: Some(body), headers, size, limit, problems })
}

/// Adds a note if the title was shortened to fit.
fn note_shortened(title: &str, body: &[u8], problems: &mut Vec<String>) {
    // A body that does not contain the whole title contains a shortened one.
    let whole_title = serde_json::to_string(title).expect("a text is JSON");
    if !body.windows(whole_title.len()).any(|part| part == whole_title.as_bytes()) {
        problems.push("the title is shortened to fit".to_owned());
    }
}
