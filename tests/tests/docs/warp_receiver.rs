//! The receiver of webhooks with warp in the guide.

use std::sync::Arc;

use bytes::Bytes;
use notify_client::{notify_core::WebhookData, webhook::Verifier};
use warp::http::{HeaderMap, StatusCode};
use warp::{Filter, Rejection};

/// Larger than any message, in bytes.
const BODY_BYTES_MAX: u64 = 65_536;

fn receive(verifier: &Verifier, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let event = match verifier.verify(headers, body) {
        Ok(event) => event,
        Err(error) => {
            eprintln!("refused: {error}");
            return StatusCode::UNAUTHORIZED;
        }
    };
    if let WebhookData::DeviceUnregistered(device) = event.data {
        println!("{} is gone", device.device_id);
    }
    StatusCode::NO_CONTENT
}

/// `warp::serve(app(verifier)).run(address).await` serves it.
pub fn app(
    verifier: Verifier,
) -> impl Filter<Extract = (StatusCode,), Error = Rejection> + Clone + Send + Sync + 'static {
    let verifier = Arc::new(verifier);
    warp::path!("hooks" / "notify")
        .and(warp::post())
        .and(warp::header::headers_cloned())
        .and(warp::body::content_length_limit(BODY_BYTES_MAX))
        .and(warp::body::bytes())
        .map(move |headers: HeaderMap, body: Bytes| receive(&verifier, &headers, &body))
}
