//! Responses and results, as in the tables of the providers' tests.

use http::{HeaderMap, StatusCode};

use crate::providers::transport::ProviderResponse;
use crate::providers::{Processing, Scope, SendResult};

pub(in crate::providers) fn reply(status: u16, body: &str) -> ProviderResponse {
    ProviderResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: body.to_owned().into(),
        connection: 1,
    }
}

/// Checks that the status alone decides for each of these pages, which are not the provider's.
pub(in crate::providers) fn assert_status_decides(
    pages: &[&str],
    rows: impl IntoIterator<Item = (u16, SendResult)>,
    classify: impl Fn(u16, &str) -> SendResult,
) {
    for (status, expected) in rows {
        for page in pages {
            assert_eq!(classify(status, page), expected, "{status} {page}");
        }
    }
}

pub(in crate::providers) fn config(reason: &str) -> SendResult {
    SendResult::AuthRejected { reason: reason.to_owned().into() }
}

pub(in crate::providers) fn bad(reason: &str) -> SendResult {
    SendResult::InvalidMessage { reason: reason.to_owned().into() }
}

pub(in crate::providers) fn retry(reason: &str) -> SendResult {
    SendResult::Retry { reason: reason.to_owned().into(), after: None, outcome: Processing::Failed }
}

pub(in crate::providers) fn throttle(reason: &str, scope: Scope) -> SendResult {
    SendResult::Throttle { reason: reason.to_owned().into(), after: None, scope }
}

pub(in crate::providers) fn unknown(reason: &str) -> SendResult {
    SendResult::Unknown { reason: reason.to_owned().into() }
}
