//! An active dispatch: the state that its pages share, and its messages, which are rendered once for all
//! devices of a language.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use notify_core::address::is_below_invalid;
use notify_core::{
    Content, CreateNotification, Notification, OnCrash, Platform, TTL_SECONDS_MAX, Timestamp,
    TokenProblem, WebSubscription, shown_value,
};

use crate::delivery::context::EngineContext;
use crate::delivery::decision::supports_dedup;
use crate::delivery::lane::{Candidate, Lane, LaneProvider, Upstream};
use crate::delivery::messages::{
    DeviceFields, LanguageMessage, Messages, PersonalMessage, Rendering,
};
use crate::delivery::pace::Pace;
use crate::payload::{self, RenderContext, poll_url};
use crate::providers::{Address, Reason, SharedProvider};
use crate::push_service::service_of;
use crate::reasons;
use crate::store::{
    AudienceDevice, AudienceSource, DeadAddress, DeviceKey, DeviceOutcome, Dispatch, DispatchNo,
    Intervention, Outcome, Portion, StoreError, UserNo,
};

/// Most earlier owners of an address that are checked. An address may move from device to device while
/// a dispatch runs.
const MOVES_FOLLOWED_MAX: usize = 8;

/// A dispatch in memory.
pub(crate) struct ActiveDispatch {
    pub(crate) row: Dispatch,
    /// When the notification expires; `None` if each delivery has one attempt only (`ttl_seconds` 0).
    pub(crate) expires_at: Option<Timestamp>,
    /// The parsed request; `None` if the stored request cannot be read.
    notification: Option<Notification>,
    /// The key up to which pages were opened.
    cursor: AtomicI64,
    canceled: AtomicBool,
    /// Until when the dispatch is paused, in unix milliseconds; 0 if it is not paused.
    paused_until_ms: AtomicI64,
    /// The languages of the translations.
    languages: Arc<[String]>,
    /// The content in each of these languages.
    translated: Vec<Content>,
    /// The attributes that the texts show.
    variables: Vec<String>,
    /// The rate of the notification; `None` if it has none.
    pace: Option<Pace>,
    supports_dedup: bool,
    /// The messages that were rendered last; `None` before the first rendering.
    rendered: Mutex<Option<SendMode>>,
}

impl ActiveDispatch {
    /// Reads a dispatch, without missing a cancellation or pause that arrives during the read.
    pub(crate) async fn read(
        context: &EngineContext,
        no: DispatchNo,
    ) -> Result<Arc<Self>, StoreError> {
        loop {
            let interventions = context.interventions();
            let dispatch = Self::new(context.store.dispatch(no).await?, context);
            // `new` registered the dispatch, so cancellations and pauses reach it from now on. One that
            // arrived between the read and the registration was missed and requires another read.
            if context.interventions() == interventions {
                return Ok(dispatch);
            }
        }
    }

    /// Creates the dispatch from the row that was just read, and registers it for cancellations
    /// and pauses.
    pub(crate) fn new(row: Dispatch, context: &EngineContext) -> Arc<Self> {
        let parsed = CreateNotification::parse_accepted(row.request.as_bytes(), row.due_at);
        let expires_at = payload::expires_at(row.due_at, row.ttl_seconds);
        if parsed.is_err() {
            tracing::error!(dispatch.no = row.no.0, "cannot read a stored request");
        }
        let notification = parsed.ok();
        let content = notification.as_ref().map(|notification| &notification.content);
        let languages = content.map_or_else(Vec::new, Content::languages);
        let is_raw = row.platform == Platform::Android
            && content.is_some_and(|content| content.android_json().is_some());
        let dispatch = Arc::new(Self {
            expires_at,
            languages: languages.into_iter().map(str::to_owned).collect(),
            translated: content.map_or_else(Vec::new, Content::translated),
            variables: content.map_or_else(Vec::new, Content::variables),
            pace: notification
                .as_ref()
                .and_then(|notification| notification.per_minute)
                .map(|per_minute| Pace::new(row.notification, per_minute)),
            supports_dedup: supports_dedup(row.platform) && !is_raw,
            notification,
            cursor: AtomicI64::new(row.cursor.0),
            canceled: AtomicBool::new(row.canceled),
            paused_until_ms: AtomicI64::new(row.paused_until.map_or(0, Timestamp::as_ms)),
            rendered: Mutex::new(None),
            row,
        });
        context.track(&dispatch);
        dispatch
    }

    /// Whether the request has a `collapse_key`, by which one notification replaces another.
    fn has_collapse_key(&self) -> bool {
        let notification = self.notification.as_ref();
        notification.is_some_and(|notification| notification.collapse_key.is_some())
    }

    /// Whether this notification may be late, and a later one with the same `collapse_key` may have been sent.
    /// An attempt within the age that addresses may have is not late.
    pub(crate) fn may_be_overtaken(&self, context: &EngineContext, now: Timestamp) -> bool {
        self.has_collapse_key() && now.ms_since(self.row.due_at) > context.config.address_age_ms_max
    }

    /// The devices with keys in `(after, to]` that got a later notification with the same `collapse_key`,
    /// sorted.
    pub(crate) async fn overtaken(
        &self,
        context: &EngineContext,
        after: DeviceKey,
        to: DeviceKey,
    ) -> Result<Vec<DeviceKey>, StoreError> {
        if !self.may_be_overtaken(context, context.clock.now()) {
            return Ok(Vec::new());
        }
        context.store.overtaken(self.row.no, after, to).await
    }

    /// Whether a repeated message has an identity by which the device or its platform recognises it. Raw data
    /// messages have none.
    pub(crate) fn supports_dedup(&self) -> bool {
        self.supports_dedup
    }

    /// Whether each message is recorded before it is sent, so that a crash repeats none.
    pub(crate) fn records_intents(&self) -> bool {
        !self.supports_dedup && self.row.on_crash == OnCrash::Skip
    }

    /// Whether a message depends on fields of its device other than the address.
    pub(crate) fn depends_on_devices(&self) -> bool {
        !self.languages.is_empty() || !self.variables.is_empty()
    }

    /// Reads what the messages take from these devices.
    pub(crate) async fn read_fields(
        &self,
        context: &EngineContext,
        keys: impl Iterator<Item = DeviceKey>,
    ) -> Result<DeviceFields, StoreError> {
        let mut fields = DeviceFields::default();
        if !self.depends_on_devices() {
            return Ok(fields);
        }
        let keys: Vec<DeviceKey> = keys.collect();
        if !self.variables.is_empty() {
            let (app, names) = (self.row.app, self.variables.clone());
            let values = context.store.device_attributes(app, keys.clone(), names).await?;
            let shown = values.into_iter().map(|(key, values)| {
                (key, values.iter().map(|value| value.as_ref().map(shown_value)).collect())
            });
            fields.values = shown.collect();
        }
        if !self.languages.is_empty() {
            let languages = self.languages.clone();
            fields.translations = context.store.device_translations(keys, languages).await?;
        }
        Ok(fields)
    }

    /// The message for a device.
    pub(crate) fn message_for(
        &self,
        key: DeviceKey,
        mode: &SendMode,
        fields: &DeviceFields,
    ) -> Rendering {
        let SendMode { provider, messages, ttl_seconds, public_url } = mode;
        messages.for_device(key, fields, &self.variables, |content| {
            self.render_content(Some(content), provider, *ttl_seconds, public_url)
        })
    }

    pub(crate) fn cursor(&self) -> DeviceKey {
        DeviceKey(self.cursor.load(Ordering::Acquire))
    }

    pub(crate) fn move_cursor(&self, to: DeviceKey) {
        self.cursor.store(to.0, Ordering::Release);
    }

    /// Cancels the remaining deliveries.
    pub(crate) fn cancel(&self) {
        self.canceled.store(true, Ordering::Release);
    }

    /// Pauses the remaining deliveries, until they expire.
    pub(crate) fn pause(&self) {
        let seconds = if self.row.ttl_seconds > 0 { self.row.ttl_seconds } else { TTL_SECONDS_MAX };
        let until = self.row.due_at.plus_ms(i64::from(seconds) * 1_000);
        self.paused_until_ms.store(until.as_ms(), Ordering::Release);
    }

    /// Ends the pause.
    pub(crate) fn resume(&self) {
        self.paused_until_ms.store(0, Ordering::Release);
    }

    /// Applies what was read from the store: whether the dispatch is canceled or paused. `None` means
    /// neither. Returns whether this changes anything.
    pub(crate) fn apply(&self, intervention: Option<&Intervention>) -> bool {
        let canceled = intervention.is_some_and(|row| row.canceled);
        let until = intervention.and_then(|row| row.paused_until).map_or(0, Timestamp::as_ms);
        // A cancellation is final.
        let is_new = canceled && !self.canceled.swap(true, Ordering::AcqRel);
        self.paused_until_ms.swap(until, Ordering::AcqRel) != until || is_new
    }

    /// Until when the dispatch is paused; `None` if it is not paused.
    pub(crate) fn paused_until(&self) -> Option<Timestamp> {
        let until_ms = self.paused_until_ms.load(Ordering::Acquire);
        (until_ms > 0).then_some(Timestamp(until_ms))
    }

    /// Whether no delivery may start now, because the notification is paused. The rest of a canceled one
    /// does not wait.
    pub(crate) fn is_paused(&self, now: Timestamp) -> bool {
        !self.is_canceled() && self.paused_until().is_some_and(|until| now < until)
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::Acquire)
    }

    /// Whether the notification has expired at that time. A pause that lasts to its end lets a notification
    /// expire that has a single attempt, too.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
            || self.paused_until().is_some_and(|until| now >= until)
    }

    /// The rate that limits first attempts; `None` if nothing limits them. The rest of a notification that
    /// has expired or was canceled needs no attempts.
    pub(crate) fn pace(&self, now: Timestamp) -> Option<&Pace> {
        self.pace.as_ref().filter(|_| !self.is_canceled() && !self.has_expired(now))
    }

    /// The earlier of `until` and the expiry of the notification, because no delivery waits longer than
    /// its notification lives.
    pub(crate) fn capped_at_expiry(&self, until: Timestamp) -> Timestamp {
        self.expires_at.map_or(until, |expires_at| expires_at.min(until))
    }

    /// Whether a device in that state gets the notification.
    pub(crate) fn targets(&self, device: &AudienceDevice) -> bool {
        device.eligible && device.address.is_some()
    }

    /// The number of these devices that do not get the notification (`excluded`), if the request named its
    /// devices; otherwise 0.
    pub(crate) fn count_excluded(&self, devices: &[AudienceDevice]) -> u64 {
        if !self.targets_named_devices() {
            return 0;
        }
        devices.iter().filter(|device| !self.targets(device)).count() as u64
    }

    /// The named devices in `(from, to]` that existed when the notification became due and are missing
    /// in `read`, because they were deleted in the meantime.
    pub(crate) fn missing_named_devices(
        &self,
        read: &[AudienceDevice],
        from: DeviceKey,
        to: DeviceKey,
    ) -> Vec<DeviceKey> {
        let AudienceSource::Named { keys, .. } = &self.row.source else { return Vec::new() };
        let in_range = keys.iter().filter(|key| from < **key && **key <= to);
        let is_missing =
            |key: &DeviceKey| read.binary_search_by_key(key, |device| device.key).is_err();
        in_range.filter(|key| is_missing(key)).copied().collect()
    }

    /// A copy of the dispatch's row that names only these devices, so that the store reads only them.
    pub(crate) fn restricted_to(&self, keys: Vec<DeviceKey>) -> Dispatch {
        let (tag, users) = match &self.row.source {
            AudienceSource::Platform => (None, None),
            AudienceSource::Tag(tag) => (Some(tag.clone()), None),
            AudienceSource::Named { keys: named, users, tag } => {
                // No user has the number 0, so a device that is not named matches no user.
                let user_of = |users: &Vec<UserNo>, key: &DeviceKey| {
                    let index = named.binary_search(key).ok();
                    index.and_then(|index| users.get(index)).copied().unwrap_or(UserNo(0))
                };
                let users = users
                    .as_ref()
                    .map(|users| keys.iter().map(|key| user_of(users, key)).collect());
                (tag.clone(), users)
            }
        };
        Dispatch { source: AudienceSource::Named { keys, users, tag }, ..self.row.clone() }
    }

    /// Whether a device can leave the audience while a delivery to it waits to be retried.
    pub(crate) fn has_changing_audience(&self) -> bool {
        let names_users = matches!(self.row.source, AudienceSource::Named { users: Some(_), .. });
        names_users || self.row.condition.is_some()
    }

    /// Whether the notification goes to one device that the request names, and its attempt depends on nothing
    /// but that device and the lane.
    pub(crate) fn is_single(&self) -> bool {
        let names_one_device = matches!(
            &self.row.source,
            AudienceSource::Named { keys, users: None, .. } if keys.len() == 1
        );
        names_one_device
            && self.row.condition.is_none()
            && self.row.portion == Portion::All
            && self.pace.is_none()
            && !self.records_intents()
    }

    pub(crate) fn targets_named_devices(&self) -> bool {
        match self.row.source {
            AudienceSource::Named { .. } => true,
            AudienceSource::Platform | AudienceSource::Tag(_) => false,
        }
    }

    /// Whether the address of a device got this notification already while it belonged to another
    /// device. A phone must not get a notification twice (hazard 8 of docs/delivery.md).
    pub(crate) async fn was_delivered_to_previous_owner(
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
            if context.device_tracker.is_in_flight(self.row.no, from) {
                return Ok(true);
            }
            let outcome = context.store.delivery_outcome(self.row.no, from).await?;
            if outcome.is_some_and(|outcome| may_have_arrived(&outcome)) {
                return Ok(true);
            }
            if self.row.portion != Portion::All && self.was_sent_in_sibling(from, context).await? {
                return Ok(true);
            }
            // The previous owner may itself have got the address from another device.
            let before = DeviceKey(from.0 - 1);
            let devices =
                context.store.read_range(&self.restricted_to(vec![from]), before, from).await?;
            previous_owner = devices.first().and_then(|device| device.previous_owner);
        }
        Ok(false)
    }

    /// Whether a device got the notification in another portion of the audience.
    async fn was_sent_in_sibling(
        &self,
        key: DeviceKey,
        context: &EngineContext,
    ) -> Result<bool, StoreError> {
        for sibling in context.store.sibling_dispatches(self.row.no).await? {
            if context.device_tracker.is_in_flight(sibling, key) {
                return Ok(true);
            }
            let outcome = context.store.delivery_outcome(sibling, key).await?;
            if outcome.is_some_and(|outcome| may_have_arrived(&outcome)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The upstream behind a device's address: a push service, or a host of APNs. `None` on platforms
    /// with a single upstream.
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
        Some(lane.upstreams.get_or_create(&name, device.trust))
    }

    /// Most streams that the upstream behind a device accepts; `None` if only the provider limits
    /// them.
    fn upstream_concurrency(
        &self,
        provider: &SharedProvider,
        device: &AudienceDevice,
    ) -> Option<usize> {
        match self.row.platform {
            Platform::Web => provider.service_concurrency(device.address.as_deref()?),
            Platform::Android | Platform::Ios | Platform::FbMessenger | Platform::ChatApp => None,
        }
    }

    /// The data that an upstream needs to decide whether it accepts a delivery to a device.
    pub(crate) fn candidate(
        &self,
        lane: &Lane,
        provider: &SharedProvider,
        device: &AudienceDevice,
    ) -> Candidate {
        Candidate {
            trust: device.trust,
            upstream_concurrency: self.upstream_concurrency(provider, device),
            lane_streams: lane.streams_max(),
        }
    }

    /// Whether the notification is sent at the local time of each device, so that each time zone has its own
    /// dispatch.
    pub(crate) fn is_local(&self) -> bool {
        self.row.portion.depends_on_zone()
    }

    /// Whether a device that changed its zone had its turn in the earlier zone.
    pub(crate) async fn was_handled_in_another_zone(
        &self,
        device: &AudienceDevice,
        context: &EngineContext,
    ) -> Result<bool, StoreError> {
        if !device.zone_changed {
            return Ok(false);
        }
        let (no, key) = (self.row.no, device.key);
        let siblings = context.store.sibling_dispatches(no).await?;
        if siblings.iter().any(|sibling| context.device_tracker.is_in_flight(*sibling, key)) {
            return Ok(true);
        }
        context.store.had_in_another_zone(no, key).await
    }

    /// Why no attempt is made for a device, because of its address; `None` if it can be sent to.
    pub(crate) fn unsendable(&self, device: &AudienceDevice) -> Option<Unsendable> {
        let failed = |reason| Some(Unsendable { settled: Outcome::Failed, reason });
        let Some(address) = device.address.as_deref() else { return failed(reasons::NO_ADDRESS) };
        match self.row.platform {
            Platform::Android | Platform::Ios => {
                let problem = TokenProblem::of(self.row.platform, address)?;
                failed(reasons::of_token(problem))
            }
            Platform::Web if device.web_keys.is_none() => failed(reasons::NO_ADDRESS),
            Platform::Web => is_below_invalid(address).then_some(Unsendable {
                settled: Outcome::Unregistered,
                reason: reasons::ENDPOINT_REMOVED,
            }),
            Platform::FbMessenger | Platform::ChatApp => None,
        }
    }

    /// The address to disable if a delivery ends without an attempt with this outcome; `None` if it is not dead.
    pub(crate) fn dead_address(
        &self,
        device: &AudienceDevice,
        settled: Outcome,
        at: Timestamp,
    ) -> Option<DeadAddress> {
        let Unsendable { reason, .. } =
            self.unsendable(device).filter(|_| settled == Outcome::Unregistered)?;
        Some(DeadAddress {
            key: device.key,
            address: device.address.clone()?,
            ios_env: device.ios_env,
            reason: reason.into(),
            since: None,
            at,
            // No provider answered, so the guard does not count it.
            ambiguous: None,
        })
    }

    /// The address of a device; `None` if it has none that the provider of this dispatch can use.
    pub(crate) fn address(&self, device: &AudienceDevice) -> Option<Address> {
        let text = device.address.clone()?;
        match self.row.platform {
            Platform::Android => Some(Address::Fcm { token: text }),
            Platform::Ios => Some(Address::Apns { token: text, env: device.ios_env }),
            Platform::Web => {
                let keys = device.web_keys.as_ref()?;
                Some(Address::WebPush(Box::new(WebSubscription {
                    endpoint: text.into_string(),
                    p256dh: keys.p256dh.to_string(),
                    auth: keys.auth.to_string(),
                })))
            }
            Platform::FbMessenger => Some(Address::Messenger {
                recipient: text,
                last_inbound_at: device.last_inbound_at,
            }),
            Platform::ChatApp => Some(Address::Telegram { chat: text }),
        }
    }
}

// How the devices of a dispatch are handled, and the messages that they share.

/// The coarsest resolution of the remaining `ttl_seconds` in a payload, in seconds.
const TTL_STEP_SECONDS_MAX: u32 = 60;
/// The resolution of the remaining `ttl_seconds` is at least this fraction of the whole: a tenth.
const TTL_STEPS: u32 = 10;

/// The remaining TTL in seconds, `elapsed_ms` after the notification was due. FCM and push services
/// count the TTL from the time when they accept the message. The payload is rendered again with each
/// step, so the elapsed time is rounded down to whole steps: a message may live up to a step longer
/// than requested. A step is a tenth of the TTL, and at most [`TTL_STEP_SECONDS_MAX`].
fn remaining_ttl(ttl_seconds: u32, elapsed_ms: i64) -> u32 {
    let step = (ttl_seconds / TTL_STEPS).clamp(1, TTL_STEP_SECONDS_MAX);
    let elapsed_seconds = u32::try_from(elapsed_ms.max(0) / 1_000).unwrap_or(u32::MAX);
    // More time than the TTL can have elapsed only if `ttl_seconds` is 0, which does not shrink,
    // or if the notification has expired, so that it is not sent.
    ttl_seconds.checked_sub(elapsed_seconds / step * step).unwrap_or(ttl_seconds)
}

/// How the devices of a dispatch are handled at the moment.
#[derive(Clone)]
pub(crate) enum DeliveryMode {
    /// The devices get a message.
    Send(SendMode),
    /// The deliveries are settled without an attempt (hazard 10 of docs/delivery.md).
    Settle {
        /// The outcome.
        settled: Outcome,
        /// Why the deliveries are settled.
        reason: Reason,
    },
}

/// The messages of devices, with the provider and TTL that they are rendered for.
#[derive(Clone)]
pub(crate) struct SendMode {
    pub(crate) provider: SharedProvider,
    messages: Arc<Messages>,
    ttl_seconds: u32,
    public_url: Arc<str>,
}

impl ActiveDispatch {
    /// How the devices of this dispatch are handled now. The messages are rendered again when the
    /// provider's configuration has changed, or when the remaining TTL has shrunk by a step.
    pub(crate) async fn mode(&self, lane: &Lane) -> Result<DeliveryMode, StoreError> {
        if self.is_canceled() {
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
        let elapsed_ms = lane.context.clock.now().ms_since(self.row.due_at);
        let ttl_seconds = remaining_ttl(self.row.ttl_seconds, elapsed_ms);
        let mut rendered = self.rendered.lock().expect("rendering does not panic");
        let cached = rendered.as_ref().filter(|cached| {
            Arc::ptr_eq(&cached.provider, &provider) && cached.ttl_seconds == ttl_seconds
        });
        let mode = match cached {
            Some(cached) => cached.clone(),
            None => {
                let public_url: Arc<str> = Arc::from(lane.context.public_url.as_str());
                let messages = self.render(&provider, ttl_seconds, &public_url);
                let messages = Arc::new(messages);
                let mode = SendMode { provider, messages, ttl_seconds, public_url };
                *rendered = Some(mode.clone());
                mode
            }
        };
        Ok(match mode.messages.failure().cloned() {
            None => DeliveryMode::Send(mode),
            Some(reason) => settle_as_failed(reason),
        })
    }

    /// Renders the message of each language.
    fn render(&self, provider: &SharedProvider, ttl_seconds: u32, public_url: &str) -> Messages {
        let content = self.notification.as_ref().map(|notification| &notification.content);
        let render = |content| self.render_language(content, provider, ttl_seconds, public_url);
        let translated = self.translated.iter().map(|content| render(Some(content))).collect();
        Messages::new(render(content), translated)
    }

    /// Renders the message of one language; `content` is `None` if the stored request cannot be read.
    fn render_language(
        &self,
        content: Option<&Content>,
        provider: &SharedProvider,
        ttl_seconds: u32,
        public_url: &str,
    ) -> LanguageMessage {
        let template = content.filter(|_| !self.variables.is_empty());
        let Some(template) = template else {
            let shared = self.render_content(content, provider, ttl_seconds, public_url);
            return LanguageMessage { shared, personal: None };
        };
        let defaults = template.with_defaults();
        let shared = self.render_content(Some(&defaults), provider, ttl_seconds, public_url);
        let personal = PersonalMessage::new(template, &self.variables, &shared, |marked, texts| {
            self.with_context(marked, ttl_seconds, public_url, |context| {
                provider.render_gapped(context, texts)
            })
            .ok()
            .flatten()
        });
        LanguageMessage { shared, personal }
    }

    /// Renders the message of a content; `None` if the stored request cannot be read.
    fn render_content(
        &self,
        content: Option<&Content>,
        provider: &SharedProvider,
        ttl_seconds: u32,
        public_url: &str,
    ) -> Rendering {
        let Some(content) = content else {
            return Err(reasons::REQUEST_UNREADABLE.into());
        };
        // `device_ids` may name a device that registered on another platform after the request.
        let is_phone = matches!(self.row.platform, Platform::Android | Platform::Ios);
        if content.is_silent() && !is_phone {
            return Err(reasons::SILENT_NOT_SUPPORTED.into());
        }
        let rendered = self
            .with_context(content, ttl_seconds, public_url, |context| provider.render(context))?;
        rendered.map(Arc::new).map_err(|_| reasons::PAYLOAD_TOO_LARGE.into())
    }

    /// Calls `render` with the input of a payload.
    ///
    /// # Errors
    /// When the stored request cannot be read, or rendering panics.
    fn with_context<T>(
        &self,
        content: &Content,
        ttl_seconds: u32,
        public_url: &str,
        render: impl FnOnce(&RenderContext<'_>) -> T,
    ) -> Result<T, Reason> {
        let Some(notification) = &self.notification else {
            return Err(reasons::REQUEST_UNREADABLE.into());
        };
        let poll_url = self.row.poll_public_id.map(|id| poll_url(public_url, id));
        let row = &self.row;
        let (id, app_name, due_at) = (&row.notification_id, &row.app_name, row.due_at);
        let render_context = RenderContext {
            poll_url: poll_url.as_deref(),
            poll_answers: &row.poll_answers,
            expires_at: self.expires_at,
            ttl_seconds,
            ..RenderContext::of(id, app_name, notification, content, due_at)
        };
        // If rendering panics, only the deliveries of this dispatch fail. Without `catch_unwind` the
        // task of the page would panic, the page would be resumed, and its task would panic again.
        catch_unwind(AssertUnwindSafe(|| render(&render_context))).map_err(|_| {
            tracing::error!(dispatch.no = self.row.no.0, "rendering panicked");
            reasons::INTERNAL_ERROR.into()
        })
    }
}

/// How a delivery to an address ends to which nothing can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsendable {
    pub(crate) settled: Outcome,
    pub(crate) reason: &'static str,
}

/// Whether the device may have got the message.
fn may_have_arrived(outcome: &DeviceOutcome) -> bool {
    outcome.settled == Outcome::Sent || outcome.reason.as_deref() == Some(reasons::OUTCOME_UNKNOWN)
}

fn settle_as_failed(reason: Reason) -> DeliveryMode {
    DeliveryMode::Settle { settled: Outcome::Failed, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_ttl_is_exact_to_a_tenth_and_to_a_minute() {
        for (ttl_seconds, elapsed_ms, remaining) in [
            (60, 0, 60),
            (60, 5_999, 60),
            (60, 6_000, 54),
            (60, 59_999, 6),
            (25, 1_999, 25),
            (25, 2_000, 23),
            (600, 59_999, 600),
            (600, 60_000, 540),
            (2_419_200, 59_999, 2_419_200),
            (2_419_200, 60_000, 2_419_140),
            // Seconds are the unit of the field.
            (5, 999, 5),
            (5, 1_000, 4),
            (1, 999, 1),
            // One attempt, whenever it is made.
            (0, 0, 0),
            (0, 90_000, 0),
            // The clock was set back.
            (60, -5_000, 60),
        ] {
            assert_eq!(
                remaining_ttl(ttl_seconds, elapsed_ms),
                remaining,
                "{ttl_seconds} s, {elapsed_ms} ms later"
            );
        }
    }
}
