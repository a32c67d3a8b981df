//! Reads and checks the status of a campaign and the query of the listing.

use super::{CampaignFilter, CampaignPage, CampaignStatus, ListCampaigns, SetCampaignStatus};
use crate::{
    LIMIT, LIMIT_DEFAULT, Parameter, ParameterForm, Query, Timestamp, Violations,
    json::{Body, Object},
    path::path,
    query::Parameters,
    request::request,
    take_limit,
    violations::Findings,
};

request!(SetCampaignStatus => CampaignStatus, Body::Required, read, check);

fn read(object: &mut Object<'_, '_>) -> SetCampaignStatus {
    SetCampaignStatus { status: object.required_string("status") }
}

fn check(
    request: SetCampaignStatus,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<CampaignStatus> {
    let SetCampaignStatus { status } = request;
    findings.word(&path("status"), &status, &CampaignStatus::ALL, CampaignStatus::as_str)
}

/// Largest `offset`: what every database can count to.
const OFFSET_MAX: u64 = i64::MAX.unsigned_abs();

impl Query for ListCampaigns {
    type Valid = CampaignPage;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "offset",
            ParameterForm::Whole { min: 0, max: OFFSET_MAX, or: None },
            "Results to skip",
        ),
        LIMIT,
        Parameter::new("name", ParameterForm::Text, "Part of the name, letter case ignored"),
        Parameter::new(
            "status",
            ParameterForm::Word(|| CampaignFilter::ALL.map(CampaignFilter::as_str).into()),
            "`active` when absent, `disabled` or `all`",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<CampaignPage, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let offset = parameters.whole("offset").unwrap_or(0);
        let limit = take_limit(&mut parameters).unwrap_or(LIMIT_DEFAULT);
        let name = parameters.text("name").map(str::to_owned);
        let word = parameters.text("status");
        let findings = &mut parameters.findings;
        let all = &CampaignFilter::ALL;
        let status = findings.optional_word(&path("status"), word, all, CampaignFilter::as_str);
        let status = status.unwrap_or_default();
        parameters.finish(Some(CampaignPage { offset, limit, name, status }))
    }
}
