//! Inbound events of Messenger and chats.

use macro_rules_attribute::apply;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use notify_core::{
    AnswerId, DeviceDetails, DeviceId, DisabledReason, Endpoint, NotificationId, Platform,
    Subscription, Timestamp,
};

use super::fixtures::{self, NOW, id};
use super::is_unknown;
use crate::store::{
    AppNo, Change, ChangeListener, DeliveryChange, DeviceFilter, INBOUND_WRITTEN_EVERY_MS, Inbound,
    InboundAction, NewContact, PageRequest, Recipient, Store,
};

fn person(number: &str) -> Recipient {
    Recipient::Messenger(number.to_owned())
}

fn chat(number: &str) -> Recipient {
    Recipient::Chat(number.to_owned())
}

fn made(device: &str) -> NewContact {
    NewContact { generated_id: id(device), requested_id: None, language: None }
}

fn brought(device: &str, requested_id: &str) -> NewContact {
    NewContact { requested_id: Some(id(requested_id)), ..made(device) }
}

fn wrote(who: Recipient, contact: NewContact, at: Timestamp) -> Inbound {
    Inbound { who, at: Some(at), act: InboundAction::Wrote(contact) }
}

fn left(who: Recipient, at: Timestamp) -> Inbound {
    Inbound { who, at: Some(at), act: InboundAction::Left }
}

fn returned(who: Recipient, at: Timestamp) -> Inbound {
    Inbound { who, at: Some(at), act: InboundAction::Returned }
}

fn voted(who: Recipient, poll: &NotificationId, answer: AnswerId) -> Inbound {
    Inbound { who, at: None, act: InboundAction::Voted { poll: poll.clone(), answer } }
}

async fn take(store: &Store, app: AppNo, inbound: impl Into<Vec<Inbound>>) {
    store.take_inbound(app, inbound.into(), NOW.plus_ms(1_000_000)).await.unwrap();
}

/// The ids and addresses of all devices, in the order of creation.
async fn devices(store: &Store, app: AppNo) -> Vec<(String, String)> {
    let page = PageRequest { limit: 100, cursor: None };
    let listed = store.list_devices(app, DeviceFilter::default(), page).await.unwrap();
    let listed = listed.rows.into_iter();
    listed
        .map(|device| (device.device_id.to_string(), device.recipient_id.unwrap_or_default()))
        .collect()
}

/// The last message times in the audience, by address.
async fn last_inbound(
    store: &Store,
    app: AppNo,
    platform: Platform,
) -> Vec<(String, Option<Timestamp>)> {
    let dispatch = fixtures::dispatch(store, app, fixtures::broadcast(&[platform])).await;
    let slice = store.read_batch(&dispatch, dispatch.cursor, 100).await.unwrap();
    let devices = slice.devices.into_iter();
    devices
        .map(|device| (device.address.unwrap_or_default().to_string(), device.last_inbound_at))
        .collect()
}

fn pair(device: &str, address: &str) -> (String, String) {
    (device.to_owned(), address.to_owned())
}

#[apply(contract)]
async fn person_who_writes_is_registered_once(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let german = NewContact { language: Some("de".to_owned()), ..made("d1") };
    take(store, app, [wrote(person("7"), german, NOW), wrote(person("7"), made("d2"), NOW)]).await;
    take(store, app, [wrote(person("7"), made("d3"), NOW), wrote(chat("7"), made("d4"), NOW)])
        .await;
    assert_eq!(devices(store, app).await, [pair("d1", "7"), pair("d4", "7")]);
    assert_eq!(devices(store, other_app).await, []);
    let device = store.device(app, id("d1")).await.unwrap();
    assert_eq!((device.platform, device.enabled), (Platform::FbMessenger, true));
    assert_eq!(device.details.language.as_deref(), Some("de"));
    assert_eq!(store.device(app, id("d4")).await.unwrap().platform, Platform::ChatApp);
    let counts = store.count_devices(app, None, NOW.plus_ms(2_000_000), NOW).await.unwrap();
    assert_eq!(counts.iter().map(|count| count.enabled).collect::<Vec<_>>(), [1, 1]);
    // A device that a caller subscribed is the same device.
    let subscription = Subscription {
        device_id: None,
        endpoint: Endpoint::ChatApp { recipient_id: "7".to_owned() },
        utc_offset_minutes: 0,
        timezone_minutes: None,
        user_id: None,
        details: DeviceDetails::default(),
    };
    let done = store.subscribe_device(app, subscription, id("d5"), NOW, None).await.unwrap();
    assert_eq!(fixtures::now(done).id, id("d4"));
}

/// Anyone can open a link, so the id in a link must not give access to an existing device.
#[apply(contract)]
async fn requested_id_does_not_take_over_a_device(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    take(store, app, [wrote(chat("1"), brought("made-1", "mine"), NOW)]).await;
    assert_eq!(devices(store, app).await[1..], [pair("mine", "1")], "the id was free");
    // The id of another platform, of another chat, and one that two request at once.
    take(
        store,
        app,
        [
            wrote(chat("2"), brought("made-2", "d000"), NOW),
            wrote(chat("3"), brought("made-3", "mine"), NOW),
            wrote(chat("4"), brought("made-4", "new"), NOW),
            wrote(chat("5"), brought("made-5", "new"), NOW),
            wrote(chat("1"), brought("made-6", "newer"), NOW),
        ],
    )
    .await;
    assert_eq!(
        devices(store, app).await[1..],
        [
            pair("mine", "1"),
            pair("made-2", "2"),
            pair("made-3", "3"),
            pair("new", "4"),
            pair("made-5", "5")
        ]
    );
    let phone = store.device(app, id("d000")).await.unwrap();
    assert_eq!((phone.platform, phone.push_token.is_some()), (Platform::Android, true));
    assert!(is_unknown(&store.device(app, id("newer")).await), "a known chat keeps its id");
}

struct Changes(AtomicUsize);

impl ChangeListener for Changes {
    fn on_change(&self, change: Change) {
        if matches!(change, Change::Delivery(DeliveryChange::Device(_))) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[apply(contract)]
async fn last_message_time_is_written_once_a_minute(store: &Store) {
    let app = fixtures::app(store).await;
    take(store, app, [wrote(person("1"), made("d1"), NOW)]).await;
    let changes = Arc::new(Changes(AtomicUsize::new(0)));
    store.subscribe(Arc::clone(&changes) as Arc<dyn ChangeListener>);
    let after = |ms: i64| wrote(person("1"), made("d2"), NOW.plus_ms(ms));
    let minute = INBOUND_WRITTEN_EVERY_MS;
    let rows = [
        (after(1), NOW, 0),
        (after(minute - 1), NOW, 0),
        (after(-minute), NOW, 0),
        (after(minute), NOW.plus_ms(minute), 1),
        (after(minute), NOW.plus_ms(minute), 1),
        (after(2 * minute - 1), NOW.plus_ms(minute), 1),
        (Inbound { at: None, ..after(0) }, NOW.plus_ms(minute), 1),
        (after(10 * minute), NOW.plus_ms(10 * minute), 2),
        (after(5 * minute), NOW.plus_ms(10 * minute), 2),
    ];
    for (inbound, last, writes) in rows {
        take(store, app, [inbound.clone()]).await;
        let stored = last_inbound(store, app, Platform::FbMessenger).await;
        assert_eq!(stored, [("1".to_owned(), Some(last))], "{inbound:?}");
        assert_eq!(changes.0.load(Ordering::SeqCst), writes, "{inbound:?}");
    }
    take(store, app, [Inbound { at: None, ..wrote(chat("1"), made("d3"), NOW) }]).await;
    let stored = last_inbound(store, app, Platform::ChatApp).await;
    assert_eq!(stored, [("1".to_owned(), None)], "the time is unknown");
}

#[apply(contract)]
async fn last_message_time_moves_with_the_address(store: &Store) {
    let app = fixtures::app(store).await;
    let subscribe = |recipient: &str| {
        let subscription = Subscription {
            device_id: Some(id("mine")),
            endpoint: Endpoint::FbMessenger { recipient_id: recipient.to_owned() },
            utc_offset_minutes: 0,
            timezone_minutes: None,
            user_id: None,
            details: DeviceDetails::default(),
        };
        async { store.subscribe_device(app, subscription, id("made"), NOW, None).await.unwrap() }
    };
    take(store, app, [wrote(person("1"), made("d1"), NOW)]).await;
    subscribe("1").await;
    let stored = async || {
        let stored = last_inbound(store, app, Platform::FbMessenger).await;
        stored.into_iter().filter(|(address, _)| !address.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(stored().await, [("1".to_owned(), Some(NOW))], "to a new device");
    subscribe("2").await;
    assert_eq!(stored().await, [("2".to_owned(), None)], "another person has not written");
    take(store, app, [wrote(person("3"), made("d3"), NOW.plus_ms(3))]).await;
    subscribe("3").await;
    assert_eq!(stored().await, [("3".to_owned(), Some(NOW.plus_ms(3)))], "to one that was there");
}

async fn is_enabled(store: &Store, app: AppNo, device: &str) -> bool {
    let device = store.device(app, id(device)).await.unwrap();
    let reason = (!device.enabled).then_some(DisabledReason::Unregistered);
    assert_eq!(device.disabled_reason, reason);
    let counts = store.count_devices(app, None, NOW.plus_ms(2_000_000), NOW).await.unwrap();
    assert_eq!(
        (counts[0].enabled, counts[0].disabled),
        if device.enabled { (1, 0) } else { (0, 1) }
    );
    device.enabled
}

#[apply(contract)]
async fn newer_message_enables_a_device_again(store: &Store) {
    let app = fixtures::app(store).await;
    take(store, app, [wrote(person("1"), made("d1"), NOW)]).await;
    // A provider's report, as the engine commits it.
    let dispatch =
        fixtures::dispatch(store, app, fixtures::broadcast(&[Platform::FbMessenger])).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let dead = vec![crate::store::DeadAddress {
        at: NOW.plus_ms(1_000),
        ..super::unregistered::report(keys[0], "1", None)
    }];
    let reported = crate::store::Checkpoint { dead, ..fixtures::checkpoint(page, 1) };
    store.checkpoint(reported).await.unwrap();
    assert!(!is_enabled(store, app, "d1").await);
    for (after, enabled) in [(999, false), (-5, false), (1_001, true), (1_002, true)] {
        take(store, app, [wrote(person("1"), made("d2"), NOW.plus_ms(after))]).await;
        assert_eq!(is_enabled(store, app, "d1").await, enabled, "{after}");
    }
    let stored = last_inbound(store, app, Platform::FbMessenger).await;
    let revived = Some(NOW.plus_ms(1_001));
    assert_eq!(stored, [("1".to_owned(), revived)], "what revives is written at once");
}

#[apply(contract)]
async fn blocking_disables_a_device_until_unblocked(store: &Store) {
    let app = fixtures::app(store).await;
    let at = |ms: i64| NOW.plus_ms(ms);
    let rows = [
        (wrote(chat("1"), made("d1"), at(0)), true),
        (left(chat("1"), at(-1)), true),
        (left(chat("1"), at(10)), false),
        (returned(chat("1"), at(9)), false),
        (wrote(chat("1"), made("d2"), at(9)), false),
        (Inbound { at: None, ..wrote(chat("1"), made("d2"), at(0)) }, false),
        (returned(chat("1"), at(20)), true),
        (left(chat("1"), at(10)), true),
        (Inbound { at: None, ..left(chat("1"), at(0)) }, true),
        (left(chat("1"), at(30)), false),
        (left(chat("1"), at(30)), false),
        (wrote(chat("1"), made("d2"), at(40)), true),
    ];
    for (inbound, enabled) in rows {
        take(store, app, [inbound.clone()]).await;
        assert_eq!(is_enabled(store, app, "d1").await, enabled, "{inbound:?}");
    }
    assert_eq!(devices(store, app).await, [pair("d1", "1")]);
}

/// A poll with its two answers.
async fn poll(store: &Store, app: AppNo) -> (NotificationId, [AnswerId; 2]) {
    let draft = fixtures::poll();
    let answers = [draft.answers[0], draft.answers[1]];
    let mut new = fixtures::broadcast(&[Platform::ChatApp]);
    new.poll = Some(draft);
    (fixtures::accepted(store, app, new).await, answers)
}

async fn clicks(store: &Store, app: AppNo, poll: &NotificationId) -> Vec<u64> {
    let poll = store.poll(app, poll.clone()).await.unwrap();
    poll.answers.iter().map(|answer| answer.clicks).collect()
}

#[apply(contract)]
async fn button_press_counts_once_per_device(store: &Store) {
    let app = fixtures::app(store).await;
    let (first, [yes, no]) = poll(store, app).await;
    let (second, [also_yes, _]) = poll(store, app).await;
    take(
        store,
        app,
        [
            wrote(chat("1"), made("d1"), NOW),
            voted(chat("1"), &first, no),
            voted(chat("1"), &first, no),
            voted(chat("1"), &first, yes),
            wrote(person("1"), made("d2"), NOW),
            voted(person("1"), &first, yes),
        ],
    )
    .await;
    take(store, app, [voted(chat("1"), &first, yes), voted(chat("1"), &second, also_yes)]).await;
    assert_eq!(clicks(store, app, &first).await, [1, 1]);
    assert_eq!(clicks(store, app, &second).await, [1, 0]);
    // The page and the API know the device too.
    let vote = notify_core::PollVote { device_id: Some(DeviceId::new("d1").unwrap()) };
    store.answer_poll(app, first.clone(), yes, vote, NOW, None).await.unwrap();
    assert_eq!(clicks(store, app, &first).await, [1, 1]);
}

#[apply(contract)]
async fn concurrent_button_presses_count_once_per_device(store: &Store) {
    const DEVICES: usize = 10;
    let app = fixtures::app(store).await;
    let (poll, answers) = poll(store, app).await;
    let presses = (0..8 * DEVICES).map(|nth| {
        let who = chat(&(nth % DEVICES).to_string());
        let began = wrote(who.clone(), made(&format!("d{nth}")), NOW);
        take(store, app, [began, voted(who, &poll, answers[nth / DEVICES % 2])])
    });
    join_all(presses).await;
    assert_eq!(clicks(store, app, &poll).await.iter().sum::<u64>(), DEVICES as u64);
    assert_eq!(devices(store, app).await.len(), DEVICES);
}

#[apply(contract)]
async fn unknown_references_are_ignored(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let (ours, [yes, _]) = poll(store, app).await;
    let (theirs, [their_yes, _]) = poll(store, other_app).await;
    let message = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
    let missing = NotificationId::new("missing").unwrap();
    take(
        store,
        app,
        [
            voted(chat("2"), &ours, yes),
            left(chat("2"), NOW),
            returned(chat("2"), NOW),
            wrote(chat("1"), made("d1"), NOW),
            voted(chat("1"), &ours, AnswerId(uuid::Uuid::now_v7())),
            voted(chat("1"), &ours, their_yes),
            voted(chat("1"), &theirs, their_yes),
            voted(chat("1"), &message, yes),
            voted(chat("1"), &missing, yes),
        ],
    )
    .await;
    assert_eq!(devices(store, app).await, [pair("d1", "1")]);
    assert_eq!(clicks(store, app, &ours).await, [0, 0]);
    assert_eq!(clicks(store, other_app, &theirs).await, [0, 0]);
    let nowhere = AppNo(other_app.0 + 1);
    let result = store.take_inbound(nowhere, vec![left(chat("1"), NOW)], NOW).await;
    assert!(is_unknown(&result));
}
