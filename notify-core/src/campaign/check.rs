//! Checks a Template.

use super::{
    ACTION_BUTTONS_MAX, CONTENT_FEEDS_MAX, CUSTOM_FEEDS_MAX, CampaignFeature, CampaignLayout,
    CampaignSettings, CampaignString, CampaignTemplate, CampaignTranslations,
    EXTERNAL_CONTENTS_MAX, Feature, FeatureKind, PaString, StringName, Template, TemplateDraft,
    TemplateSettings, check_feature, read,
};
use crate::json::Body;
use crate::rules::{LISTED_NAME_CHARS_MAX, REQUIRED};
use crate::violations::{Findings, path};
use crate::{Request, Timestamp, Violations, request};

impl Request for Template {
    type Valid = CampaignTemplate;
    const NEEDS_BODY: bool = true;

    fn from_json(body: &[u8]) -> Result<Self, Violations> {
        request::from_json(body, Body::Required, read::template).map(|draft| draft.template)
    }

    fn validate(self, now: Timestamp) -> Result<CampaignTemplate, Violations> {
        request::validate(TemplateDraft::from(self), now, check)
    }

    fn parse(body: &[u8], now: Timestamp) -> Result<CampaignTemplate, Violations> {
        request::parse(body, Body::Required, now, read::template, check)
    }
}

fn check(
    draft: TemplateDraft,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<CampaignTemplate> {
    let TemplateDraft { template, places } = draft;
    let name = findings.required_up_to(&path("name"), template.name, LISTED_NAME_CHARS_MAX);
    let layout_id = findings.word(
        &path("layout_id"),
        &template.layout_id,
        &CampaignLayout::ALL,
        CampaignLayout::as_str,
    );
    if template.settings.is_none() {
        findings.broken(&path("settings"), REQUIRED);
    }
    let settings = fill_in(&template.settings.unwrap_or_default());
    let strings = check_strings(template.strings.unwrap_or_default(), findings);
    let placed = places.into_iter().zip(template.features);
    let features = check_features(placed.collect(), layout_id, findings);
    let is_default = template.is_default.unwrap_or(false);
    Some(CampaignTemplate { name, layout_id: layout_id?, settings, strings, is_default, features })
}

fn fill_in(given: &TemplateSettings) -> CampaignSettings {
    let defaults = CampaignSettings::default();
    CampaignSettings {
        big_share_button: given.big_share_button.unwrap_or(defaults.big_share_button),
        small_view: given.small_view.unwrap_or(defaults.small_view),
        build_without_image: given.build_without_image.unwrap_or(defaults.build_without_image),
        small_share_button: given.small_share_button.unwrap_or(defaults.small_share_button),
        drag_to_expand: given.drag_to_expand.unwrap_or(defaults.drag_to_expand),
    }
}

fn check_strings(strings: Vec<PaString>, findings: &mut Findings) -> Vec<CampaignString> {
    let at = path("strings");
    let mut valid: Vec<CampaignString> = Vec::with_capacity(strings.len());
    for (place, string) in strings.into_iter().enumerate() {
        let string_path = at.index(place);
        let name_path = string_path.field("name");
        let name = findings.word(&name_path, &string.name, &StringName::ALL, StringName::as_str);
        let translations_path = string_path.field("translations");
        let def = findings.required(&translations_path.field("def"), string.translations.def);
        let Some(name) = name else { continue };
        if valid.iter().any(|earlier| earlier.name == name) {
            findings.broken(&name_path, "is given twice");
        }
        valid.push(CampaignString { name, translations: CampaignTranslations { def } });
    }
    valid
}

fn count_max(kind: FeatureKind) -> usize {
    match kind {
        FeatureKind::ContentFeed => CONTENT_FEEDS_MAX,
        FeatureKind::ExternalContent => EXTERNAL_CONTENTS_MAX,
        FeatureKind::ActionButton => ACTION_BUTTONS_MAX,
        FeatureKind::CustomFeed => CUSTOM_FEEDS_MAX,
    }
}

fn check_features(
    features: Vec<(usize, Feature)>,
    layout: Option<CampaignLayout>,
    findings: &mut Findings,
) -> Vec<CampaignFeature> {
    let at = path("features");
    for kind in FeatureKind::ALL {
        let count = features.iter().filter(|(_, feature)| feature.data.kind() == kind).count();
        let max = count_max(kind);
        findings.at_most(&at, count, max, format_args!("of type {}", kind.as_str()));
    }
    let mut taken = Vec::with_capacity(features.len());
    let mut valid = Vec::with_capacity(features.len());
    for (place, feature) in features {
        let feature_path = at.index(place);
        let position_path = feature_path.field("position");
        let seat = (feature.data.kind(), feature.position);
        if feature.position == 0 {
            findings.broken(&position_path, "must be at least 1");
        } else if taken.contains(&seat) {
            let what = format_args!("is the position of another {}", seat.0.as_str());
            findings.broken(&position_path, what);
        }
        taken.push(seat);
        let data_path = feature_path.field("data");
        let data = check_feature::check(&data_path, feature.data, layout, findings);
        valid.extend(data.map(|data| CampaignFeature { position: feature.position, data }));
    }
    valid
}
