//! A dispatch in memory: what its pages share, rendered once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use notify_core::{CreateNotification, Notification, Platform, Timestamp, WebSubscription};

use crate::delivery::context::EngineContext;
use crate::delivery::lane::{Candidate, Lane, LaneProvider, Upstream};
use crate::payload::{RenderContext, poll_url};
use crate::providers::{Address, Reason, RenderedMessage, SharedProvider};
use crate::push_service::service_of;
use crate::reasons;
use crate::store::{
    AudienceDevice, AudienceSource, DeviceKey, Dispatch, DispatchNo, Outcome, StoreError, Zone,
};

/// How many moves of an address during one dispatch are followed back.
const MOVES_FOLLOWED_MAX: usize = 8;

/// A dispatch in memory.
pub(crate) struct ActiveDispatch {
    pub(crate) row: Dispatch,
    /// The instant at which tries end; `None`: one try (B19).
    pub(crate) expires_at: Option<Timestamp>,
    notification: Option<Notification>,
    cursor: AtomicI64,
    canceled: AtomicBool,
    rendered: Mutex<Option<Rendered>>,
}

impl ActiveDispatch {
    /// Reads a dispatch. A cancellation that comes in while it is read is not missed.
    pub(crate) async fn read(
        context: &EngineContext,
        no: DispatchNo,
    ) -> Result<Arc<Self>, StoreError> {
        loop {
            let cancellations = context.cancellations();
            let dispatch = Self::new(context.store.dispatch(no).await?, context);
            // From here on the job hears of them itself; what came before is read again.
            if context.cancellations() == cancellations {
                return Ok(dispatch);
            }
        }
    }

    /// A dispatch as it was just read. It hears of cancellations from here on.
    pub(crate) fn new(dispatch: Dispatch, context: &EngineContext) -> Arc<Self> {
        let parsed =
            CreateNotification::parse_accepted(dispatch.request.as_bytes(), dispatch.due_at);
        let expires_at = (dispatch.ttl_seconds > 0)
            .then(|| dispatch.due_at.plus_ms(i64::from(dispatch.ttl_seconds) * 1_000));
        if parsed.is_err() {
            tracing::error!(dispatch.no = dispatch.no.0, "a stored request cannot be read");
        }
        let dispatch = Arc::new(Self {
            expires_at,
            notification: parsed.ok(),
            cursor: AtomicI64::new(dispatch.cursor.0),
            canceled: AtomicBool::new(dispatch.canceled),
            rendered: Mutex::new(None),
            row: dispatch,
        });
        context.track(&dispatch);
        dispatch
    }

    /// Whether the caller named a `collapse_key`, by which one notification replaces another.
    pub(crate) fn replaces_others(&self) -> bool {
        let notification = self.notification.as_ref();
        notification.is_some_and(|notification| notification.collapse_key.is_some())
    }

    pub(crate) fn cursor(&self) -> DeviceKey {
        DeviceKey(self.cursor.load(Ordering::Acquire))
    }

    pub(crate) fn move_cursor(&self, to: DeviceKey) {
        self.cursor.store(to.0, Ordering::Release);
    }

    /// What is left is not to be sent.
    pub(crate) fn cancel(&self) {
        self.canceled.store(true, Ordering::Release);
    }

    pub(crate) fn canceled(&self) -> bool {
        self.canceled.load(Ordering::Acquire)
    }

    /// Whether the notification is over at that instant.
    pub(crate) fn expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
    }

    /// That instant, or when the notification expires: nothing waits longer than that.
    pub(crate) fn capped_at_expiry(&self, until: Timestamp) -> Timestamp {
        self.expires_at.map_or(until, |expires_at| expires_at.min(until))
    }

    /// Whether a device, as it is now, gets the notification.
    pub(crate) fn targets(&self, device: &AudienceDevice) -> bool {
        device.eligible && device.address.is_some()
    }

    /// How many of these devices were named and get nothing (B20: `excluded`).
    pub(crate) fn count_excluded(&self, devices: &[AudienceDevice]) -> u64 {
        if !self.targets_named_devices() {
            return 0;
        }
        devices.iter().filter(|device| !self.targets(device)).count() as u64
    }

    /// Devices in `(from, to]` that were named, were there when the notification became due, and are
    /// not among these, which were read since: they were deleted before their turn (B20).
    pub(crate) fn gone(
        &self,
        read: &[AudienceDevice],
        from: DeviceKey,
        to: DeviceKey,
    ) -> Vec<DeviceKey> {
        let AudienceSource::Named { keys, .. } = &self.row.source else { return Vec::new() };
        let named = keys.iter().filter(|key| from < **key && **key <= to);
        let is_there =
            |key: &DeviceKey| read.binary_search_by_key(key, |device| device.key).is_ok();
        named.filter(|key| !is_there(key)).copied().collect()
    }

    /// The dispatch as if it named these devices, by which they are read one by one.
    pub(crate) fn restricted_to(&self, keys: Vec<DeviceKey>) -> Dispatch {
        let tag = match &self.row.source {
            AudienceSource::Platform => None,
            AudienceSource::Tag(tag) => Some(tag.clone()),
            AudienceSource::Named { tag, .. } => tag.clone(),
        };
        Dispatch { source: AudienceSource::Named { keys, tag }, ..self.row.clone() }
    }

    pub(crate) fn targets_named_devices(&self) -> bool {
        match self.row.source {
            AudienceSource::Named { .. } => true,
            AudienceSource::Platform | AudienceSource::Tag(_) => false,
        }
    }

    /// Whether the address of a device got this notification already, when another device had it
    /// (B22, trap 8): the phone must not get it twice.
    pub(crate) async fn reached_before(
        &self,
        device: &AudienceDevice,
        context: &EngineContext,
    ) -> Result<bool, StoreError> {
        let mut previous_owner = device.previous_owner;
        for _ in 0..MOVES_FOLLOWED_MAX {
            let Some((from, since)) = previous_owner else { return Ok(false) };
            if since < self.row.due_at {
                return Ok(false);
            }
            if context.devices.is_in_flight(self.row.no, from) {
                return Ok(true);
            }
            let outcome = context.store.delivery_outcome(self.row.no, from).await?;
            if outcome.is_some_and(|outcome| outcome.settled == Outcome::Sent) {
                return Ok(true);
            }
            // That device may have had it from yet another one.
            let before = DeviceKey(from.0 - 1);
            let read =
                context.store.read_range(&self.restricted_to(vec![from]), before, from).await?;
            previous_owner = read.first().and_then(|device| device.previous_owner);
        }
        Ok(false)
    }

    /// What is behind a device, where a lane has more than one of it: a push service, or a host.
    pub(crate) fn upstream_of(
        &self,
        lane: &Lane,
        device: &AudienceDevice,
    ) -> Option<Arc<Upstream>> {
        let name = match self.row.platform {
            Platform::Web => service_of(device.address.as_deref()?),
            Platform::Ios => device.ios_env.as_str().into(),
            Platform::Android | Platform::FbMessenger | Platform::ChatApp => return None,
        };
        Some(lane.services.get_or_create(&name, device.trust))
    }

    /// How many streams the service behind a device takes; `None` where that is the provider's.
    fn service_concurrency(
        &self,
        provider: &SharedProvider,
        device: &AudienceDevice,
    ) -> Option<usize> {
        match self.row.platform {
            Platform::Web => provider.service_concurrency(device.address.as_deref()?),
            Platform::Android | Platform::Ios | Platform::FbMessenger | Platform::ChatApp => None,
        }
    }

    /// A device as the service behind it sees it.
    pub(crate) fn candidate(
        &self,
        lane: &Lane,
        provider: &SharedProvider,
        device: &AudienceDevice,
    ) -> Candidate {
        Candidate {
            trust: device.trust,
            service_concurrency: self.service_concurrency(provider, device),
            lane_slots: lane.streams_max(),
        }
    }

    /// Whether it goes out by its devices' zones.
    pub(crate) fn is_local(&self) -> bool {
        self.row.zone != Zone::All
    }

    /// Whether a device that changed its zone meanwhile had its turn in the other one (B19).
    pub(crate) async fn had_in_another_zone(
        &self,
        device: &AudienceDevice,
        context: &EngineContext,
    ) -> Result<bool, StoreError> {
        if !device.zone_changed {
            return Ok(false);
        }
        let (no, key) = (self.row.no, device.key);
        let others = context.store.sibling_dispatches(no).await?;
        if others.iter().any(|other| context.devices.is_in_flight(*other, key)) {
            return Ok(true);
        }
        context.store.had_in_another_zone(no, key).await
    }

    /// Whether [`Job::address`] has one, without making it.
    pub(crate) fn has_address(&self, device: &AudienceDevice) -> bool {
        device.address.is_some()
            && (self.row.platform != Platform::Web || device.web_keys.is_some())
    }

    /// Where a device is reached; `None` without an address that this dispatch's provider has.
    pub(crate) fn address(&self, device: &AudienceDevice) -> Option<Address> {
        let token = device.address.clone()?;
        match self.row.platform {
            Platform::Android => Some(Address::Fcm { token }),
            Platform::Ios => Some(Address::Apns { token, env: device.ios_env }),
            Platform::Web => {
                let keys = device.web_keys.as_ref()?;
                Some(Address::WebPush(Box::new(WebSubscription {
                    endpoint: token.into_string(),
                    p256dh: keys.p256dh.to_string(),
                    auth: keys.auth.to_string(),
                })))
            }
            Platform::FbMessenger => Some(Address::Messenger {
                recipient: token,
                last_inbound_at: device.last_inbound_at,
            }),
            Platform::ChatApp => Some(Address::Telegram { chat: token }),
        }
    }
}

// What is done with the devices of a dispatch, and the payload that they share.

/// How exactly a payload tells the time that is left of `ttl_seconds`, in seconds: FCM and push
/// services count it from the moment at which they take the message. At most so much too long.
const TTL_STEP_SECONDS: u32 = 60;

/// What is done with the devices of a dispatch at the moment.
#[derive(Clone)]
pub(crate) enum DeliveryMode {
    /// They are sent to.
    Send {
        /// Through this provider.
        provider: SharedProvider,
        /// This.
        payload: Arc<RenderedMessage>,
    },
    /// They are counted without being sent to (trap 10).
    Settle {
        /// As this.
        settled: Outcome,
        /// Why.
        reason: Reason,
    },
}

/// A payload, and what it was rendered for.
#[derive(Clone)]
struct Rendered {
    provider: SharedProvider,
    ttl_seconds: u32,
    payload: Result<Arc<RenderedMessage>, Reason>,
}

impl ActiveDispatch {
    /// What is to be done with devices of this dispatch now. The payload is rendered once for each
    /// configuration of the provider, and anew as the time that is left gets less.
    pub(crate) async fn mode(&self, lane: &Lane) -> Result<DeliveryMode, StoreError> {
        if self.canceled() {
            return Ok(DeliveryMode::Settle {
                settled: Outcome::Canceled,
                reason: reasons::CANCELED.into(),
            });
        }
        let provider = match lane.provider().await? {
            LaneProvider::Ready(provider) => provider,
            LaneProvider::Missing | LaneProvider::Unknown => {
                return Ok(settle_as_failed(reasons::PROVIDER_NOT_CONFIGURED.into()));
            }
        };
        let ttl_seconds = self.remaining_ttl(lane.context.clock.now());
        let mut rendered = self.rendered.lock().expect("rendering does not panic");
        let known = rendered.as_ref().filter(|known| {
            Arc::ptr_eq(&known.provider, &provider) && known.ttl_seconds == ttl_seconds
        });
        let payload = match known {
            Some(known) => known.payload.clone(),
            None => {
                let payload = self.render(&provider, ttl_seconds, &lane.context.public_url);
                let provider = provider.clone();
                *rendered = Some(Rendered { provider, ttl_seconds, payload: payload.clone() });
                payload
            }
        };
        Ok(match payload {
            Ok(payload) => DeliveryMode::Send { provider, payload },
            Err(reason) => settle_as_failed(reason),
        })
    }

    /// What is left of `ttl_seconds`, rounded up to whole steps of what passed.
    fn remaining_ttl(&self, now: Timestamp) -> u32 {
        let ttl_seconds = self.row.ttl_seconds;
        let passed_ms = now.ms_since(self.row.due_at).max(0);
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
    ) -> Result<Arc<RenderedMessage>, Reason> {
        let Some(notification) = &self.notification else {
            return Err(reasons::REQUEST_UNREADABLE.into());
        };
        let poll_url = self.row.poll_public_id.map(|id| poll_url(public_url, id));
        let outgoing = RenderContext {
            id: &self.row.notification_id,
            app_name: &self.row.app_name,
            content: &notification.content,
            poll_url: poll_url.as_deref(),
            poll_answers: &self.row.poll_answers,
            priority: notification.priority,
            collapse_key: notification.collapse_key.as_deref(),
            expires_at: self.expires_at,
            ttl_seconds,
        };
        // A message that breaks the code fails alone, as in `attempt`: its page would be taken up
        // again, and break off again, for ever.
        let prepared = catch_unwind(AssertUnwindSafe(|| provider.render(&outgoing)));
        let Ok(prepared) = prepared else {
            tracing::error!(dispatch.no = self.row.no.0, "rendering broke off");
            return Err(reasons::INTERNAL_ERROR.into());
        };
        prepared.map(Arc::new).map_err(|_| reasons::PAYLOAD_TOO_LARGE.into())
    }
}

fn settle_as_failed(reason: Reason) -> DeliveryMode {
    DeliveryMode::Settle { settled: Outcome::Failed, reason }
}
