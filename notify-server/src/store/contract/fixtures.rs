//! Builders of valid values; a check changes the fields it is about.

use notify_core::{
    AppId, CampaignRef, Content, CreateNotification, DeviceDetails, DeviceId, Endpoint, KeyId,
    Message, NewApp, NewPoll, Notification, NotificationId, Platform, PollLayout, ProviderKind,
    Registration, Report, Request, Schedule, Tag, TagType, Timestamp,
};
use uuid::Uuid;

use crate::store::{
    AppNo, Checkpoint, DeviceKey, DeviceOutcome, Dispatch, Idempotent, IdempotentRequest,
    InstanceId, NewKey, NewNotification, NewReport, NewRetry, OpenPage, Outcome, PageClaim,
    PageRequest, PollDraft, ProviderRow, ReclaimRequest, RetentionCutoffs, RetryClaim,
    SessionCutoffs, Store,
};

/// Now in every check, not at the beginning of an hour.
pub(crate) const NOW: Timestamp = Timestamp(1_780_000_123_456);
/// The process of the checks.
pub(crate) const INSTANCE: InstanceId = InstanceId(11);
/// The end of its leases.
pub(crate) const LEASE: Timestamp = NOW.plus_ms(30_000);

/// Cutoffs with which no session has expired.
pub(crate) const NO_SESSIONS: SessionCutoffs =
    SessionCutoffs { created_before: Timestamp(0), used_before: Timestamp(0) };

/// Cutoffs with which nothing is expired.
pub(crate) const NOTHING_EXPIRED: RetentionCutoffs = RetentionCutoffs {
    idempotency_before: Timestamp(0),
    outcomes_before: None,
    events_before: None,
    notifications_before: None,
    anonymous_before: None,
    anonymous_surplus: None,
    audit_before: None,
    sessions: NO_SESSIONS,
    at: NOW,
};

/// Reclaims everything.
pub(crate) fn adoption(instance: InstanceId) -> ReclaimRequest {
    ReclaimRequest { instance, now: NOW, lease_until: LEASE, clustered: false }
}

/// An application.
pub(crate) async fn app(store: &Store) -> AppNo {
    named_app(store, "Shop").await.1
}

/// An application with this name.
pub(crate) async fn named_app(store: &Store, name: &str) -> (AppId, AppNo) {
    let id = AppId(Uuid::now_v7());
    let no = store.create_app(id, new_app(name), None, NOW).await.unwrap();
    (id, no)
}

/// Configures a provider.
pub(crate) async fn provider(store: &Store, app: AppId, provider: ProviderKind) {
    let row = ProviderRow { provider, sealed: vec![1], updated_at: NOW };
    store.put_provider(app, row).await.unwrap();
}

pub(crate) fn new_app(name: &str) -> NewApp {
    NewApp { name: name.to_owned(), language: "en".to_owned() }
}

/// A key whose hash consists of this byte.
pub(crate) fn key(byte: u8) -> NewKey {
    NewKey {
        id: KeyId(Uuid::now_v7()),
        hash: [byte; 32],
        hint: "nk_…abcd".to_owned(),
        name: Some("backend".to_owned()),
        created_at: NOW,
    }
}

pub(crate) fn id(text: &str) -> DeviceId {
    DeviceId::new(text).unwrap()
}

/// An Android device with a token of its own.
pub(crate) fn android(device: &str) -> Registration {
    registration(device, Endpoint::Android { push_token: Some(format!("token-{device}")) })
}

/// The bytes of a text in hexadecimal, as a push token of iOS.
pub(crate) fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// An iOS device with a token of its own.
pub(crate) fn ios(device: &str) -> Registration {
    registration(device, Endpoint::Ios { push_token: Some(hexadecimal(device)), env: None })
}

pub(crate) fn registration(device: &str, endpoint: Endpoint) -> Registration {
    Registration {
        device_id: id(device),
        endpoint,
        push_disabled: false,
        utc_offset_minutes: 0,
        timezone_minutes: None,
        user_id: None,
        details: DeviceDetails::default(),
    }
}

/// Registers a device now.
pub(crate) async fn registered(store: &Store, app: AppNo, registration: Registration) {
    store.register_device(app, registration, NOW, None).await.unwrap();
}

/// Registers this many Android devices: `d000`, `d001` …
pub(crate) async fn devices(store: &Store, app: AppNo, count: usize) {
    for number in 0..count {
        registered(store, app, android(&format!("d{number:03}"))).await;
    }
}

pub(crate) fn tag(name: &str, value: bool) -> Tag {
    Tag { name: name.to_owned(), kind: TagType::Bool, value }
}

/// Sets one tag of a device.
pub(crate) async fn tagged(store: &Store, app: AppNo, device: &str, name: &str, value: bool) {
    store.set_tags(app, id(device), vec![tag(name, value)], None).await.unwrap();
}

/// The first page of a listing.
pub(crate) fn page(limit: u32) -> PageRequest {
    PageRequest { limit, cursor: None }
}

/// The page after this one.
pub(crate) fn next_page(limit: u32, cursor: Option<String>) -> PageRequest {
    assert!(cursor.is_some(), "there is a next page");
    PageRequest { limit, cursor }
}

/// A message to every device of these platforms.
pub(crate) fn broadcast(platforms: &[Platform]) -> NewNotification {
    notification(&serde_json::json!({"text": "Hello", "platforms": platforms}))
}

/// A message to these devices.
pub(crate) fn direct(android: &[&str], ios: &[&str]) -> NewNotification {
    notification(&serde_json::json!({
        "text": "Hello", "android_device_ids": android, "ios_device_ids": ios
    }))
}

/// A message to these devices of any platform and these of Android.
pub(crate) fn to_any(any: &[&str], android: &[&str]) -> NewNotification {
    notification(&serde_json::json!({
        "text": "Hello", "android_device_ids": android, "device_ids": any
    }))
}

/// A notification of a request. It expires after ten minutes, whatever the request says.
pub(crate) fn notification(request: &serde_json::Value) -> NewNotification {
    let request = request.to_string();
    let checked = CreateNotification::parse(request.as_bytes(), NOW).unwrap();
    NewNotification {
        id: NotificationId::from(Uuid::now_v7()),
        checked: Notification { ttl_seconds: 600, ..checked },
        request,
        audience: None,
        poll: None,
        at: NOW,
    }
}

/// A notification whose checked request is changed. Its text stays.
pub(crate) fn with(
    mut new: NewNotification,
    change: impl FnOnce(&mut Notification),
) -> NewNotification {
    change(&mut new.checked);
    new
}

/// A notification with a campaign.
pub(crate) fn with_campaign(campaign: CampaignRef, new: NewNotification) -> NewNotification {
    with(new, |checked| match &mut checked.content {
        Content::Message(message) => message.campaign = Some(campaign),
        Content::Poll(_) => panic!("a poll has no campaign"),
    })
}

/// A notification at another time.
pub(crate) fn at_schedule(schedule: Schedule, new: NewNotification) -> NewNotification {
    with(new, |checked| checked.schedule = schedule)
}

/// A report of a message to Android.
pub(crate) fn report(id: &str) -> NewReport {
    let message = Message { text: "Hello".into(), ..Message::default() };
    NewReport {
        report: Report {
            id: NotificationId::new(id).unwrap(),
            platforms: vec![Platform::Android],
            tag: None,
            content: Content::Message(Box::new(message)),
        },
        request: format!(r#"{{"id":"{id}","text":"Hello","platforms":["android"]}}"#),
        poll: None,
        at: NOW,
    }
}

/// A poll with two answers.
pub(crate) fn poll() -> PollDraft {
    let answer = |text: &str| notify_core::NewAnswer { text: text.to_owned(), image_url: None };
    PollDraft {
        poll: NewPoll {
            text: "Tea?".to_owned(),
            layout_id: PollLayout::PollText,
            image_url: None,
            answers: vec![answer("yes"), answer("no")],
        },
        answers: vec![notify_core::AnswerId(Uuid::now_v7()), notify_core::AnswerId(Uuid::now_v7())],
        public_id: Uuid::now_v7(),
    }
}

/// A request with an idempotency key.
pub(crate) fn once(path: &str, key: &str, digest: u8) -> IdempotentRequest {
    IdempotentRequest {
        path: path.to_owned(),
        key: key.to_owned(),
        digest: [digest; 32],
        at: NOW,
        device: None,
    }
}

/// The result of a request that was executed.
pub(crate) fn now<T: std::fmt::Debug>(done: Idempotent<T>) -> T {
    match done {
        Idempotent::Executed(answer) => answer,
        Idempotent::Replayed(answer) => panic!("it happened before: {answer}"),
    }
}

/// Accepts a notification; returns its id.
pub(crate) async fn accepted(store: &Store, app: AppNo, new: NewNotification) -> NotificationId {
    now(store.accept_notification(app, new, None).await.unwrap()).id
}

/// Accepts and starts a notification with one dispatch.
pub(crate) async fn dispatch(store: &Store, app: AppNo, new: NewNotification) -> Dispatch {
    accepted(store, app, new).await;
    let (started, more) = store.start_due(NOW, 10).await.unwrap();
    assert_eq!((started.len(), more), (1, false));
    store.dispatch(started[0]).await.unwrap()
}

/// A started broadcast to Android.
pub(crate) async fn android_dispatch(store: &Store, app: AppNo) -> Dispatch {
    dispatch(store, app, broadcast(&[Platform::Android])).await
}

/// The keys of the audience, and one page with all of it.
pub(crate) async fn whole_page(store: &Store, dispatch: &Dispatch) -> (Vec<DeviceKey>, OpenPage) {
    let slice = store.read_batch(dispatch, dispatch.cursor, 1_000).await.unwrap();
    assert!(slice.end);
    let keys: Vec<DeviceKey> = slice
        .devices
        .iter()
        .filter(|device| device.eligible && device.address.is_some())
        .map(|device| device.key)
        .collect();
    let claim = PageClaim { targeted: keys.len() as u64, ..claim(dispatch, slice.to, true) };
    (keys, store.open_page(claim).await.unwrap())
}

/// A claim of everything up to a key, without targets.
pub(crate) fn claim(dispatch: &Dispatch, to: DeviceKey, end: bool) -> PageClaim {
    PageClaim {
        dispatch: dispatch.no,
        from: dispatch.cursor,
        to,
        end,
        targeted: 0,
        excluded: 0,
        instance: INSTANCE,
        lease_until: LEASE,
        at: NOW,
    }
}

/// An empty checkpoint of a page with this many targeted devices.
pub(crate) fn checkpoint(page: OpenPage, targeted: usize) -> Checkpoint {
    Checkpoint {
        page,
        settled: Vec::new(),
        retries: Vec::new(),
        dead: Vec::new(),
        moved: Vec::new(),
        verified: Vec::new(),
        targeted: targeted as u64,
        excluded: 0,
        at: NOW,
        lease_until: LEASE,
        finished: false,
        intents: None,
    }
}

/// An outcome at the first attempt.
pub(crate) fn outcome(
    key: DeviceKey,
    settled: Outcome,
    reason: Option<&'static str>,
) -> DeviceOutcome {
    DeviceOutcome { key, settled, reason: reason.map(Into::into), attempts: 1, message_id: None }
}

pub(crate) fn sent(key: DeviceKey) -> DeviceOutcome {
    outcome(key, Outcome::Sent, None)
}

/// A retry that is due a second from now.
pub(crate) fn retry(key: DeviceKey) -> NewRetry {
    NewRetry {
        key,
        attempts: 1,
        first_attempt_at: NOW,
        due_at: NOW.plus_ms(1_000),
        reason: "ServiceUnavailable".into(),
        unknown_outcomes: 0,
    }
}

/// A dispatch to this many devices, each with a retry.
pub(crate) async fn retried(store: &Store, app: AppNo, count: usize) -> (Dispatch, Vec<DeviceKey>) {
    devices(store, app, count).await;
    let dispatch = android_dispatch(store, app).await;
    let (keys, page) = whole_page(store, &dispatch).await;
    let retries = keys.iter().map(|key| retry(*key)).collect();
    let last = Checkpoint { retries, finished: true, ..checkpoint(page, keys.len()) };
    store.checkpoint(last).await.unwrap();
    (dispatch, keys)
}

/// A claim of Android retries two seconds from now, when they are due.
pub(crate) fn retry_claim(app: AppNo) -> RetryClaim {
    RetryClaim {
        app,
        platform: Platform::Android,
        limit: 100,
        instance: INSTANCE,
        lease_until: LEASE,
        now: NOW.plus_ms(2_000),
        exclude: Vec::new(),
        reclaim_own: false,
    }
}
