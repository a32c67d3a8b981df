//! Users, their devices and attributes, and notifications to them.

use macro_rules_attribute::apply;
use notify_core::{
    ATTRIBUTES_MAX, AttributeChanges, AttributeValue, Counts, Endpoint, LocalTime, NotificationId,
    NotificationUser, Registration, Schedule, USERS_DEVICES_MAX, User, UserCounts, UserId,
    UserState,
};

use super::fixtures::{self, NOW, id};
use super::{is_unknown, refusal};
use crate::store::sql::WriteScope;
use crate::store::{
    AppNo, AudienceSource, Checkpoint, Mismatch, NewNotification, Operation, Outcome, PageRequest,
    RetentionCutoffs, Store, StoreError, UserIdentity,
};

pub(super) fn user(text: &str) -> UserId {
    UserId::new(text).unwrap()
}

/// Changes of attributes; `None` removes one.
pub(super) fn changes(changes: &[(&str, Option<AttributeValue>)]) -> AttributeChanges {
    let named = changes.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    AttributeChanges(named.collect())
}

pub(super) fn set(name: &str, value: impl Into<AttributeValue>) -> AttributeChanges {
    changes(&[(name, Some(value.into()))])
}

/// A notification to users on all platforms.
pub(super) fn to_users(ids: &[&str]) -> NewNotification {
    fixtures::notification(&serde_json::json!({ "text": "Hello", "user_ids": ids }))
}

async fn logged_in(store: &Store, app: AppNo, device: &str, as_user: &str) {
    store.log_in(app, id(device), user(as_user), NOW).await.unwrap();
}

async fn user_of(store: &Store, app: AppNo, device: &str) -> Option<String> {
    let device = store.device(app, id(device)).await.unwrap();
    device.user_id.map(|user| user.to_string())
}

fn device_ids(user: &User) -> Vec<&str> {
    user.devices.iter().map(|device| device.device_id.as_str()).collect()
}

/// A user with a device and an attribute, and a segment.
pub(super) async fn one_of_each(store: &Store, app: AppNo, device: &str) {
    store.change_user(app, user("ada"), set("plan", "pro"), NOW).await.unwrap();
    logged_in(store, app, device, "ada").await;
    let condition = notify_core::Audience::tag("vip").validate().unwrap();
    let name = notify_core::SegmentName::new("fans").unwrap();
    store.put_segment(app, name, condition, NOW).await.unwrap();
}

#[apply(set_contract)]
async fn a_device_has_the_user_who_logged_in_last(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    assert_eq!(user_of(store, app, "d000").await, None);
    logged_in(store, app, "d000", "ada").await;
    logged_in(store, app, "d001", "ada").await;
    logged_in(store, app, "d000", "bob").await;
    assert_eq!(user_of(store, app, "d000").await.as_deref(), Some("bob"));
    let ada = store.user(app, user("ada")).await.unwrap();
    assert_eq!((device_ids(&ada), ada.created_at), (vec!["d001"], NOW));
    let users = store.list_users(app, fixtures::page(10)).await.unwrap().rows;
    let ids: Vec<_> = users.iter().map(|user| user.user_id.as_str()).collect();
    assert_eq!(ids, ["ada", "bob"]);
    store.log_out(app, id("d000")).await.unwrap();
    store.log_out(app, id("d000")).await.unwrap();
    assert_eq!(user_of(store, app, "d000").await, None);
    assert!(is_unknown(&store.log_in(app, id("ghost"), user("ada"), NOW).await));
    assert!(is_unknown(&store.log_out(app, id("ghost")).await));
    assert!(is_unknown(&store.user(app, user("ghost")).await));
}

#[apply(set_contract)]
async fn a_registration_logs_in_and_never_out(store: &Store) {
    let app = fixtures::app(store).await;
    let as_user =
        |name: Option<&str>| Registration { user_id: name.map(user), ..fixtures::android("d000") };
    for (name, expected) in [
        (None, None),
        // The registration changes nothing but the user.
        (Some("ada"), Some("ada")),
        (None, Some("ada")),
        (Some("ada"), Some("ada")),
        (Some("bob"), Some("bob")),
    ] {
        fixtures::registered(store, app, as_user(name)).await;
        assert_eq!(user_of(store, app, "d000").await.as_deref(), expected, "{name:?}");
    }
    // Another platform is another key of the same device.
    let phone = Registration {
        endpoint: Endpoint::Ios { push_token: Some("other".into()), env: None },
        ..fixtures::android("d000")
    };
    fixtures::registered(store, app, phone).await;
    assert_eq!(user_of(store, app, "d000").await.as_deref(), Some("bob"));
}

#[apply(contract)]
async fn a_full_user_logs_out_the_device_that_registered_longest_ago(store: &Store) {
    let app = fixtures::app(store).await;
    for number in 0..USERS_DEVICES_MAX + 2 {
        let registration = Registration {
            push_disabled: number == 7,
            user_id: (number < USERS_DEVICES_MAX).then(|| user("ada")),
            ..fixtures::android(&format!("d{number:03}"))
        };
        let at = NOW.plus_ms(number as i64);
        fixtures::now(store.register_device(app, registration, at, None).await.unwrap());
    }
    for (device, logged_out) in [("d100", "d007"), ("d101", "d000")] {
        logged_in(store, app, device, "ada").await;
        let ada = store.user(app, user("ada")).await.unwrap();
        assert_eq!(ada.devices.len(), USERS_DEVICES_MAX, "{device}");
        assert_eq!(user_of(store, app, logged_out).await, None, "{device}");
    }
}

#[apply(contract)]
async fn attributes_are_merged_and_limited(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let change = |changes| store.change_attributes(app, id("d000"), changes);
    change(set("plan", "pro")).await.unwrap();
    change(set("seats", 3.0)).await.unwrap();
    change(changes(&[("plan", None), ("beta", Some(true.into())), ("never", None)])).await.unwrap();
    let attributes = store.device(app, id("d000")).await.unwrap().attributes;
    let expected = [("beta", AttributeValue::Bool(true)), ("seats", AttributeValue::Number(3.0))];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(attributes, expected.into_iter().collect());
    assert!(is_unknown(&store.change_attributes(app, id("ghost"), set("a", true)).await));

    let many = |prefix: &str, count: usize| {
        let named = (0..count).map(|number| (format!("{prefix}{number}"), Some(true.into())));
        AttributeChanges(named.collect())
    };
    change(many("x", ATTRIBUTES_MAX - 2)).await.unwrap();
    let refused = refusal(change(set("one_more", 1.0)).await);
    assert_eq!(refused, "attributes: must leave the device at most 100 attributes");
    let user = || user("ada");
    store.change_user(app, user(), many("u", ATTRIBUTES_MAX), NOW).await.unwrap();
    let refused = refusal(store.change_user(app, user(), set("one_more", 1.0), NOW).await);
    assert_eq!(refused, "attributes: must leave the user at most 100 attributes");
    assert_eq!(store.user(app, user()).await.unwrap().attributes.len(), ATTRIBUTES_MAX);
}

/// The users of a notification, read in pages of `limit`.
async fn users_in_pages(
    store: &Store,
    app: AppNo,
    notification: NotificationId,
    limit: u32,
) -> Vec<NotificationUser> {
    let mut listed = Vec::new();
    let mut cursor = None;
    loop {
        let request = PageRequest { limit, cursor };
        let page = store.list_notification_users(app, notification.clone(), None, request);
        let page = page.await.unwrap();
        listed.extend(page.rows);
        cursor = page.next;
        if cursor.is_none() {
            return listed;
        }
    }
}

#[apply(set_contract)]
async fn the_devices_of_a_user_are_fixed_when_the_notification_is_due(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    for (device, name) in [("d000", "ada"), ("d001", "ada"), ("d002", "bob")] {
        logged_in(store, app, device, name).await;
    }
    store.change_user(app, user("carl"), AttributeChanges::default(), NOW).await.unwrap();
    let notification =
        fixtures::accepted(store, app, to_users(&["ada", "bob", "carl", "ghost"])).await;
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    // Later log-ins add no device, and log-outs exclude devices.
    logged_in(store, app, "d003", "ada").await;
    store.log_out(app, id("d001")).await.unwrap();
    let dispatch = store.dispatch(started[0]).await.unwrap();
    let batch = store.read_batch(&dispatch, dispatch.cursor, 10).await.unwrap();
    let read: Vec<_> =
        batch.devices.iter().map(|device| (device.eligible, device.mismatch)).collect();
    assert_eq!(read, [(true, None), (false, Some(Mismatch::User)), (true, None)]);

    let counts = || async {
        let record = store.notification(app, notification.clone()).await.unwrap();
        (record.users.unwrap(), record.counts)
    };
    let users = UserCounts { named: 4, reached: 0, unreached: 1, pending: 2, unknown: 1 };
    assert_eq!(counts().await.0, users);
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let settled =
        vec![fixtures::sent(keys[0]), fixtures::outcome(keys[1], Outcome::Failed, Some("Broken"))];
    let last = Checkpoint {
        settled,
        excluded: 1,
        finished: true,
        ..fixtures::checkpoint(page, keys.len())
    };
    store.checkpoint(last).await.unwrap();
    let (users, sums) = counts().await;
    assert_eq!(users, UserCounts { named: 4, reached: 1, unreached: 2, pending: 0, unknown: 1 });
    let expected =
        Counts { targeted: 2, sent: 1, failed: 1, unknown: 1, excluded: 1, ..Counts::default() };
    assert_eq!(sums, expected);

    let row =
        |name: &str, state, devices| NotificationUser { user_id: Some(user(name)), state, devices };
    let all = [
        row("ada", UserState::Reached, 2),
        row("bob", UserState::Unreached, 1),
        row("carl", UserState::Unreached, 0),
        row("ghost", UserState::Unknown, 0),
    ];
    for limit in [1, 3, 10] {
        let listed = users_in_pages(store, app, notification.clone(), limit).await;
        assert_eq!(listed, all, "{limit}");
    }
    let unreached = store
        .list_notification_users(
            app,
            notification.clone(),
            Some(UserState::Unreached),
            fixtures::page(10),
        )
        .await
        .unwrap();
    assert_eq!(unreached.rows, all[1..3]);
}

#[apply(set_contract)]
async fn unknown_users_are_counted_at_acceptance(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    logged_in(store, app, "d000", "ada").await;
    for (ids, unknown) in [(&["ghost", "unknown"][..], Some(2)), (&["ada", "ghost"], None)] {
        let created = store.accept_notification(app, to_users(ids), None).await.unwrap();
        assert_eq!(fixtures::now(created).unknown, unknown, "{ids:?}");
    }
    // Before it is due, all are pending.
    let mut later = to_users(&["ada", "ghost"]);
    later.checked.schedule = Schedule::At(NOW.plus_ms(1_000));
    let later = fixtures::accepted(store, app, later).await;
    let record = store.notification(app, later).await.unwrap();
    let users = UserCounts { named: 2, pending: 2, ..UserCounts::default() };
    assert_eq!((record.users, record.by_platform), (Some(users), vec![]));
}

#[apply(set_contract)]
async fn users_get_a_notification_in_the_zones_of_their_devices(store: &Store) {
    let app = fixtures::app(store).await;
    let mut east = fixtures::android("east");
    east.utc_offset_minutes = 60;
    for registration in [fixtures::android("west"), east] {
        let name = registration.device_id.to_string();
        fixtures::registered(store, app, registration).await;
        logged_in(store, app, &name, "ada").await;
    }
    fixtures::registered(store, app, fixtures::android("late")).await;
    let mut new = to_users(&["ada", "late"]);
    new.checked.schedule = Schedule::Local(LocalTime(NOW.plus_ms(3_600_000).0));
    let notification = fixtures::accepted(store, app, new).await;
    let mut targeted = 0;
    // A user who is created later is a different user, even if the request contains the id.
    for at in [NOW, NOW.plus_ms(3_600_000), NOW.plus_ms(7_200_000)] {
        for no in store.start_due(at, 10).await.unwrap().0 {
            let dispatch = store.dispatch(no).await.unwrap();
            assert!(matches!(dispatch.source, AudienceSource::Named { users: Some(_), .. }));
            let (keys, page) = fixtures::whole_page(store, &dispatch).await;
            targeted += keys.len();
            let settled: Vec<_> = keys.iter().map(|key| fixtures::sent(*key)).collect();
            let last =
                Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, keys.len()) };
            store.checkpoint(last).await.unwrap();
        }
        store.start_due(at, 10).await.unwrap();
        logged_in(store, app, "late", "late").await;
    }
    let users = store.notification(app, notification).await.unwrap().users.unwrap();
    let reached = UserCounts { named: 2, reached: 1, unknown: 1, ..UserCounts::default() };
    assert_eq!((targeted, users), (2, reached));
}

/// The states of users outlive the outcomes of their devices.
#[apply(contract)]
async fn reached_users_are_known_after_the_outcomes_are_deleted(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    logged_in(store, app, "d000", "ada").await;
    logged_in(store, app, "d001", "bob").await;
    let dispatch = fixtures::dispatch(store, app, to_users(&["ada", "bob"])).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let settled =
        vec![fixtures::sent(keys[0]), fixtures::outcome(keys[1], Outcome::Failed, Some("X"))];
    let last = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, keys.len()) };
    store.checkpoint(last).await.unwrap();
    let reached = || async {
        let record = store.notification(app, dispatch.notification_id.clone()).await.unwrap();
        record.users.unwrap()
    };
    let before = reached().await;
    let outcomes_before = Some(NOW.plus_ms(86_400_000));
    let cutoffs = RetentionCutoffs { outcomes_before, ..fixtures::NOTHING_EXPIRED };
    while store.delete_expired(cutoffs).await.unwrap().more {}
    assert!(store.delivery_outcome(dispatch.no, keys[0]).await.unwrap().is_none());
    assert_eq!(reached().await, before);
    let expected = UserCounts { named: 2, reached: 1, unreached: 1, ..UserCounts::default() };
    assert_eq!(before, expected);
}

#[apply(set_contract)]
async fn an_erased_user_leaves_no_trace(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    for (device, name) in [("d000", "ada"), ("d001", "ada"), ("d002", "bob")] {
        logged_in(store, app, device, name).await;
    }
    store.change_user(app, user("ada"), set("plan", "pro"), NOW).await.unwrap();
    let to_both = fixtures::accepted(store, app, to_users(&["ada", "bob"])).await;
    let to_devices = fixtures::direct(&["d000", "d002"], &[]);
    let to_devices = fixtures::accepted(store, app, to_devices).await;
    store.delete_user(app, user("ada"), false, NOW).await.unwrap();
    assert!(is_unknown(&store.user(app, user("ada")).await));
    assert!(is_unknown(&store.device(app, id("d000")).await));
    assert!(is_unknown(&store.delete_user(app, user("ada"), false, NOW).await));
    for (notification, expected) in
        [(&to_both, r#""user_ids":["bob"]"#), (&to_devices, r#"["d002"]"#)]
    {
        let record = store.notification(app, notification.clone()).await.unwrap();
        let request = record.request.as_str().to_owned();
        assert!(request.contains(expected), "{request}");
        assert!(!request.contains("ada") && !request.contains("d000"), "{request}");
    }
    assert_eq!(user_of(store, app, "d002").await.as_deref(), Some("bob"));

    // A later user with the same id is a different user: the devices of `bob` stay.
    logged_in(store, app, "d002", "ada").await;
    assert!(store.user(app, user("ada")).await.unwrap().attributes.is_empty());
    store.delete_user(app, user("ada"), true, NOW).await.unwrap();
    assert_eq!(user_of(store, app, "d002").await, None, "the device is kept and logged out");
}

/// A notification that was due before does not reach a later user with the same id.
#[apply(contract)]
async fn a_notification_to_an_erased_user_does_not_reach_the_next_one(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    logged_in(store, app, "d000", "ada").await;
    let dispatch = fixtures::dispatch(store, app, to_users(&["ada"])).await;
    store.delete_user(app, user("ada"), true, NOW).await.unwrap();
    logged_in(store, app, "d000", "ada").await;
    let batch = store.read_batch(&dispatch, dispatch.cursor, 10).await.unwrap();
    assert_eq!(batch.devices[0].mismatch, Some(Mismatch::User));
}

#[apply(contract)]
async fn applications_do_not_share_users(store: &Store) {
    let (_, one) = fixtures::named_app(store, "One").await;
    let (_, two) = fixtures::named_app(store, "Two").await;
    for app in [one, two] {
        fixtures::devices(store, app, 1).await;
        logged_in(store, app, "d000", "ada").await;
    }
    store.change_user(one, user("ada"), set("plan", "pro"), NOW).await.unwrap();
    assert!(store.user(two, user("ada")).await.unwrap().attributes.is_empty());
    let dispatch = fixtures::dispatch(store, one, to_users(&["ada"])).await;
    let batch = store.read_batch(&dispatch, dispatch.cursor, 10).await.unwrap();
    assert_eq!(batch.devices.len(), 1);
    assert_eq!(batch.devices[0].key.app(), one);
    store.delete_user(one, user("ada"), false, NOW).await.unwrap();
    assert_eq!(user_of(store, two, "d000").await.as_deref(), Some("ada"));
}

#[apply(contract)]
async fn attributes_of_devices_are_read_by_name(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, _) = fixtures::whole_page(store, &dispatch).await;
    let of_ada = changes(&[("name", Some("Ada".into())), ("plan", Some("pro".into()))]);
    store.change_user(app, user("ada"), of_ada, NOW).await.unwrap();
    logged_in(store, app, "d000", "ada").await;
    logged_in(store, app, "d001", "ada").await;
    store.change_attributes(app, id("d001"), set("name", "Countess")).await.unwrap();
    let read = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        store.device_attributes(app, keys.clone(), names)
    };
    let text = |text: &str| Some(AttributeValue::from(text));
    let both = read(&["plan", "unknown", "name"]).await.unwrap();
    assert_eq!(both.len(), 2, "a device without any of them is left out");
    assert_eq!(both[&keys[0]], [text("pro"), None, text("Ada")]);
    assert_eq!(
        both[&keys[1]],
        [text("pro"), None, text("Countess")],
        "the own value hides the user's"
    );
    assert!(read(&["unknown"]).await.unwrap().is_empty());
    store.log_out(app, id("d000")).await.unwrap();
    assert!(!read(&["name"]).await.unwrap().contains_key(&keys[0]), "the user took it along");
    let other = fixtures::named_app(store, "other").await.1;
    let foreign = store.device_attributes(other, keys.clone(), vec!["name".to_owned()]).await;
    assert!(foreign.unwrap().is_empty(), "names belong to one application");
}

#[apply(contract)]
async fn an_identified_user_is_not_a_later_user_of_its_id(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::registered(store, app, fixtures::android("d")).await;
    fixtures::registered(store, other_app, fixtures::android("d")).await;
    let ada = || UserId::new("ada").unwrap();
    let identity = store.identify_user(app, ada(), NOW).await.unwrap();
    assert_eq!(store.user(app, ada()).await.unwrap().created_at, NOW, "it was created");
    let later = NOW.plus_ms(1);
    assert_eq!(store.identify_user(app, ada(), later).await.unwrap(), identity);
    let user_of = async |app| store.device(app, id("d")).await.unwrap().user_id;
    store.log_in_as(app, id("d"), identity, later).await.unwrap();
    assert_eq!(user_of(app).await, Some(ada()));
    // In another application, after the erasure, and as a later user of the id.
    let is_refused = async |app, identity| {
        let result = store.log_in_as(app, id("d"), identity, later).await;
        matches!(result, Err(StoreError::Refused(_)))
    };
    assert!(is_refused(other_app, identity).await);
    store.delete_user(app, ada(), true, later).await.unwrap();
    assert!(is_refused(app, identity).await);
    assert!(is_unknown(&store.user(app, ada()).await), "it was not created again");
    let successor = store.identify_user(app, ada(), later).await.unwrap();
    assert!(is_refused(app, identity).await);
    // Even if a restored database gives the number again.
    let mixed = UserIdentity { no: successor.no, created_at: identity.created_at };
    assert!(is_refused(app, mixed).await);
    assert_eq!(user_of(app).await, None);
    assert_eq!(user_of(other_app).await, None);
    let unknown = store.log_in_as(app, id("x"), successor, later).await;
    assert!(is_unknown(&unknown));
    store.log_in_as(app, id("d"), successor, later).await.unwrap();
    assert_eq!(user_of(app).await, Some(ada()));
}

#[apply(contract)]
async fn names_of_attributes_without_values_make_room(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let known = |name: &str| set(name, true);
    store.change_user(app, user("ada"), known("of ada"), NOW).await.unwrap();
    store.change_attributes(app, id("d000"), known("of d000")).await.unwrap();
    // Names up to the limit, as users that were erased leave them.
    let written = store.write_to(WriteScope::app(app), Operation::ChangeUser, move |tx| {
        let mut insert = tx.prepare_cached(
            "insert into attributes (app_no, number, name) values (?1, ?2, 'of nobody ' || ?2)",
        )?;
        for number in 3..=10_000_i64 {
            insert.execute([app.0, number])?;
        }
        Ok(())
    });
    written.await.unwrap();
    store.change_attributes(app, id("d000"), known("new")).await.unwrap();
    store.change_user(app, user("ada"), known("newer"), NOW).await.unwrap();
    let shown = store.device(app, id("d000")).await.unwrap().attributes;
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["new", "of d000"]);
    let shown = store.user(app, user("ada")).await.unwrap().attributes;
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["newer", "of ada"]);
    // Names that all have values leave no room.
    let written = store.write_to(WriteScope::app(app), Operation::ChangeUser, move |tx| {
        for number in 1..=10_000_i64 {
            tx.prepare_cached(
                "insert into attributes (app_no, number, name) values (?1, ?2, 'used ' || ?2)
                 on conflict do nothing",
            )?
            .execute([app.0, number])?;
            tx.prepare_cached(
                "insert into user_attributes (user_no, attribute, value)
                 select no, ?2, 'bt' from users where app_no = ?1 on conflict do nothing",
            )?
            .execute([app.0, number])?;
        }
        Ok(())
    });
    written.await.unwrap();
    let refused = store.change_attributes(app, id("d000"), known("one more")).await;
    assert_eq!(
        refusal(refused),
        "attributes: the application has 10000 different attributes already"
    );
}
