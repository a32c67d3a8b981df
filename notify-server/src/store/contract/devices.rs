//! Devices.

use macro_rules_attribute::apply;
use notify_core::{
    DeviceDetails, DeviceState, DisabledReason, Endpoint, IosEnv, Platform, Subscription,
    TAG_NAME_CHARS_MAX, TAGS_PER_DEVICE_MAX, Timestamp, WebSubscription,
};

use super::fixtures::{self, NOW, android, id, ios, registration};
use super::{is_unknown, refusal};
use crate::store::device::DEVICES_SCANNED_MAX;
use crate::store::page::CursorCodec;
use crate::store::{
    AppNo, Checkpoint, DeadAddress, DeviceFilter, DeviceKey, Operation,
    REGISTRATION_WRITTEN_EVERY_MS, Store,
};

#[apply(set_contract)]
async fn registered_device_reads_back(store: &Store) {
    let app = fixtures::app(store).await;
    let endpoint = Endpoint::Ios { push_token: Some("00ff".into()), env: Some(IosEnv::Sandbox) };
    let details = DeviceDetails {
        language: Some("de".into()),
        os_version: Some("17.1".into()),
        ..DeviceDetails::default()
    };
    let phone = notify_core::Registration {
        push_disabled: true,
        details: details.clone(),
        ..registration("phone \"1\"", endpoint)
    };
    fixtures::registered(store, app, phone).await;
    let device = store.device(app, id("phone \"1\"")).await.unwrap();
    assert_eq!((device.platform, device.sdk_type.as_deref()), (Platform::Ios, Some("ios_push")));
    assert_eq!(
        (device.push_token.as_deref(), device.ios_env),
        (Some("00ff"), Some(IosEnv::Sandbox))
    );
    assert_eq!(device.details, details);
    assert_eq!(
        (device.enabled, device.disabled_reason),
        (false, Some(DisabledReason::PushDisabled))
    );
    assert_eq!((device.created_at, device.updated_at), (NOW, NOW));
    assert_eq!(device.tags, []);
}

#[apply(set_contract)]
async fn registering_again_replaces_every_field(store: &Store) {
    let app = fixtures::app(store).await;
    let mut first = android("phone");
    first.details.country = Some("DE".into());
    first.push_disabled = true;
    fixtures::registered(store, app, first).await;
    fixtures::tagged(store, app, "phone", "vip", true).await;
    let bare = registration("phone", Endpoint::Android { push_token: None });
    let later = NOW.plus_ms(5);
    store.register_device(app, bare, later, None).await.unwrap();
    let device = store.device(app, id("phone")).await.unwrap();
    assert_eq!((device.push_token, device.details), (None, DeviceDetails::default()));
    assert!(device.enabled);
    assert_eq!((device.created_at, device.updated_at), (NOW, later));
    assert_eq!(device.tags, [fixtures::tag("vip", true)]);
}

#[apply(set_contract)]
async fn unchanged_registration_updates_only_its_time_at_most_hourly(store: &Store) {
    const HOUR: i64 = REGISTRATION_WRITTEN_EVERY_MS;
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    for (after, written) in [
        (HOUR - 1, 0),
        (HOUR, HOUR),
        (HOUR + 1, HOUR),
        (2 * HOUR - 1, HOUR),
        (3 * HOUR, 3 * HOUR),
        (5, 3 * HOUR),
    ] {
        store.register_device(app, android("d000"), NOW.plus_ms(after), None).await.unwrap();
        let device = store.device(app, id("d000")).await.unwrap();
        assert_eq!((device.created_at, device.updated_at), (NOW, NOW.plus_ms(written)), "{after}");
    }
}

#[apply(set_contract)]
async fn push_token_moves_to_the_registering_device(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::registered(store, app, android("old")).await;
    fixtures::registered(store, other_app, android("old")).await;
    let same = registration("new", Endpoint::Android { push_token: Some("token-old".into()) });
    fixtures::registered(store, app, same).await;
    let old = store.device(app, id("old")).await.unwrap();
    assert_eq!((old.push_token, old.enabled), (None, true));
    let new = store.device(app, id("new")).await.unwrap();
    assert_eq!(new.push_token.as_deref(), Some("token-old"));
    let elsewhere = store.device(other_app, id("old")).await.unwrap();
    assert_eq!(elsewhere.push_token.as_deref(), Some("token-old"), "another application's token");
}

#[apply(set_contract)]
async fn push_token_is_unique_across_platforms(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::registered(store, app, android("old")).await;
    let token = Some("token-old".to_owned());
    let same = registration("new", Endpoint::Ios { push_token: token.clone(), env: None });
    fixtures::registered(store, app, same).await;
    assert_eq!(store.device(app, id("old")).await.unwrap().push_token, None);
    assert_eq!(store.device(app, id("new")).await.unwrap().push_token, token);
    fixtures::registered(store, app, android("old")).await;
    assert_eq!(store.device(app, id("new")).await.unwrap().push_token, None);
    assert_eq!(store.device(app, id("old")).await.unwrap().push_token, token);
}

#[apply(set_contract)]
async fn changing_the_platform_keeps_tags_and_creation_time(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::registered(store, app, android("phone")).await;
    fixtures::tagged(store, app, "phone", "vip", true).await;
    let later = NOW.plus_ms(5);
    store.register_device(app, ios("phone"), later, None).await.unwrap();
    let device = store.device(app, id("phone")).await.unwrap();
    assert_eq!((device.platform, device.created_at), (Platform::Ios, NOW));
    assert_eq!(device.tags, [fixtures::tag("vip", true)]);
    let all = store.list_devices(app, DeviceFilter::default(), fixtures::page(10)).await.unwrap();
    assert_eq!(all.rows.len(), 1);
    let android_only =
        DeviceFilter { platform: Some(Platform::Android), ..DeviceFilter::default() };
    let none = store.list_devices(app, android_only, fixtures::page(10)).await.unwrap();
    assert_eq!(none.rows, []);
}

#[apply(set_contract)]
async fn devices_of_other_applications_are_unknown(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, app, 1).await;
    assert!(is_unknown(&store.device(other_app, id("d000")).await));
    assert!(is_unknown(&store.delete_device(other_app, id("d000"), NOW).await));
    assert!(is_unknown(&store.set_tags(other_app, id("d000"), vec![], None).await));
    let listed = store.list_devices(other_app, DeviceFilter::default(), fixtures::page(10)).await;
    assert_eq!(listed.unwrap().rows, []);
    let nowhere = AppNo(other_app.0 + 1);
    assert!(is_unknown(&store.register_device(nowhere, android("x"), NOW, None).await));
    assert!(store.device(app, id("d000")).await.is_ok());
}

#[apply(set_contract)]
async fn devices_are_listed_by_platform_and_tag(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::registered(store, app, ios("phone")).await;
    fixtures::devices(store, app, 3).await;
    for (device, value) in [("d000", true), ("d001", false), ("d002", true), ("phone", true)] {
        fixtures::tagged(store, app, device, "vip", value).await;
    }
    let list = |platform, tag: Option<&str>| {
        let tag = tag.map(str::to_owned);
        let filter = DeviceFilter { platform, tag, ..DeviceFilter::default() };
        async move {
            let mut ids = Vec::new();
            let mut page = fixtures::page(2);
            loop {
                let read = store.list_devices(app, filter.clone(), page).await.unwrap();
                assert!(read.rows.len() <= 2);
                ids.extend(read.rows.into_iter().map(|device| device.device_id.to_string()));
                let Some(cursor) = read.next else { return ids };
                page = fixtures::next_page(2, Some(cursor));
            }
        }
    };
    assert_eq!(list(None, None).await, ["d000", "d001", "d002", "phone"]);
    assert_eq!(list(Some(Platform::Ios), None).await, ["phone"]);
    assert_eq!(list(None, Some("vip")).await, ["d000", "d002", "phone"]);
    assert_eq!(list(Some(Platform::Android), Some("vip")).await, ["d000", "d002"]);
    assert_eq!(list(None, Some("missing")).await, Vec::<String>::new());
}

/// The ids that a listing has in pages of `limit` devices, and the number of pages.
async fn listed(
    store: &Store,
    app: AppNo,
    filter: &DeviceFilter,
    limit: u32,
) -> (Vec<String>, usize) {
    let (mut ids, mut pages, mut page) = (Vec::new(), 1, fixtures::page(limit));
    loop {
        let read = store.list_devices(app, filter.clone(), page).await.unwrap();
        assert!(read.rows.len() <= limit as usize);
        ids.extend(read.rows.into_iter().map(|device| device.device_id.to_string()));
        let Some(cursor) = read.next else { return (ids, pages) };
        page = fixtures::next_page(limit, Some(cursor));
        pages += 1;
    }
}

/// A report that an address is unregistered.
fn report(key: DeviceKey, address: &str) -> DeadAddress {
    DeadAddress {
        key,
        address: address.into(),
        ios_env: IosEnv::default(),
        since: None,
        reason: "UNREGISTERED".into(),
        at: NOW,
        ambiguous: None,
    }
}

#[apply(set_contract)]
async fn devices_are_listed_by_state_and_address(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    for app in [app, other_app] {
        fixtures::devices(store, app, 4).await;
        fixtures::registered(store, app, ios("phone")).await;
    }
    let off = |device| notify_core::Registration { push_disabled: true, ..android(device) };
    fixtures::registered(store, app, off("d001")).await;
    // Unregistered, and one of them is disabled by the user too.
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    // The audience leaves out d001.
    let dead = vec![report(keys[1], "token-d002"), report(keys[2], "token-d003")];
    let reported = Checkpoint { dead, ..fixtures::checkpoint(page, 3) };
    store.checkpoint(reported).await.unwrap();
    fixtures::registered(store, app, off("d003")).await;
    for address in ["https://push.example/1", "token-d000"] {
        let browser = browser(address, Some(&format!("web {address}")));
        store.subscribe_device(app, browser, id("unused"), NOW, None).await.unwrap();
    }
    fixtures::tagged(store, app, "d000", "vip", true).await;
    fixtures::tagged(store, app, "d001", "vip", true).await;
    fixtures::tagged(store, app, "d002", "vip", false).await;
    let (web_0, web_1) = ("web token-d000", "web https://push.example/1");
    let (enabled, disabled) = (Some(DeviceState::Enabled), Some(DeviceState::Disabled));
    let unregistered = Some(DeviceState::Unregistered);
    let (android, vip) = (Some(Platform::Android), Some("vip"));
    for (platform, tag, state, address, expected) in [
        (None, None, enabled, None, vec!["d000", "phone", web_1, web_0]),
        (None, None, disabled, None, vec!["d001", "d002", "d003"]),
        (None, None, unregistered, None, vec!["d002"]),
        (android, None, enabled, None, vec!["d000"]),
        (Some(Platform::Ios), None, disabled, None, vec![]),
        (None, vip, enabled, None, vec!["d000"]),
        (None, vip, disabled, None, vec!["d001"]),
        (android, vip, unregistered, None, vec![]),
        // An address of a browser may equal a token. A token is only found as a whole.
        (None, None, None, Some("token-d000"), vec!["d000", web_0]),
        (None, None, None, Some("https://push.example/1"), vec![web_1]),
        (None, None, None, Some("token-d00"), vec![]),
        (None, None, None, Some("TOKEN-D000"), vec![]),
        (android, None, None, Some("token-d000"), vec!["d000"]),
        (Some(Platform::Ios), None, None, Some("token-d000"), vec![]),
        (None, vip, None, Some("token-d000"), vec!["d000"]),
        (None, vip, None, Some("token-d002"), vec![]),
        (None, None, unregistered, Some("token-d002"), vec!["d002"]),
        (None, None, enabled, Some("token-d002"), vec![]),
        (android, vip, disabled, Some("token-d001"), vec!["d001"]),
    ] {
        let filter = DeviceFilter {
            platform,
            tag: tag.map(str::to_owned),
            state,
            address: address.map(str::to_owned),
            ..DeviceFilter::default()
        };
        for limit in [1, 100] {
            assert_eq!(listed(store, app, &filter, limit).await.0, expected, "{filter:?}");
        }
    }
    let in_both = DeviceFilter { address: Some("token-d003".into()), ..DeviceFilter::default() };
    assert_eq!(listed(store, other_app, &in_both, 100).await.0, ["d003"]);
    let counts = store.count_devices(app, None, NOW, NOW).await.unwrap();
    let count: u64 = counts.iter().map(|count| count.disabled).sum();
    assert_eq!(count, 3, "as many as the listing has");
}

/// No page reads all devices to find the few in a state.
#[apply(set_contract)]
async fn search_for_a_state_reads_a_bounded_number_of_devices(store: &Store) {
    let app = fixtures::app(store).await;
    let off = notify_core::Registration { push_disabled: true, ..ios("phone") };
    fixtures::registered(store, app, off).await;
    fixtures::tagged(store, app, "phone", "vip", true).await;
    let first = DeviceKey::new(app, Platform::Android, 1_000).0;
    let filled = store.write(Operation::RegisterDevice, move |tx| {
        tx.prepare_cached(
            "with recursive n (i) as (select 0 union all select i + 1 from n where i < ?3)
             insert into devices (key, app_no, device_id, push_disabled, utc_offset_minutes,
             details, created_at)
             select ?1 + i, ?2, 'd' || i, 0, 0, '{}', 1 from n",
        )?
        .execute([first, app.0, DEVICES_SCANNED_MAX])?;
        tx.prepare_cached(
            "insert into device_fields (key, created_at, registered_at)
             select key, 1, 1 from devices where key >= ?1 and device_id <> 'phone'",
        )?
        .execute([first])?;
        tx.prepare_cached(
            "insert into device_tags (tag_no, device_key, value)
             select t.no, d.key, 1 from tags t cross join devices d where d.key >= ?1
             and d.device_id <> 'phone'",
        )?
        .execute([first])?;
        Ok(())
    });
    filled.await.unwrap();
    for tag in [None, Some("vip".to_owned())] {
        let filter = |state| DeviceFilter { tag: tag.clone(), state, ..DeviceFilter::default() };
        let disabled = filter(Some(DeviceState::Disabled));
        let read = store.list_devices(app, disabled.clone(), fixtures::page(10)).await.unwrap();
        assert!(read.rows.is_empty() && read.next.is_some(), "{tag:?}");
        assert_eq!(listed(store, app, &disabled, 10).await, (vec!["phone".to_owned()], 2));
        let (ids, pages) = listed(store, app, &filter(Some(DeviceState::Enabled)), 1_000).await;
        assert_eq!((ids.len(), pages), (10_001, 11), "{tag:?}");
        assert_eq!(listed(store, app, &filter(None), 1_000).await.0.len(), 10_002, "{tag:?}");
    }
}

/// With the most and the longest tags, each character of which takes six bytes of JSON.
#[apply(set_contract)]
async fn page_of_devices_is_bounded_by_bytes(store: &Store) {
    const DEVICES: usize = 6;
    const PAGE_BYTES_MAX: usize = 8 * 1_048_576;
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, DEVICES).await;
    for device in 0..DEVICES {
        let tags = (0..TAGS_PER_DEVICE_MAX).map(|number| {
            let name = "\u{1}".repeat(TAG_NAME_CHARS_MAX - 4);
            fixtures::tag(&format!("{name}{number:04}"), true)
        });
        let id = id(&format!("d{device:03}"));
        store.set_tags(app, id, tags.collect(), None).await.unwrap();
    }
    for tag in [None, Some(format!("{}0000", "\u{1}".repeat(TAG_NAME_CHARS_MAX - 4)))] {
        let filter = DeviceFilter { tag, ..DeviceFilter::default() };
        let (mut ids, mut pages) = (Vec::new(), 0);
        let mut page = fixtures::page(1_000);
        loop {
            let read = store.list_devices(app, filter.clone(), page).await.unwrap();
            let bytes = serde_json::to_vec(&read.rows).unwrap().len();
            assert!(bytes <= PAGE_BYTES_MAX, "{bytes}");
            ids.extend(read.rows.into_iter().map(|device| device.device_id.to_string()));
            pages += 1;
            let Some(cursor) = read.next else { break };
            page = fixtures::next_page(1_000, Some(cursor));
        }
        assert_eq!(ids, ["d000", "d001", "d002", "d003", "d004", "d005"], "each once, in order");
        assert!(pages > 1, "one page would hold 9 MB");
    }
}

#[apply(set_contract)]
async fn cursor_of_another_listing_is_refused(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, app, 2).await;
    let first = store.list_devices(app, DeviceFilter::default(), fixtures::page(1)).await.unwrap();
    let cursor = fixtures::next_page(1, first.next);
    let foreign = store.list_devices(other_app, DeviceFilter::default(), cursor.clone()).await;
    assert!(refusal(foreign).starts_with("cursor: "));
    assert!(refusal(store.list_notifications(app, None, cursor).await).starts_with("cursor: "));
    for made_up in ["", "x", "AAAAAAAAAAAAAAAAAAA"] {
        let page = fixtures::next_page(1, Some(made_up.to_owned()));
        let read = store.list_devices(app, DeviceFilter::default(), page).await;
        assert!(refusal(read).starts_with("cursor: "), "{made_up}");
    }
}

/// The checksum of a cursor is not secret, so a caller can make a cursor of any position.
#[apply(set_contract)]
async fn cursor_of_an_invented_position_lists_nothing_else(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    fixtures::devices(store, fixtures::app(store).await, 2).await;
    fixtures::tagged(store, app, "d000", "vip", true).await;
    let request = |cursor| fixtures::next_page(10, Some(cursor));
    for (position, count) in [(i64::MIN, 2), (-1, 2), (0, 2), (i64::MAX, 0)] {
        let cursor = |list| CursorCodec { list, owner: app.0 }.encode_number(position);
        for filter in [
            DeviceFilter::default(),
            DeviceFilter { state: Some(DeviceState::Enabled), ..DeviceFilter::default() },
        ] {
            let page = store.list_devices(app, filter, request(cursor("devices"))).await.unwrap();
            assert_eq!(page.rows.len(), count, "{position}");
        }
        store.list_notifications(app, None, request(cursor("notifications"))).await.unwrap();
        store.list_users(app, request(cursor("users"))).await.unwrap();
        store.list_feeds(app, request(cursor("feeds"))).await.unwrap();
    }
    let cursor = |position: &str| {
        let rows = vec![(position.to_owned(), ()), (String::new(), ())];
        let codec = CursorCodec { list: "tags", owner: app.0 };
        codec.page_by_text(rows, &fixtures::page(1)).next.unwrap()
    };
    assert_eq!(store.list_tags(app, request(cursor("a"))).await.unwrap().rows.len(), 1);
    let refused = refusal(store.list_tags(app, request(cursor("a\0b"))).await);
    assert!(refused.starts_with("cursor: "), "{refused}");
}

fn browser(endpoint: &str, device: Option<&str>) -> Subscription {
    Subscription {
        device_id: device.map(id),
        endpoint: Endpoint::Web(WebSubscription {
            endpoint: endpoint.to_owned(),
            p256dh: "BP256".to_owned(),
            auth: "auth".to_owned(),
        }),
        utc_offset_minutes: 60,
        timezone_minutes: None,
        user_id: None,
        details: DeviceDetails::default(),
    }
}

#[apply(set_contract)]
async fn subscription_keeps_its_id_or_takes_the_requested_one(store: &Store) {
    let app = fixtures::app(store).await;
    let subscribe = |subscription, made: &'static str| async move {
        let done = store.subscribe_device(app, subscription, id(made), NOW, None).await;
        fixtures::now(done.unwrap()).id
    };
    let address = "https://push.example/1";
    assert_eq!(subscribe(browser(address, None), "made-1").await, id("made-1"));
    assert_eq!(subscribe(browser(address, None), "made-2").await, id("made-1"));
    let device = store.device(app, id("made-1")).await.unwrap();
    assert_eq!(device.subscription.unwrap().endpoint, address);
    assert_eq!(subscribe(browser(address, Some("mine")), "made-3").await, id("mine"));
    assert_eq!(subscribe(browser(address, None), "made-4").await, id("mine"));
    let before = store.device(app, id("made-1")).await.unwrap();
    assert_eq!(before.subscription, None, "an address belongs to one device");
    assert!(is_unknown(&store.device(app, id("made-2")).await));
}

#[apply(set_contract)]
async fn subscription_with_id_of_another_platform_is_refused(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let conflicting = browser("https://push.example/1", Some("d000"));
    let done = store.subscribe_device(app, conflicting, id("made"), NOW, None).await;
    assert!(refusal(done).starts_with("device_id: "));
    assert_eq!(store.device(app, id("d000")).await.unwrap().platform, Platform::Android);
}

#[apply(set_contract)]
async fn erasing_a_device_deletes_its_tags(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    fixtures::tagged(store, app, "d000", "vip", true).await;
    fixtures::tagged(store, app, "d001", "vip", true).await;
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    assert!(is_unknown(&store.device(app, id("d000")).await));
    assert!(is_unknown(&store.delete_device(app, id("d000"), NOW).await));
    let tags = store.list_tags(app, fixtures::page(10)).await.unwrap().rows;
    assert_eq!((tags.len(), tags[0].devices), (1, 1));
    store.delete_device(app, id("d001"), NOW).await.unwrap();
    assert_eq!(store.list_tags(app, fixtures::page(10)).await.unwrap().rows, []);
}

#[apply(set_contract)]
async fn erasing_a_device_removes_its_id_from_requests(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let both = fixtures::accepted(store, app, fixtures::direct(&["d000", "d001"], &["d000"])).await;
    let any = fixtures::accepted(store, app, fixtures::to_any(&["d001", "d000"], &[])).await;
    let mut escaped = fixtures::direct(&["d000"], &[]);
    escaped.request =
        r#"{"text" : "d000", "android_device_ids": ["\u0064000"], "x": 1.0}"#.to_owned();
    let escaped = fixtures::accepted(store, app, escaped).await;
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    let request =
        |id| async move { store.notification(app, id).await.unwrap().request.as_str().to_owned() };
    assert_eq!(
        request(both).await,
        r#"{"android_device_ids":["d001"],"ios_device_ids":[],"text":"Hello"}"#
    );
    assert_eq!(
        request(any).await,
        r#"{"android_device_ids":[],"device_ids":["d001"],"text":"Hello"}"#
    );
    assert_eq!(request(escaped).await, r#"{"text":"d000","android_device_ids":[],"x":1.0}"#);
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    assert_eq!(started.len(), 2, "an audience that an erase emptied ends at once");
}

/// SQLite would reuse a plain rowid after the highest row was deleted.
#[apply(set_contract)]
async fn device_keys_are_never_reused(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let first = fixtures::android_dispatch(store, app).await;
    store.delete_device(app, id("d001"), NOW).await.unwrap();
    fixtures::registered(store, app, android("d001")).await;
    let slice = store.read_batch(&first, first.cursor, 10).await.unwrap();
    let tokens: Vec<_> = slice.devices.iter().map(|device| device.address.as_deref()).collect();
    assert_eq!(tokens, [Some("token-d000")], "the later device is not in the earlier audience");
    assert_eq!(Timestamp(NOW.0), store.device(app, id("d001")).await.unwrap().created_at);
}

#[apply(contract)]
async fn translations_for_devices_are_found_by_key(store: &Store) {
    let app = fixtures::app(store).await;
    for (name, language) in
        [("a", Some("de-AT")), ("b", None), ("c", Some("fr")), ("d", Some("it"))]
    {
        let mut device = android(name);
        device.details.language = language.map(Into::into);
        fixtures::registered(store, app, device).await;
    }
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, _) = fixtures::whole_page(store, &dispatch).await;
    let translations = |keys: Vec<DeviceKey>| async {
        let languages = ["fr".to_owned(), "de".to_owned()].into();
        let found = store.device_translations(keys, languages).await.unwrap();
        found.into_iter().collect::<Vec<_>>()
    };
    let expected = [(keys[0], 1), (keys[2], 0)];
    assert_eq!(translations(keys.clone()).await, expected);
    // Keys that are far apart are looked up one by one.
    let far = DeviceKey(keys[3].0 + 1_000_000);
    assert_eq!(translations(vec![far, keys[2], keys[0]]).await, expected);
    assert_eq!(translations(Vec::new()).await, []);
}
