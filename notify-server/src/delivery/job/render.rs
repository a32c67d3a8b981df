//! What is done with the devices of a dispatch, and the payload that they share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use notify_core::Timestamp;

use super::Job;
use crate::delivery::lane::{Lane, LaneProvider};
use crate::payload::{Outgoing, poll_url};
use crate::providers::{Prepared, Reason, SharedProvider};
use crate::reasons;
use crate::store::{Settled, StoreError};

/// How exactly a payload tells the time that is left of `ttl_seconds`, in seconds: FCM and push
/// services count it from the moment at which they take the message. At most so much too long.
const TTL_STEP_SECONDS: u32 = 60;

/// What is done with the devices of a dispatch at the moment.
#[derive(Clone)]
pub(crate) enum Mode {
    /// They are sent to.
    Send {
        /// Through this provider.
        provider: SharedProvider,
        /// This.
        payload: Arc<Prepared>,
    },
    /// They are counted without being sent to (trap 10).
    Count {
        /// As this.
        settled: Settled,
        /// Why.
        reason: Reason,
    },
}

/// A payload, and what it was rendered for.
#[derive(Clone)]
pub(super) struct Rendered {
    provider: SharedProvider,
    ttl_seconds: u32,
    payload: Result<Arc<Prepared>, Reason>,
}

impl Job {
    /// What is to be done with devices of this dispatch now. The payload is rendered once for each
    /// configuration of the provider, and anew as the time that is left gets less.
    pub(crate) async fn mode(&self, lane: &Lane) -> Result<Mode, StoreError> {
        if self.canceled() {
            return Ok(Mode::Count {
                settled: Settled::Canceled,
                reason: reasons::CANCELED.into(),
            });
        }
        let provider = match lane.provider().await? {
            LaneProvider::Ready(provider) => provider,
            LaneProvider::Missing | LaneProvider::Unknown => {
                return Ok(count_as_failed(reasons::PROVIDER_NOT_CONFIGURED.into()));
            }
        };
        let ttl_seconds = self.ttl_left(lane.shared.clock.now());
        let mut rendered = self.rendered.lock().expect("rendering does not panic");
        let known = rendered.as_ref().filter(|known| {
            Arc::ptr_eq(&known.provider, &provider) && known.ttl_seconds == ttl_seconds
        });
        let payload = match known {
            Some(known) => known.payload.clone(),
            None => {
                let payload = self.render(&provider, ttl_seconds, &lane.shared.public_url);
                let provider = provider.clone();
                *rendered = Some(Rendered { provider, ttl_seconds, payload: payload.clone() });
                payload
            }
        };
        Ok(match payload {
            Ok(payload) => Mode::Send { provider, payload },
            Err(reason) => count_as_failed(reason),
        })
    }

    /// What is left of `ttl_seconds`, rounded up to whole steps of what passed.
    fn ttl_left(&self, now: Timestamp) -> u32 {
        let ttl_seconds = self.dispatch.ttl_seconds;
        let passed_ms = now.ms_since(self.dispatch.due_at).max(0);
        let passed = u32::try_from(passed_ms / 1_000).unwrap_or(u32::MAX);
        let steps = passed / TTL_STEP_SECONDS * TTL_STEP_SECONDS;
        // One that is over is not sent; one try (B19) has none to lose.
        ttl_seconds.checked_sub(steps).unwrap_or(ttl_seconds)
    }

    fn render(
        &self,
        provider: &SharedProvider,
        ttl_seconds: u32,
        public_url: &str,
    ) -> Result<Arc<Prepared>, Reason> {
        let Some(notification) = &self.notification else {
            return Err(reasons::REQUEST_UNREADABLE.into());
        };
        let poll_url = self.dispatch.poll_public_id.map(|id| poll_url(public_url, id));
        let outgoing = Outgoing {
            id: &self.dispatch.notification_id,
            app_name: &self.dispatch.app_name,
            content: &notification.content,
            poll_url: poll_url.as_deref(),
            poll_answers: &self.dispatch.poll_answers,
            priority: notification.priority,
            collapse_key: notification.collapse_key.as_deref(),
            expires_at: self.expires_at,
            ttl_seconds,
        };
        // A message that breaks the code fails alone, as in `attempt`: its page would be taken up
        // again, and break off again, for ever.
        let prepared = catch_unwind(AssertUnwindSafe(|| provider.prepare(&outgoing)));
        let Ok(prepared) = prepared else {
            tracing::error!(dispatch.no = self.dispatch.no.0, "rendering broke off");
            return Err(reasons::INTERNAL_ERROR.into());
        };
        prepared.map(Arc::new).map_err(|_| reasons::PAYLOAD_TOO_LARGE.into())
    }
}

fn count_as_failed(reason: Reason) -> Mode {
    Mode::Count { settled: Settled::Failed, reason }
}
