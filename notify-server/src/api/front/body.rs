//! Reads a body whole, within its limits of size and time. Works for chunked bodies, which say no
//! length beforehand.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::Instant;

use crate::api::error::ApiError;

/// A body that comes at least this fast may take longer than the timeout.
const BYTES_PER_SECOND_MIN: u64 = 1_024;

/// The whole body.
pub(super) async fn collect<B>(
    mut body: B,
    bytes_max: usize,
    timeout: Duration,
) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let too_large = || ApiError::TooLarge { limit_bytes: bytes_max };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    let started = Instant::now();
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    loop {
        let read = first.len().max(all.len());
        let earned = Duration::from_millis(read as u64 * 1_000 / BYTES_PER_SECOND_MIN);
        let deadline = started + timeout + earned;
        let frame = tokio::time::timeout_at(deadline, body.frame());
        let Some(frame) = frame.await.map_err(|_| ApiError::TooSlow)? else { break };
        let frame = frame.map_err(|_| ApiError::invalid("body", "ended before its end"))?;
        let Ok(part) = frame.into_data() else { continue };
        if read + part.len() > bytes_max {
            return Err(too_large());
        }
        // Most bodies come in one part, which needs no copy.
        if first.is_empty() && all.is_empty() {
            first = part;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&part);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}
