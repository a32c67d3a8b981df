//! Properties of the classification of providers' responses.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use notify_core::Timestamp;

use super::transport::ProviderResponse;
use super::{
    CredentialCheck, MESSAGE_ID_BYTES_MAX, Processing, RESPONSE_BYTES_MAX, Reason, SendResult,
    apns, fcm, messenger, telegram, web_push,
};

/// The current time of all properties: 1 November 2026.
const WALL: Timestamp = Timestamp(1_793_491_200_000);
/// Longest wait that a provider can request: a day, and a second that Telegram adds.
const WAIT_MAX: Duration = Duration::from_secs(86_401);
/// Longest reason, in bytes. Reasons are stored with each outcome and are labels of metrics.
const REASON_BYTES_MAX: usize = 96;
/// Longest description of a check, in bytes.
const DETAIL_BYTES_MAX: usize = 200;
/// Most header fields of a response.
const HEADERS_MAX: usize = 16;

/// Classifies a response, which is written like one of HTTP/1.1: a line with the provider and the status,
/// header fields, an empty line, the body.
///
/// # Panics
/// If a result has a text or a wait beyond its limit, or contradicts the status.
pub fn answers(data: &[u8]) {
    let Some((provider, reply)) = read_reply(data) else { return };
    let result = match provider {
        b'a' => apns::classify(&reply.status, &reply.headers, &reply.body, WALL).0,
        b'f' => fcm::classify(&reply, WALL),
        b'w' => {
            let refuses_token = web_push::refuses_token(&reply);
            assert!(!refuses_token || matches!(reply.status.as_u16(), 401 | 403));
            web_push::classify(&reply, WALL)
        }
        b'm' => {
            messenger::check_usage(&reply.headers);
            messenger::classify(&reply, WALL)
        }
        b't' => {
            let classification = telegram::classify(&reply, WALL);
            let is_refused = matches!(classification.answer, SendResult::InvalidMessage { .. });
            assert!(classification.refused.is_none() || is_refused);
            classification.answer
        }
        b'o' => match fcm::check_token_response(&reply, WALL) {
            Ok(()) => return,
            Err(result) => result,
        },
        _ => return,
    };
    check_result(&result, &reply);
    let check = CredentialCheck::from_result(&result);
    assert!(check.detail.len() <= DETAIL_BYTES_MAX, "{check:?}");
}

fn read_reply(data: &[u8]) -> Option<(u8, ProviderResponse)> {
    let (head, body) = match data.windows(2).position(|pair| pair == b"\n\n") {
        Some(end) => (&data[..end], &data[end + 2..]),
        None => (data, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let (provider, status) = lines.next()?.split_first()?;
    let status = StatusCode::from_bytes(status.trim_ascii()).ok()?;
    let mut headers = HeaderMap::new();
    for line in lines.take(HEADERS_MAX) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        headers.append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    let body = body[..body.len().min(RESPONSE_BYTES_MAX)].to_vec().into();
    Some((*provider, ProviderResponse { status, headers, body, connection: 1 }))
}

fn check_result(result: &SendResult, reply: &ProviderResponse) {
    let is_success = reply.status.is_success();
    match result {
        SendResult::Delivered { message_id } => {
            assert!(is_success, "{} is a success: {result:?}", reply.status);
            if let Some(id) = message_id {
                assert!(id.len() <= MESSAGE_ID_BYTES_MAX, "{} bytes", id.len());
                assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id:?}");
            }
        }
        SendResult::Unregistered { reason, since, ambiguous: _ } => {
            check_reason(reason);
            assert!(since.is_none_or(|since| (Timestamp(0)..=WALL).contains(&since)), "{since:?}");
        }
        SendResult::Retry { reason, after, outcome } => {
            check_reason(reason);
            check_wait(*after);
            // Only an accepted message can have been processed.
            assert!(*outcome != Processing::Unknown || is_success, "{result:?}");
        }
        SendResult::Throttle { reason, after, scope: _ } => {
            check_reason(reason);
            check_wait(*after);
        }
        SendResult::AuthRejected { reason }
        | SendResult::ServiceRefused { reason }
        | SendResult::InvalidMessage { reason }
        | SendResult::NotPermitted { reason }
        | SendResult::Unknown { reason } => check_reason(reason),
        SendResult::AddressChanged { to } => {
            assert!(to.parse::<i64>().is_ok(), "{to}");
        }
    }
}

fn check_reason(reason: &Reason) {
    assert!((1..=REASON_BYTES_MAX).contains(&reason.len()), "{reason:?}");
    let is_printable = reason.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    assert!(is_printable, "{reason:?}");
}

fn check_wait(wait: Option<Duration>) {
    assert!(wait.is_none_or(|wait| wait <= WAIT_MAX), "{wait:?}");
}
