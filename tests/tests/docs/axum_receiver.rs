//! The receiver of webhooks with axum in the guide.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::{Router, body::Bytes, extract::State, routing::post};
use notify_client::{notify_core::WebhookData, webhook::Verifier};

async fn receive(
    State(verifier): State<Arc<Verifier>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let event = match verifier.verify(&headers, &body) {
        Ok(event) => event,
        Err(error) => {
            eprintln!("refused: {error}");
            return StatusCode::UNAUTHORIZED;
        }
    };
    match event.data {
        WebhookData::DeviceUnregistered(device) => println!("{} is gone", device.device_id),
        WebhookData::NotificationFailed(ended) => println!("{} failed", ended.notification_id),
        _ => {}
    }
    StatusCode::NO_CONTENT
}

/// `axum::serve(listener, app(verifier)).await` serves it.
pub fn app(verifier: Verifier) -> Router {
    Router::new().route("/hooks/notify", post(receive)).with_state(Arc::new(verifier))
}
