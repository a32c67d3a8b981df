//! The bodies and queries of requests.

use std::fmt::Debug;

use serde::Serialize;

use super::{NOW, check_violations};
use crate::json::{PASSES_MAX, bytes_read_by};
use crate::{
    AnswerPoll, CheckFeed, CreateAdminKey, CreateApp, CreateFeed, CreateKey, CreateNotification,
    CreateUserToken, CreateWebhook, DeleteUser, DeviceStatisticsQuery, EnrichmentQuery, ListAudit,
    ListCampaigns, ListDeliveries, ListDevices, ListNotificationUsers, ListNotifications, LogIn,
    LogInWithToken, NoBody, NoQuery, NotificationStatisticsQuery, OpenApiQuery, PageQuery,
    PatchAttributes, PatchUser, PreviewQuery, PreviewSegment, PutSegment, Query, RecoverWebhook,
    RegisterAppDevice, RegisterDevice, RenameKey, ReportEvents, ReportNotification, Request,
    RotateKey, SetCampaignStatus, SetPlaygroundAnswer, SetTags, SetWebAccess, StreamQuery,
    Subscribe, Template, UpdateApp, UpdateWebhook, WebReport, WebSubscribe,
};

/// The functions that check each of these models.
macro_rules! each {
    ($check:ident: $($model:ident)*) => { [$($check::<$model>),*] };
}

/// Every request model. The order is that of the selectors of the seeds, so new ones come last.
const MODELS: [fn(&[u8]); 33] = each!(check_model:
    CreateNotification ReportNotification RegisterDevice Subscribe RegisterAppDevice SetTags
    PatchAttributes PatchUser LogIn CreateUserToken LogInWithToken ReportEvents Template
    SetCampaignStatus CreateFeed CheckFeed PutSegment PreviewSegment AnswerPoll CreateWebhook
    UpdateWebhook RecoverWebhook SetWebAccess WebSubscribe WebReport CreateKey RotateKey CreateApp
    UpdateApp NoBody SetPlaygroundAnswer CreateAdminKey RenameKey);

/// Every query.
const QUERIES: [fn(&[u8]); 15] = each!(check_query:
    NoQuery PageQuery ListCampaigns ListAudit ListNotifications ListDeliveries
    ListNotificationUsers PreviewQuery DeviceStatisticsQuery NotificationStatisticsQuery
    EnrichmentQuery DeleteUser ListDevices StreamQuery OpenApiQuery);

/// Checks a body or a query. The first byte of the input selects the model, from `0` on.
///
/// # Panics
/// If reading and validating in one step or in two steps has different results, if a model that is written
/// again reads differently, or if reading looks at the body too often.
pub fn requests(data: &[u8]) {
    let Some((selector, input)) = data.split_first() else { return };
    let checks = || MODELS.iter().chain(&QUERIES);
    let selected = usize::from(selector.wrapping_sub(b'0')) % checks().count();
    if let Some(check) = checks().nth(selected) {
        check(input);
    }
}

fn check_model<M: Request + Serialize + PartialEq>(body: &[u8]) {
    let mut parsed = None;
    let bytes_read = bytes_read_by(|| parsed = Some(M::parse(body, NOW).map(drop)));
    let parsed = parsed.expect("the body was parsed");
    // An empty body can be read as an empty object.
    let size = body.len().max("{}".len());
    assert!(bytes_read <= PASSES_MAX * size, "{bytes_read} of {size} bytes");
    if let Err(violations) = &parsed {
        check_violations(violations);
    }
    let model = match M::from_json(body) {
        Ok(model) => model,
        Err(violations) => {
            check_violations(&violations);
            assert!(parsed.is_err(), "has the wrong shape, but is valid: {violations}");
            return;
        }
    };
    let printed = serde_json::to_string(&model).expect("a model can be written");
    let again = M::from_json(printed.as_bytes());
    assert!(again.is_ok_and(|again| again == model), "reads differently: {printed}");
    assert_eq!(model.validate(NOW).map(drop), parsed, "validated on its own: {printed}");
    check_accepted(body);
}

/// Checks that the server can read each notification that it accepted.
fn check_accepted(body: &[u8]) {
    if let Ok(notification) = CreateNotification::parse(body, NOW) {
        assert_eq!(CreateNotification::parse_accepted(body, NOW).as_ref(), Ok(&notification));
    }
}

fn check_query<Q>(text: &[u8])
where
    Q: Query<Valid: Debug>,
{
    let text = String::from_utf8_lossy(text);
    let pairs: Vec<(String, String)> = text
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let parsed = Q::parse(&pairs, NOW);
    if let Err(violations) = &parsed {
        check_violations(violations);
        return;
    }
    for (name, _) in &pairs {
        let is_declared = Q::PARAMETERS.iter().any(|parameter| parameter.name == name);
        let count = pairs.iter().filter(|(other, _)| other == name).count();
        assert!(is_declared && count == 1, "{name:?} is accepted: {parsed:?}");
    }
}
