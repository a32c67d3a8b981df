//! The page that composes, previews and sends a notification.

use askama::Template;
use http::{Method, StatusCode};
use notify_core::{
    Campaign, CampaignList, DeviceStatistics, NotificationCreated, NotificationPreview,
    NotificationRecord, Platform, PlatformPreview, ProviderKind, ProviderList, SEGMENTS_MAX,
    Segment, SegmentList,
};
use serde_json::Value;
use warp::reply::Response;

use super::composer::{Composed, Composer};
use crate::api::console::calls::{AppScope, encoded};
use crate::api::console::drawing::Drawing;
use crate::api::console::form::{Form, new_key};
use crate::api::console::format;
use crate::api::console::format::title_of;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, render};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// The most devices that get a notification without the operator typing their number.
const UNCONFIRMED_DEVICES_MAX: u64 = 100;
/// The campaigns that the page suggests.
const CAMPAIGNS: u32 = 50;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![screen("/console/apps/{app}/send", compose), action("/console/apps/{app}/send", submit)]
}

#[derive(Template)]
#[template(path = "send.html")]
struct SendPage {
    layout: Layout,
    base: String,
    targets: Vec<Target>,
    /// The campaigns to suggest.
    campaigns: Vec<Campaign>,
    segments: Vec<SegmentChoice>,
    has_provider: bool,
    has_device: bool,
    composer: Composer,
    /// The request as JSON; empty until there is something in it.
    request: String,
    problems: Problems,
    /// Whether the script shows only parts of this response, while the operator types.
    is_live: bool,
    /// Whether the expression of the audience is not finished, while the operator types.
    is_unfinished: bool,
    /// Why the request was not sent, other than a problem of a field.
    notice: &'static str,
    status: StatusCode,
    preview: Option<Preview>,
}

/// A platform to choose.
struct Target {
    platform: Platform,
    label: &'static str,
    devices: String,
    is_configured: bool,
    is_chosen: bool,
}

/// A segment to choose.
struct SegmentChoice {
    name: String,
    is_chosen: bool,
    /// Whether it is chosen, but does not exist. It stays chosen: without it, more devices would be reached.
    is_missing: bool,
}

/// How exact a number of devices is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precision {
    Exact,
    /// It is an estimate.
    About,
    /// It is a lower bound.
    AtLeast,
}

impl Precision {
    fn of(preview: &PlatformPreview) -> Self {
        // The API marks an estimate only in the text of a problem.
        let is_estimate = preview.problems.iter().any(|text| text.starts_with(ESTIMATE));
        match (preview.at_least, is_estimate) {
            (true, _) => Self::AtLeast,
            (false, true) => Self::About,
            (false, false) => Self::Exact,
        }
    }
}

/// The beginning of the hint with an estimated number of devices.
const ESTIMATE: &str = "many devices: about ";

/// What would be sent.
struct Preview {
    platforms: Vec<PlatformView>,
    /// The devices whose platform has a provider.
    devices: u64,
    /// How exact `devices` is.
    precision: Precision,
    /// The platforms with devices, but without a provider.
    unreachable: Vec<Unreachable>,
    /// The ids of devices or users that do not exist.
    unknown: u64,
}

/// The devices of a platform whose provider is not configured.
struct Unreachable {
    /// Their number, such as `1 iOS device`.
    devices: String,
    provider: ProviderKind,
    title: &'static str,
}

/// What would be sent to one platform.
struct PlatformView {
    name: &'static str,
    label: &'static str,
    devices: String,
    drawing: Option<Drawing>,
    payload: String,
    headers: Vec<(String, String)>,
    bytes: u64,
    limit: u64,
    unit: &'static str,
    problems: Vec<String>,
    languages: Vec<LanguageView>,
}

/// The message in the language of a translation.
struct LanguageView {
    language: String,
    drawing: Option<Drawing>,
    bytes: u64,
}

impl LanguageView {
    fn is_too_large(&self, limit: &u64) -> bool {
        self.bytes > *limit
    }
}

/// A device of a platform, as a noun.
const fn device_of(platform: Platform) -> &'static str {
    match platform {
        Platform::Android => "Android device",
        Platform::Ios => "iOS device",
        Platform::Web => "browser",
        Platform::FbMessenger => "Messenger device",
        Platform::ChatApp => "Telegram device",
    }
}

/// A number of devices, such as `1,204 devices` or `at least 1,204 devices`.
fn counted(devices: u64, precision: Precision, noun: &str) -> String {
    let bound = match precision {
        Precision::Exact => "",
        Precision::About => "about ",
        Precision::AtLeast => "at least ",
    };
    format!("{bound}{}", format::count(&devices, noun))
}

impl Preview {
    fn of(preview: NotificationPreview, app: &str, targets: &[Target]) -> Self {
        let (reachable, unreachable): (Vec<_>, Vec<_>) =
            preview.platforms.iter().partition(|preview| {
                targets
                    .iter()
                    .any(|target| target.platform == preview.platform && target.is_configured)
            });
        let unreachable = unreachable.into_iter().filter(|preview| preview.devices > 0);
        Self {
            precision: reachable
                .iter()
                .map(|preview| Precision::of(preview))
                .max()
                .unwrap_or(Precision::Exact),
            devices: reachable.iter().map(|preview| preview.devices).sum(),
            unreachable: unreachable.map(Unreachable::of).collect(),
            unknown: preview.unknown.unwrap_or_default(),
            platforms: preview
                .platforms
                .into_iter()
                .map(|platform| PlatformView::of(platform, app))
                .collect(),
        }
    }

    /// The number of devices, such as `1,204 devices`.
    fn reach(&self) -> String {
        counted(self.devices, self.precision, "device")
    }

    fn needs_confirmation(&self) -> bool {
        self.precision != Precision::Exact || self.devices > UNCONFIRMED_DEVICES_MAX
    }

    /// A note on the number that the operator types.
    fn bound(&self) -> &'static str {
        match self.precision {
            Precision::Exact => "",
            Precision::About => ", which is an estimate",
            Precision::AtLeast => ", which is at least this",
        }
    }

    fn is_barred(&self) -> bool {
        self.barriers().next().is_some()
    }

    /// Why it cannot be sent: the payloads that are over their limits.
    fn barriers(&self) -> impl Iterator<Item = String> {
        self.platforms.iter().flat_map(|view| {
            let own = view.is_too_large().then_some(("text".to_owned(), view.bytes));
            let languages = view.languages.iter().filter(|one| one.is_too_large(&view.limit));
            let languages =
                languages.map(|one| (format!("translations.{}", one.language), one.bytes));
            own.into_iter().chain(languages).map(|(path, bytes)| {
                let (bytes, limit) = (format::number(&bytes), format::number(&view.limit));
                format!(
                    "{path}: {bytes} {} for {}, at most {limit} are allowed",
                    view.unit, view.label
                )
            })
        })
    }
}

impl Unreachable {
    fn of(preview: &PlatformPreview) -> Self {
        let provider = preview.platform.provider();
        Self {
            devices: counted(preview.devices, Precision::of(preview), device_of(preview.platform)),
            provider,
            title: title_of(provider),
        }
    }
}

impl PlatformView {
    fn of(preview: PlatformPreview, app: &str) -> Self {
        let precision = Precision::of(&preview);
        let PlatformPreview {
            platform,
            devices,
            at_least: _,
            payload,
            headers,
            bytes,
            limit,
            bytes_max: _,
            problems,
            languages,
        } = preview;
        let json = payload.map(|payload| payload.as_str().to_owned());
        let drawn = |json: &str| {
            let payload: Value = serde_json::from_str(json).unwrap_or_default();
            Drawing::of(platform, &payload, app)
        };
        let drawing = json.as_deref().map(drawn);
        let languages = languages.into_iter().map(|one| LanguageView {
            language: one.language,
            drawing: one.payload.map(|payload| drawn(payload.as_str())),
            bytes: one.bytes,
        });
        let unit = match platform {
            Platform::Android | Platform::Ios | Platform::Web => "bytes",
            Platform::FbMessenger | Platform::ChatApp => "characters",
        };
        Self {
            name: platform.as_str(),
            label: format::platform(&platform),
            devices: counted(devices, precision, "device"),
            drawing,
            payload: json.map(|json| format::pretty_json(&json)).unwrap_or_default(),
            headers: headers.into_iter().collect(),
            bytes,
            limit,
            unit,
            problems,
            languages: languages.collect(),
        }
    }

    fn is_too_large(&self) -> bool {
        self.bytes > self.limit
    }

    /// From here on a meter warns.
    fn high(&self) -> u64 {
        self.limit / 10 * 9
    }
}

impl SendPage {
    async fn new(visit: &Visit, scope: &AppScope, composer: Composer) -> Result<Self, ApiError> {
        let layout = visit.app_layout(scope, "Send", "Send").await?;
        let path = format!("/admin/v1/apps/{}/providers", scope.app.id);
        let ProviderList { providers } = visit.admin(&path).await?;
        let devices: DeviceStatistics = visit.get(scope, "/v1/statistics/devices").await?;
        let path = format!("/v1/campaigns?limit={CAMPAIGNS}");
        let CampaignList { campaigns } = visit.get(scope, &path).await?;
        let path = format!("/v1/segments?limit={SEGMENTS_MAX}");
        let segments: SegmentList = visit.get(scope, &path).await?;
        let names = segments.segments.into_iter().map(|segment| segment.name.as_str().to_owned());
        let mut segments = segment_choices(names, &composer.segment);
        if let Some(chosen) = segments.iter_mut().find(|choice| choice.is_missing) {
            // It may be on a later page.
            match visit
                .get::<Segment>(scope, &format!("/v1/segments/{}", encoded(&chosen.name)))
                .await
            {
                Ok(_) => chosen.is_missing = false,
                Err(ApiError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let target = |platform: Platform| {
            let mut rows = devices.platforms.iter().filter(|row| row.platform == platform);
            let kind = platform.provider();
            Target {
                platform,
                label: format::platform(&platform),
                devices: format::count(&rows.next().map_or(0, |row| row.enabled_count), "device"),
                is_configured: providers.iter().any(|provider| provider.provider == kind),
                is_chosen: composer.targets(platform),
            }
        };
        let is_filled = composer.has_text() || composer.has_target();
        Ok(Self {
            base: base_of(&layout, scope),
            targets: Platform::ALL.into_iter().map(target).collect(),
            campaigns,
            segments,
            has_provider: !providers.is_empty(),
            has_device: devices.total > 0,
            request: if is_filled { composer.pretty() } else { String::new() },
            problems: Problems::default(),
            is_live: false,
            is_unfinished: false,
            notice: "",
            status: StatusCode::OK,
            preview: None,
            composer,
            layout,
        })
    }

    /// Previews the request. Problems are in `problems`.
    ///
    /// # Errors
    /// Whatever the API answers, except that the request is invalid.
    async fn preview(&mut self, visit: &Visit, scope: &AppScope) -> Result<(), ApiError> {
        let Composed { body, problems: mut rules } = self.composer.compose();
        let is_past = self.composer.is_past(visit.ctx.received_at);
        if is_past {
            rules.push(PAST_TIME.to_owned());
        }
        let path = "/v1/notifications/preview";
        let answer: Result<NotificationPreview, ApiError> =
            visit.change_as_written(scope, Method::POST, path, body, None).await;
        match answer {
            Ok(mut preview) => {
                if is_past {
                    // The rule above replaces the hint that it would be sent at once.
                    for platform in &mut preview.platforms {
                        platform.problems.retain(|problem| !problem.starts_with("send_at: "));
                    }
                }
                let preview = Preview::of(preview, &scope.app.name, &self.targets);
                rules.extend(preview.barriers());
                self.preview = Some(preview);
            }
            Err(ApiError::Invalid(more)) => rules.extend(more),
            Err(error) => return Err(error),
        }
        let problem = self.composer.expression_problem();
        if let Some(problem) = &problem {
            // The request has an invalid condition instead, for which the API reports other rules.
            let own = format!("audience: {}", problem.what);
            rules.retain(|rule| *rule == own || !is_below(rule, "audience"));
        }
        self.is_unfinished = self.is_live && problem.as_ref().is_some_and(|one| one.is_at_end);
        self.set_words(&mut rules);
        if self.is_live {
            rules.retain(|rule| !self.is_still_missing(rule));
        }
        self.problems = Problems::new(rules);
        Ok(())
    }

    /// Puts rules of the API into the words of the fields.
    fn set_words(&self, rules: &mut [String]) {
        if self.composer.is_json {
            return;
        }
        for rule in rules {
            if let Some((_, _, words)) =
                WORDS.iter().find(|(path, what, _)| is_rule(rule, path, what))
            {
                *rule = (*words).to_owned();
            }
        }
    }

    /// The problems of the form with the labels of its fields, or as the API reports them for JSON.
    fn summary(&self) -> Problems {
        let rules = self.problems.all().iter().map(|rule| {
            let label = LABELS.iter().find(|(path, _)| is_rule(rule, path, ""));
            match (label, rule.split_once(": ")) {
                (Some((_, label)), Some((_, what))) if !self.composer.is_json => {
                    format!("{label}: {what}")
                }
                _ => rule.clone(),
            }
        });
        Problems::new(rules.collect())
    }

    /// Whether a rule concerns a part that the operator has not come to yet.
    fn is_still_missing(&self, rule: &str) -> bool {
        (rule.starts_with("text: ") && !self.composer.has_text())
            || (rule.starts_with("platforms: ") && !self.composer.has_target())
            || (is_below(rule, "audience") && self.is_unfinished)
    }

    /// Where the expression of the audience is wrong.
    fn place(&self) -> Option<String> {
        let problem = self.composer.expression_problem().filter(|_| !self.is_unfinished)?;
        (!self.problems.of_field("audience").is_empty()).then_some(problem.place)
    }

    /// The command that sends the same notification, if there is a preview of it.
    fn command(&self) -> Option<String> {
        self.preview.as_ref().and_then(|_| self.composer.command())
    }

    /// Whether the script keeps the last drawing: a field, such as a url that is half typed, has a problem.
    fn keeps_drawing(&self) -> bool {
        self.is_live && self.preview.is_none() && (self.is_unfinished || !self.problems.is_empty())
    }

    /// The problems that stand at the JSON: all of them.
    fn json_problems(&self) -> &[String] {
        if self.composer.is_json { self.problems.all() } else { &[] }
    }

    /// Whether the message is too large for a platform.
    fn is_barred(&self) -> bool {
        self.preview.as_ref().is_some_and(Preview::is_barred)
    }

    /// The label of the button that sends.
    fn send_label(&self) -> String {
        let is_later = !self.composer.is_json && !self.composer.at.is_empty();
        let verb = if is_later { "Schedule" } else { "Send" };
        match &self.preview {
            Some(preview) if is_later => format!("{verb} for {}", preview.reach()),
            Some(preview) => format!("{verb} to {}", preview.reach()),
            None => verb.to_owned(),
        }
    }

    /// What a preview still needs.
    fn missing(&self) -> &'static str {
        match (self.composer.has_text(), self.composer.has_target()) {
            (false, false) => "a text and a recipient",
            (false, true) => "a text",
            (true, false) => "a recipient: a platform, a user or a device",
            (true, true) if self.is_unfinished => "the end of the condition",
            (true, true) => "",
        }
    }

    /// Whether the number of devices is confirmed. Adds a problem if it is not.
    fn check_confirmation(&mut self) {
        let Some(preview) = &self.preview else { return };
        let (typed, devices) = (self.composer.confirmed(), preview.devices);
        if !preview.needs_confirmation() || typed == Some(devices) {
            return;
        }
        let reach = preview.reach();
        let rule = match typed {
            None => format!("confirm: type {devices} to send to {reach}"),
            Some(_) => format!("confirm: it would reach {reach} now: type {devices} to send"),
        };
        self.problems = Problems::new(vec![rule]);
        self.composer.confirm = String::new();
    }

    /// Shows the notice if the server cannot process requests now.
    ///
    /// # Errors
    /// Any other error.
    fn set_unavailable(&mut self, error: ApiError, notice: &'static str) -> Result<(), ApiError> {
        self.status = error.status();
        self.notice = notice;
        if self.status == StatusCode::SERVICE_UNAVAILABLE { Ok(()) } else { Err(error) }
    }

    fn show(&self) -> Response {
        render(self, self.status)
    }
}

/// Rules of the API, by their path and beginning, in the words of the fields.
const WORDS: [(&str, &str, &str); 4] = [
    (
        "platforms",
        "must contain at least one",
        "platforms: choose a platform, or enter users or devices",
    ),
    (
        "campaign_id",
        "must be the id of a campaign, or `default`",
        "campaign_id: There is no campaign with this id",
    ),
    (
        "campaign_id",
        "no active campaign has this id",
        "campaign_id: There is no active campaign with this id",
    ),
    (
        "ios_settings.badge",
        "is required",
        "ios_settings.badge: Enter a number too: iOS needs it with a sound, and 0 removes it",
    ),
];
/// The labels of fields, by the path of their rules.
const LABELS: [(&str, &str); 9] = [
    ("platforms", "To"),
    ("user_ids", "Users"),
    ("audience", "Condition"),
    ("campaign_id", "Campaign"),
    ("send_at", "When"),
    ("ios_settings.badge", "Number on the icon, iOS"),
    ("url", "Link"),
    ("image_url", "Image"),
    ("ttl_seconds", "Try for"),
];
/// The rule for a time in the past, which the API would send at once.
const PAST_TIME: &str = "send_at: This time is in the past. Leave it empty to send now.";
/// The notice after a 503.
const UNKNOWN_OUTCOME: &str = "The server could not do this now. It may have been stored or not: \
    press Send again, the same key is used, so that it is sent once.";
/// The notice after a 503 that concerned only the preview.
const NOT_PREVIEWED: &str = "The server could not do this now. Press Preview again.";
/// The notice after a 409: the operator changed the form after it was sent.
const SENT_BEFORE: &str = "An earlier version of this form was sent already. Press Send to send this \
    version too, as a new notification.";

async fn compose(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let from = visit.query("from")?;
    let composer = if from.is_empty() {
        let platforms = visit.query("platforms")?;
        let platforms = platforms.split(',').filter(|name| name.parse::<Platform>().is_ok());
        Composer {
            text: visit.query("text")?,
            platforms: platforms.map(str::to_owned).collect(),
            users: visit.query("user")?,
            devices: visit.query("device")?,
            segment: visit.query("segment")?,
            ..Composer::empty()
        }
    } else {
        let path = format!("/v1/notifications/{}", encoded(&from));
        let record: NotificationRecord = visit.get(&scope, &path).await?;
        Composer::of_request(&record.request)
    };
    let mut page = SendPage::new(&visit, &scope, composer).await?;
    if page.missing().is_empty() {
        page.preview(&visit, &scope).await?;
    }
    Ok(page.show())
}

async fn submit(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let composer = Composer::of_form(&form);
    // Everything that the page shows is read before sending: if the storage fails then, the page can
    // still be shown with its input.
    let mut page = SendPage::new(&visit, &scope, composer).await?;
    let is_sending = form.text("do") == "send";
    // No rule is left out when sending.
    page.is_live = !is_sending && form.text("live") == "1";
    if let Err(error) = page.preview(&visit, &scope).await {
        page.set_unavailable(error, if is_sending { UNKNOWN_OUTCOME } else { NOT_PREVIEWED })?;
        return Ok(page.show());
    }
    if !is_sending {
        return Ok(page.show());
    }
    if page.problems.is_empty() {
        page.check_confirmation();
    }
    if page.preview.is_none() || !page.problems.is_empty() {
        return Ok(page.show());
    }
    let (body, key) = (page.composer.compose().body, page.composer.key.clone());
    let path = "/v1/notifications";
    match visit.change_as_written(&scope, Method::POST, path, body, Some(&key)).await {
        Ok(NotificationCreated { id, .. }) => {
            let id = encoded(id.as_str());
            return Ok(redirect(&format!("notifications/{id}?done=sent")));
        }
        Err(ApiError::Invalid(rules)) => {
            let mut rules = at_fields(rules);
            page.set_words(&mut rules);
            page.problems = Problems::new(rules);
        }
        Err(ApiError::KeyReused) => {
            page.composer.key = new_key();
            page.notice = SENT_BEFORE;
        }
        Err(error) => page.set_unavailable(error, UNKNOWN_OUTCOME)?,
    }
    Ok(page.show())
}

/// Whether a rule is of exactly this path, and begins so.
fn is_rule(rule: &str, path: &str, what: &str) -> bool {
    rule.split_once(": ").is_some_and(|(of, rest)| of == path && rest.starts_with(what))
}

/// Whether a rule is about this path or a path below it.
fn is_below(rule: &str, path: &str) -> bool {
    rule.strip_prefix(path).is_some_and(|rest| rest.starts_with([':', '.', '[']))
}

/// The segments to choose from.
fn segment_choices(names: impl Iterator<Item = String>, chosen: &str) -> Vec<SegmentChoice> {
    let choice =
        |name: String| SegmentChoice { is_chosen: name == chosen, is_missing: false, name };
    let mut choices: Vec<SegmentChoice> = names.map(choice).collect();
    if !chosen.is_empty() && !choices.iter().any(|choice| choice.is_chosen) {
        let name = chosen.to_owned();
        choices.push(SegmentChoice { name, is_chosen: true, is_missing: true });
    }
    choices
}

/// The rules at the fields of the page: a payload that is too large for a platform is a matter of the text.
fn at_fields(rules: Vec<String>) -> Vec<String> {
    let is_of_platform = |rule: &String| {
        rule.split_once(": ").is_some_and(|(path, _)| path.parse::<Platform>().is_ok())
    };
    rules
        .into_iter()
        .map(|rule| if is_of_platform(&rule) { format!("text: {rule}") } else { rule })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_bound_needs_the_typed_number() {
        let preview = |at_least: bool, problem: &str| {
            let preview = serde_json::json!({"platforms": [{
                "platform": "ios", "devices": 5, "at_least": at_least, "payload": null,
                "headers": {}, "bytes": 1, "limit": 2, "problems": [problem],
            }]});
            let target = Target {
                platform: Platform::Ios,
                label: "iOS",
                devices: String::new(),
                is_configured: true,
                is_chosen: true,
            };
            Preview::of(serde_json::from_value(preview).unwrap(), "Shop", &[target])
        };
        let bound = preview(true, "many devices: at least 5");
        assert!(bound.needs_confirmation());
        assert_eq!(bound.reach(), "at least 5 devices");
        assert_eq!(bound.platforms[0].devices, "at least 5 devices");
        let estimate = preview(false, "many devices: about 5");
        assert!(estimate.needs_confirmation());
        assert_eq!(estimate.reach(), "about 5 devices");
        assert!(!preview(false, "many devices: at most 5").needs_confirmation());
    }

    #[test]
    fn a_chosen_segment_stays_chosen_when_it_is_deleted() {
        let names = || ["fans", "new"].map(str::to_owned).into_iter();
        let chosen = |name: &str| {
            let choices = segment_choices(names(), name);
            let chosen = choices.into_iter().filter(|choice| choice.is_chosen);
            chosen.map(|choice| (choice.name, choice.is_missing)).collect::<Vec<_>>()
        };
        assert_eq!(chosen(""), []);
        assert_eq!(chosen("new"), [("new".to_owned(), false)]);
        assert_eq!(chosen("gone"), [("gone".to_owned(), true)]);
    }
}
