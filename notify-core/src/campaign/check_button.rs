//! Checks action buttons: what each type requires, and what every field holds.

use super::{
    ButtonFields, ButtonKind, CampaignButton, LATITUDE_MAX, LONGITUDE_MAX, TemplateButton,
};
use crate::violations::{Findings, Path};

pub(super) fn check(
    at: &Path<'_>,
    button: TemplateButton,
    findings: &mut Findings,
) -> Option<CampaignButton> {
    let kind = findings.word(&at.field("type"), &button.kind, &ButtonKind::ALL, ButtonKind::as_str);
    if let Some(kind) = kind {
        check_required(at, kind, &button, findings);
    }
    let mut beside = ButtonFields {
        url: findings.uri(&at.field("url"), button.url),
        start_date: findings.instant(&at.field("start_date"), button.start_date),
        end_date: findings.instant(&at.field("end_date"), button.end_date),
        description: findings.text(&at.field("description"), button.description),
        lat: button.lat,
        lng: button.lng,
        title: findings.text(&at.field("title"), button.title),
        icon: findings.text(&at.field("icon"), button.icon),
        icon_url: findings.http_url(&at.field("icon_url"), button.icon_url),
    };
    if kind == Some(ButtonKind::Cal)
        && let (Some(start), Some(end)) = (beside.start_date, beside.end_date)
        && end < start
    {
        findings.broken(&at.field("end_date"), "must not be before start_date");
    }
    if kind == Some(ButtonKind::Nav) {
        check_degrees(&at.field("lat"), button.lat, LATITUDE_MAX, findings);
        check_degrees(&at.field("lng"), button.lng, LONGITUDE_MAX, findings);
    }
    let action = beside.take_action(kind?)?;
    Some(CampaignButton { action, data: button.data, beside })
}

fn check_required(
    at: &Path<'_>,
    kind: ButtonKind,
    button: &TemplateButton,
    findings: &mut Findings,
) {
    let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let required: &[(&str, bool)] = match kind {
        ButtonKind::Fb | ButtonKind::Wa | ButtonKind::Sms | ButtonKind::Email => &[],
        ButtonKind::Cal => &[
            ("start_date", button.start_date.is_some()),
            ("end_date", button.end_date.is_some()),
            ("description", has(&button.description)),
        ],
        ButtonKind::Video | ButtonKind::Url => &[("url", has(&button.url))],
        ButtonKind::Nav => &[("lat", button.lat.is_some()), ("lng", button.lng.is_some())],
        ButtonKind::Custom => &[("title", has(&button.title))],
    };
    for (name, _) in required.iter().filter(|(_, is_given)| !is_given) {
        findings.broken(&at.field(name), format_args!("is required for type {}", kind.as_str()));
    }
    if kind == ButtonKind::Custom && !has(&button.icon) && !has(&button.icon_url) {
        findings.broken(&at.field("icon"), "is required for type custom, or icon_url");
    }
}

fn check_degrees(at: &Path<'_>, given: Option<f64>, max: f64, findings: &mut Findings) {
    // Not a number is not within either.
    if given.is_some_and(|given| !(-max..=max).contains(&given)) {
        findings.broken(at, format_args!("must be within ±{max}"));
    }
}
