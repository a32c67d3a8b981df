//! Previews: the payloads of a notification and the number of devices it would reach.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bytes::Bytes;
use notify_core::json::JsonObject;
use notify_core::{
    CampaignRef, Condition, Content, DeviceId, Field, LanguagePreview, Notification,
    NotificationId, NotificationPreview, Platform, PlatformPreview, PreviewQuery, ProviderKind,
    ProviderStatus, Recipients, Target, VALUE_CHARS_MAX, nearest_name, pluralize, shown_value,
};
use uuid::Uuid;

use super::notifications::{
    Draft, check_campaign, check_device_count, check_silent, names_devices_of_any_platform,
};
use super::segments;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::api::router::Queried;
use crate::payload::{self, Preview, PreviewSettings, RenderContext};
use crate::provider_config::ProviderConfig;
use crate::reasons;
use crate::store::{Reach, StoreError, UnusedNames};

/// The configuration of a platform's provider.
enum Provider {
    /// The provider is not configured.
    Missing,
    /// The provider is configured, but the server's master key cannot open its configuration.
    Unreadable,
    /// The provider is configured.
    Ready(Box<ProviderConfig>),
}

/// `POST /v1/notifications/preview`.
pub(crate) async fn preview(
    ctx: RequestCtx,
    Queried { body: notification, query }: Queried<Notification, PreviewQuery>,
) -> Result<JsonReply<NotificationPreview>, ApiError> {
    check_campaign(&ctx, &notification).await?;
    let sample = match query.device_id {
        Some(id) => Some(Sample::read(&ctx, &id, &notification.content).await?),
        None => None,
    };
    let id = NotificationId::from(Uuid::now_v7());
    let draft = Draft::new(&ctx, &id, &notification);
    let recipients = &notification.recipients;
    let condition = segments::condition(&ctx, recipients.audience.as_ref()).await?;
    let selection = if condition.is_some() {
        Selection::Condition { tag: recipients.tag.as_deref() }
    } else if let Some(tag) = &recipients.tag {
        Selection::Tag(tag)
    } else {
        Selection::All
    };
    let reached = ctx
        .api
        .store
        .reach(ctx.app_no(), recipients.clone(), condition.clone(), draft.due_at())
        .await?;
    if names_devices_of_any_platform(&recipients.target) {
        check_device_count(&reached)?;
    }
    let targeted: Vec<Platform> = reached.platforms.iter().map(|reach| reach.platform).collect();
    check_silent(&notification, &targeted)?;
    if let Some(sample) = &sample {
        sample.check_targeted(&targeted)?;
    }
    let devices = reached.platforms.iter().map(|reach| reach.devices).sum();
    let shared_problems =
        request_problems(&ctx, &notification, condition.as_ref(), devices).await?;
    let content = &notification.content;
    let translated = content.translated();
    let shown = sample.as_ref().map(|sample| &sample.id);
    let mut platforms = Vec::with_capacity(reached.platforms.len());
    for reach in reached.platforms {
        let platform = reach.platform;
        let provider = provider(&ctx, platform.provider()).await?;
        let renderer =
            Renderer { platform, context: draft.render_context(), settings: settings(&provider) };
        let of_sample = sample.as_ref().filter(|sample| sample.platform == platform);
        let rendered = match of_sample {
            Some(sample) => Rendered { preview: renderer.render(&sample.content), bytes_max: None },
            None => renderer.render_template(&content.untranslated()),
        };
        let in_language =
            |(language, content)| language_preview(language, renderer.render_template(content));
        let languages = content.languages().into_iter().zip(&translated).map(in_language).collect();
        let status = ctx.api.operations.engine.provider_status(ctx.app_no(), platform);
        let mut problems = shared_problems.clone();
        problems.extend(channel_problems(platform, &provider, &status));
        problems.extend(audience_problems(&reach, selection));
        problems.extend(token_problem(&ctx, platform, recipients, shown).await?);
        let at_least = is_lower_bound(&reach, selection);
        let preview = platform_preview(reach, at_least, rendered, problems);
        platforms.push(PlatformPreview { languages, ..preview });
    }
    let response = NotificationPreview {
        platforms,
        unknown: (reached.unknown > 0).then_some(reached.unknown),
    };
    let idempotency_key = ctx.idempotency_key()?.map(|key| match &sample {
        Some(sample) => key.about(&sample.id),
        None => key,
    });
    Ok(ctx.api.store.keep_preview(ctx.app_no(), response, idempotency_key).await?.into())
}

/// A device whose message is shown.
struct Sample {
    id: DeviceId,
    platform: Platform,
    /// The content in its language and with its attributes.
    content: Content,
}

impl Sample {
    fn check_targeted(&self, targeted: &[Platform]) -> Result<(), ApiError> {
        if targeted.contains(&self.platform) {
            return Ok(());
        }
        let what = format!("is on {}, which the notification does not target", self.platform);
        Err(ApiError::invalid("device_id", &what))
    }

    async fn read(ctx: &RequestCtx, id: &str, content: &Content) -> Result<Self, ApiError> {
        let id = DeviceId::new(id.to_owned()).map_err(|_| ApiError::NotFound)?;
        let (store, app) = (&ctx.api.store, ctx.app_no());
        let key = store.device_key(app, id.clone()).await?;
        let languages: Vec<String> = content.languages().into_iter().map(str::to_owned).collect();
        let found = store.device_translations(vec![key], languages.into()).await?.remove(&key);
        let content = match found.and_then(|place| content.translated().into_iter().nth(place)) {
            Some(translated) => translated,
            None => content.untranslated(),
        };
        let names = content.variables();
        let values = store.device_attributes(app, vec![key], names.clone()).await?.remove(&key);
        let value_of = |name: &str| {
            let place = names.iter().position(|known| known == name)?;
            values.as_ref()?.get(place)?.as_ref().map(shown_value)
        };
        let content = content.filled(|variable| {
            value_of(variable.name).unwrap_or_else(|| variable.default.to_owned())
        });
        Ok(Self { id, platform: key.platform(), content })
    }
}

/// Renders the messages of a platform.
struct Renderer<'a> {
    platform: Platform,
    context: RenderContext<'a>,
    settings: PreviewSettings,
}

/// The message of a content.
struct Rendered {
    preview: Preview,
    /// Its size with the longest values, if it is personalized.
    bytes_max: Option<u64>,
}

impl Renderer<'_> {
    fn render(&self, content: &Content) -> Preview {
        let context = RenderContext { content, ..self.context };
        payload::preview(self.platform, &context, &self.settings)
    }

    /// Renders a content with its defaults, and notes if its longest values do not fit.
    fn render_template(&self, content: &Content) -> Rendered {
        let mut preview = self.render(&content.with_defaults());
        if content.variables().is_empty() {
            return Rendered { preview, bytes_max: None };
        }
        let longest = self.render(&content.filled(|variable| self.longest(variable.default)));
        if longest.payload.is_none() && preview.payload.is_some() {
            preview.problems.push(format!(
                "with the longest values of its attributes, {}: such devices fail with {}",
                longest.problems.join("; "),
                reasons::PAYLOAD_TOO_LARGE
            ));
        }
        Rendered { preview, bytes_max: Some(longest.size as u64) }
    }

    /// The longest text that can stand for a variable with this default, in the unit of the limit.
    fn longest(&self, default: &str) -> String {
        // Four bytes in UTF-8, also in JSON.
        let value = "😀".repeat(VALUE_CHARS_MAX);
        let size = |text: &str| match self.platform {
            Platform::Android | Platform::Ios | Platform::Web => text.len(),
            Platform::FbMessenger | Platform::ChatApp => text.chars().count(),
        };
        if size(default) > size(&value) { default.to_owned() } else { value }
    }
}

async fn provider(ctx: &RequestCtx, kind: ProviderKind) -> Result<Provider, ApiError> {
    let row = ctx.api.store.provider(ctx.app_no(), kind).await?;
    let Some((app, row)) = row else { return Ok(Provider::Missing) };
    Ok(match ProviderConfig::open(&ctx.api.master_key, app, &row) {
        Ok(config) => Provider::Ready(Box::new(config)),
        Err(_) => Provider::Unreadable,
    })
}

fn settings(provider: &Provider) -> PreviewSettings {
    match provider {
        Provider::Ready(config) => PreviewSettings {
            apns_topic: config.apns_topic().map(str::to_owned),
            fcm_enriched_as_data: config.enriched_as_data(),
        },
        Provider::Missing | Provider::Unreadable => PreviewSettings::default(),
    }
}

/// Problems of the request that concern all platforms.
async fn request_problems(
    ctx: &RequestCtx,
    notification: &Notification,
    condition: Option<&Condition>,
    devices: u64,
) -> Result<Vec<String>, ApiError> {
    let mut problems =
        notification.passed_send_at.map_or_else(Vec::new, |_| vec![PASSED_SEND_AT.to_owned()]);
    if let Some(condition) = condition {
        let unused = ctx.api.store.unused_names(ctx.app_no(), condition).await?;
        problems.extend(unused_name_problems(&unused));
    }
    problems.extend(pace_problem(notification, devices));
    if let Some(variable) = notification.content.literal_variable() {
        problems.push(format!(
            "personalize: is not set, so people see `{variable}` and not the attribute"
        ));
    }
    if let Some(campaign @ CampaignRef::Default) = notification.content.campaign() {
        match ctx.api.store.active_campaign(ctx.app_no(), campaign).await {
            Ok(_) => {}
            Err(StoreError::NotFound) => {
                problems.push("campaign_id: there is no default campaign now".to_owned());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(problems)
}

/// The problem of push tokens that cannot be tokens of the platform's provider: of the device whose message
/// is shown, else of the named devices, else of the newest devices of the platform.
async fn token_problem(
    ctx: &RequestCtx,
    platform: Platform,
    recipients: &Recipients,
    shown: Option<&DeviceId>,
) -> Result<Option<String>, ApiError> {
    let named = match (shown, &recipients.target) {
        (Some(id), _) => Some(vec![id.clone()]),
        (None, Target::Devices { android, ios, any }) => {
            let of_platform = if platform == Platform::Ios { ios } else { android };
            Some(of_platform.iter().chain(any).cloned().collect())
        }
        (None, Target::Users { .. }) => return Ok(None),
        (None, Target::Platforms(_)) => None,
    };
    let of_whom = if named.is_some() { "these" } else { "the newest" };
    let sample = ctx.api.store.token_sample(ctx.app_no(), platform, named).await?;
    Ok(sample.problem.map(|problem| {
        format!(
            "{} of {of_whom} {} fail with {}: the push_token {problem}",
            sample.unusable,
            pluralize(sample.sampled, "device"),
            reasons::of_token(problem)
        )
    }))
}

/// Names in the condition that may be misspelt. Inside `not`, such a name selects every device.
fn unused_name_problems(unused: &UnusedNames) -> Vec<String> {
    let tags = unused.tags.iter().map(|tag| format!("audience: no device has a tag `{tag}`"));
    let known = [&Field::ALL.map(Field::as_str)[..], &["tag", "segment"]].concat();
    let attributes = unused.attributes.iter().map(|name| {
        let hint = nearest_name(name, &known);
        let hint = hint.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default();
        format!("audience: no device and no user has an attribute `{name}`{hint}")
    });
    tags.chain(attributes).collect()
}

/// The problem of a rate or a canary with which part of the devices would be reached too late.
fn pace_problem(notification: &Notification, devices: u64) -> Option<String> {
    let ttl_seconds = notification.ttl_seconds;
    let wait_seconds = notification.canary.map_or(0, |canary| canary.wait_seconds);
    let per_minute = notification.per_minute.map_or(u32::MAX, NonZeroU32::get);
    let minutes = devices.div_ceil(u64::from(per_minute));
    if ttl_seconds > 0 && ttl_seconds <= wait_seconds {
        return Some(format!(
            "canary: is judged after {wait_seconds} s, and ttl_seconds is {ttl_seconds}: the other \
             devices expire"
        ));
    }
    let is_limited = notification.per_minute.is_some();
    let time_left = u64::from(ttl_seconds.saturating_sub(wait_seconds));
    if ttl_seconds == 0 || !is_limited || minutes * 60 <= time_left {
        return None;
    }
    Some(format!(
        "per_minute: {devices} devices take {minutes} minutes at {per_minute} a minute, longer than \
         ttl_seconds ({ttl_seconds}): the last ones expire"
    ))
}

/// The problem of a `send_at` in the past.
const PASSED_SEND_AT: &str = "send_at: is in the past, so it would be sent at once";

/// Reasons why messages wait at the moment.
fn channel_problems(
    platform: Platform,
    provider: &Provider,
    status: &ProviderStatus,
) -> Vec<String> {
    let kind = platform.provider();
    match (provider, status) {
        (Provider::Missing, _) => {
            vec![format!("{kind} is not configured: its devices fail with provider_not_configured")]
        }
        (Provider::Unreadable, _) => vec![format!(
            "the configuration of {kind} cannot be opened: messages wait until {kind} is \
             configured again"
        )],
        (Provider::Ready(_), ProviderStatus::AuthRejected { reason, .. }) => {
            let cause = reasons::credentials_problem(kind.as_str(), reason.as_deref());
            vec![format!("{cause}: messages wait")]
        }
        (Provider::Ready(_), ProviderStatus::Throttled { .. }) => {
            vec![format!("{kind} asked to slow down: messages wait for now")]
        }
        (Provider::Ready(_), ProviderStatus::Unreachable { .. }) => {
            vec![format!("{kind} cannot be reached, or fails: messages wait for now")]
        }
        (Provider::Ready(_), ProviderStatus::Tripped) => vec![format!(
            "so many addresses looked dead at once that everything waits until {kind} is released or \
             configured again"
        )],
        (Provider::Ready(_), ProviderStatus::Available) => Vec::new(),
    }
}

/// What selects devices of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selection<'a> {
    /// Nothing: all devices of the target.
    All,
    /// A tag.
    Tag(&'a str),
    /// A condition, and perhaps a tag.
    Condition { tag: Option<&'a str> },
}

/// Whether at least the number of devices would be reached: the count of the tag stopped.
fn is_lower_bound(reach: &Reach, selection: Selection<'_>) -> bool {
    !reach.is_exact && matches!(selection, Selection::Tag(_))
}

/// Problems of the audience on one platform.
fn audience_problems(reach: &Reach, selection: Selection<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    if reach.devices == 0 {
        problems.push(match selection {
            Selection::Tag(tag) => format!("no device with the tag `{tag}` would be reached now"),
            Selection::Condition { .. } => {
                "no device of the audience would be reached now".to_owned()
            }
            Selection::All => "no device would be reached now".to_owned(),
        });
    }
    if !reach.is_exact {
        let bound = match selection {
            Selection::Tag(_) => "at least",
            Selection::Condition { .. } => "about",
            Selection::All => "at most",
        };
        problems.push(format!("many devices: {bound} {}", reach.devices));
    }
    if reach.unknown > 0 {
        problems.push(format!("{} of the ids name no device of the platform", reach.unknown));
    }
    if reach.excluded > 0 {
        let or_else = match selection {
            Selection::Tag(tag) => format!(", or lack the tag `{tag}`"),
            Selection::Condition { tag: Some(tag) } => {
                format!(", or lack the tag `{tag}` or do not meet the condition of the audience")
            }
            Selection::Condition { tag: None } => {
                ", or do not meet the condition of the audience".to_owned()
            }
            Selection::All => String::new(),
        };
        problems.push(format!(
            "{} of the named devices are disabled, or have no address{or_else}",
            reach.excluded
        ));
    }
    problems
}

fn platform_preview(
    reach: Reach,
    at_least: bool,
    Rendered { preview, bytes_max }: Rendered,
    mut problems: Vec<String>,
) -> PlatformPreview {
    problems.extend(preview.problems);
    let headers: BTreeMap<String, String> = preview
        .headers
        .iter()
        .map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    PlatformPreview {
        platform: reach.platform,
        devices: reach.devices,
        at_least,
        payload: preview.payload.as_ref().map(object_of),
        headers,
        languages: Vec::new(),
        bytes: preview.size as u64,
        limit: preview.limit as u64,
        bytes_max,
        problems,
    }
}

/// The message in one language. The problems of the platform are not repeated.
fn language_preview(language: &str, Rendered { preview, bytes_max }: Rendered) -> LanguagePreview {
    LanguagePreview {
        language: language.to_owned(),
        payload: preview.payload.as_ref().map(object_of),
        bytes: preview.size as u64,
        bytes_max,
        problems: preview.problems,
    }
}

/// A payload as an object. The limit of nesting is not checked again: the caller's object may be nested
/// deeper in the payload than in the request.
fn object_of(payload: &Bytes) -> JsonObject {
    serde_json::from_slice(payload).expect("a payload is a JSON object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_count_of_a_tag_is_a_lower_bound() {
        let reach = |is_exact| Reach {
            platform: Platform::Ios,
            devices: 90_000,
            is_exact,
            unknown: 0,
            excluded: 0,
        };
        for (is_exact, selection, expected) in [
            (false, Selection::Tag("vip"), true),
            (false, Selection::All, false),
            (false, Selection::Condition { tag: None }, false),
            (true, Selection::Tag("vip"), false),
        ] {
            assert_eq!(is_lower_bound(&reach(is_exact), selection), expected);
        }
        for (selection, expected) in [
            (Selection::Tag("vip"), "many devices: at least 90000"),
            (Selection::Condition { tag: None }, "many devices: about 90000"),
            (Selection::All, "many devices: at most 90000"),
        ] {
            assert_eq!(audience_problems(&reach(false), selection), [expected]);
        }
    }
}
