//! Audiences: which devices meet a condition. The evaluator of notify-core decides, whatever is read to
//! find the devices.

use std::collections::BTreeMap;

use macro_rules_attribute::apply;
use notify_core::{
    AttributeValue, Attributes, Audience, Condition, Device, Field, Platform, Recipients,
    Registration, SEGMENTS_MAX, SegmentName, Subject, Target, Test, Timestamp, UserId,
};

use super::fixtures::{self, NOW, id};
use super::users::{changes, user};
use super::{is_unknown, refusal};
use crate::store::delivery::matching::KEYS_PER_BATCH_MAX;
use crate::store::{
    AppNo, DeviceCondition, DeviceFilter, DeviceKey, Dispatch, Mismatch, NewNotification,
    PageRequest, Reach, Store,
};

const DAY_MS: i64 = 86_400_000;

/// A broadcast to Android devices that meet a condition.
fn to_audience(audience: &Audience) -> NewNotification {
    let condition = audience.validate().unwrap();
    let broadcast = fixtures::broadcast(&[Platform::Android]);
    NewNotification { audience: Some(condition.to_json()), ..broadcast }
}

/// The ids of the devices that a dispatch reads, in batches of this size.
async fn read(store: &Store, dispatch: &Dispatch, batch: u32) -> Vec<DeviceKey> {
    let (mut keys, mut after) = (Vec::new(), dispatch.cursor);
    loop {
        let read = store.read_batch(dispatch, after, batch).await.unwrap();
        assert!(read.devices.len() <= batch as usize && read.to > after);
        keys.extend(read.devices.iter().map(|device| device.key));
        after = read.to;
        if read.end {
            return keys;
        }
    }
}

/// The ids of the devices of a list, read in pages.
async fn list(store: &Store, app: AppNo, filter: &DeviceFilter) -> Vec<String> {
    let (mut listed, mut cursor) = (Vec::new(), None);
    loop {
        let page = PageRequest { limit: 7, cursor };
        let page = store.list_devices(app, filter.clone(), page).await.unwrap();
        listed.extend(page.rows.into_iter().map(|device| device.device_id.to_string()));
        cursor = page.next;
        if cursor.is_none() {
            return listed;
        }
    }
}

/// Random devices, some with tags, attributes and users.
async fn random_devices(store: &Store, app: AppNo, rng: &mut fastrand::Rng, count: usize) {
    for name in ["ada", "bob"] {
        let plan = rng.choice([None, Some("pro".into())]).unwrap();
        store.change_user(app, user(name), changes(&[("plan", plan)]), NOW).await.unwrap();
    }
    for number in 0..count {
        let device = format!("d{number:03}");
        let timezone = rng.choice([None, Some(0), Some(60), Some(-300)]).unwrap();
        let mut registration = Registration {
            user_id: rng.choice([None, None, Some(user("ada")), Some(user("bob"))]).unwrap(),
            timezone_minutes: timezone,
            ..fixtures::android(&device)
        };
        registration.details.device_description = timezone.map(|minutes| minutes.to_string());
        let text = |rng: &mut fastrand::Rng, texts: &[&str]| {
            rng.bool().then(|| rng.choice(texts.iter()).unwrap().to_string())
        };
        registration.details.language = text(rng, &["de", "de-AT", "DE_ch", "en"]);
        registration.details.country = text(rng, &["DE", "at", "US"]);
        registration.details.app_version = text(rng, &["3.9", "3.10", "3.10.1", "beta"]);
        registration.details.os_version = text(rng, &["17", "18.0"]);
        let at = NOW.plus_ms(-rng.i64(0..60) * DAY_MS);
        fixtures::now(store.register_device(app, registration, at, None).await.unwrap());
        if rng.bool() {
            fixtures::tagged(store, app, &device, "vip", rng.u8(0..4) > 0).await;
        }
        if rng.u8(0..8) == 0 {
            fixtures::tagged(store, app, &device, "rare", true).await;
        }
        let own = [
            ("plan", rng.choice([None, Some("pro".into()), Some("free".into())]).unwrap()),
            ("seats", rng.choice([None, Some(3.into()), Some(30.into())]).unwrap()),
            ("beta", rng.choice([None, Some(true.into())]).unwrap()),
        ];
        store.change_attributes(app, id(&device), changes(&own)).await.unwrap();
    }
}

/// The instant some days ago, as conditions have it.
fn days_ago(days: i64) -> AttributeValue {
    AttributeValue::Number(NOW.plus_ms(-days * DAY_MS).0 as f64)
}

/// A random condition.
fn random_audience(rng: &mut fastrand::Rng, levels: usize) -> Audience {
    let attribute = |name: &str, test| Audience::Attribute { name: name.into(), test };
    let field = |field, test| Audience::Field { field, test };
    if levels > 1 && rng.u8(0..3) > 0 {
        let nested = |rng: &mut fastrand::Rng| {
            (0..rng.usize(1..4)).map(|_| random_audience(rng, levels - 1)).collect()
        };
        return match rng.u8(0..3) {
            0 => Audience::All(nested(rng)),
            1 => Audience::Any(nested(rng)),
            _ => random_audience(rng, levels - 1).negate(),
        };
    }
    let exists = rng.bool();
    rng.choice([
        Audience::tag("vip"),
        Audience::tag("rare"),
        Audience::tag("unknown"),
        attribute("plan", Test::Is("pro".into())),
        attribute("plan", Test::In(vec!["pro".into(), "free".into()])),
        attribute("plan", Test::Exists(exists)),
        attribute("seats", Test::Is(3.into())),
        attribute("seats", Test::AtLeast(10.into())),
        attribute("seats", Test::Below(10.into())),
        attribute("beta", Test::Is(true.into())),
        attribute("never", Test::Exists(exists)),
        field(Field::Language, Test::Is("de".into())),
        field(Field::Country, Test::In(vec!["DE".into(), "AT".into()])),
        field(Field::AppVersion, Test::AtLeast("3.10".into())),
        field(Field::AppVersion, Test::Below("3.10".into())),
        field(Field::OsVersion, Test::Exists(exists)),
        field(Field::Language, Test::Exists(exists)),
        field(Field::OsVersion, Test::Is("18.0".into())),
        field(Field::Timezone, Test::AtLeast(30.into())),
        field(Field::Timezone, Test::Below(60.into())),
        field(Field::Timezone, Test::In(vec![60.into(), (-300).into()])),
        field(Field::Timezone, Test::Exists(exists)),
        field(Field::LastActiveAt, Test::WithinDays(30)),
        field(Field::LastActiveAt, Test::Below(days_ago(20))),
        field(Field::CreatedAt, Test::WithinDays(10)),
        field(Field::CreatedAt, Test::AtLeast(days_ago(40))),
        field(Field::User, Test::Exists(exists)),
        field(Field::Platform, Test::Is("android".into())),
    ])
    .unwrap()
}

/// Whether a device meets a condition, by what the API shows of the device and its user.
fn matches(condition: &Condition, device: &Device, users: &BTreeMap<UserId, Attributes>) -> bool {
    let has_tag = |name: &String| device.tags.iter().any(|tag| tag.name == *name && tag.value);
    let value = |name: &String| {
        let of_user = device.user_id.as_ref().and_then(|user| users.get(user)?.get(name));
        device.attributes.get(name).or(of_user).cloned()
    };
    let tags: Vec<bool> = condition.tags().iter().map(has_tag).collect();
    let attributes: Vec<_> = condition.attributes().iter().map(value).collect();
    let details = &device.details;
    let subject = Subject {
        platform: device.platform,
        language: details.language.as_deref(),
        country: details.country.as_deref(),
        app_version: details.app_version.as_deref(),
        os_version: details.os_version.as_deref(),
        timezone: timezone_of(device),
        created_at: device.created_at,
        last_active_at: device.updated_at,
        has_user: device.user_id.is_some(),
        tags: &tags,
        attributes: &attributes,
    };
    condition.matches(&subject, NOW)
}

/// The offset from UTC that [`random_devices`] gave the device. It is in the description.
fn timezone_of(device: &Device) -> Option<i32> {
    device.details.device_description.as_deref().and_then(|text| text.parse().ok())
}

/// The truth is a look at every device. Whatever the cover, the tag, the size of the batches, and the
/// changes between them.
#[apply(contract)]
async fn every_way_to_find_an_audience_finds_the_same_devices(store: &Store) {
    let app = fixtures::app(store).await;
    let mut rng = fastrand::Rng::with_seed(17);
    for round in 0..4 {
        random_devices(store, app, &mut rng, 60).await;
        let users: BTreeMap<UserId, Attributes> = store
            .list_users(app, fixtures::page(10))
            .await
            .unwrap()
            .rows
            .into_iter()
            .map(|user| (user.user_id, user.attributes))
            .collect();
        let devices = store.list_devices(app, DeviceFilter::default(), fixtures::page(100)).await;
        let devices = devices.unwrap().rows;
        for _ in 0..40 {
            let audience = random_audience(&mut rng, 3);
            let condition = audience.validate().unwrap();
            let tag = rng.bool().then_some("vip");
            let mut expected: Vec<&str> = Vec::new();
            for device in &devices {
                let has_tag = tag
                    .is_none_or(|name| device.tags.iter().any(|tag| tag.name == name && tag.value));
                if has_tag && matches(&condition, device, &users) {
                    expected.push(device.device_id.as_str());
                }
            }
            let new = fixtures::with(to_audience(&audience), |checked| {
                checked.recipients.tag = tag.map(str::to_owned);
            });
            let dispatch = fixtures::dispatch(store, app, new).await;
            for batch in [1, 7, 1_000] {
                let keys = read(store, &dispatch, batch).await;
                let found = ids_of(&devices, &keys);
                assert_eq!(found, expected, "{round}: {audience} of {batch}, tag {tag:?}");
            }
            let range = store.read_range(&dispatch, dispatch.cursor, dispatch.until).await.unwrap();
            let keys: Vec<DeviceKey> = range.iter().map(|device| device.key).collect();
            assert_eq!(ids_of(&devices, &keys), expected, "{audience}");

            let recipients = Recipients {
                target: Target::Platforms(vec![Platform::Android]),
                tag: tag.map(str::to_owned),
                audience: None,
            };
            let reached = store.reach(app, recipients, Some(condition.clone()), NOW).await.unwrap();
            let [Reach { devices: counted, is_exact: true, .. }] = reached.platforms[..] else {
                panic!("{reached:?}")
            };
            assert_eq!(counted, expected.len() as u64, "{audience}");

            let filter = DeviceFilter {
                tag: tag.map(str::to_owned),
                condition: Some(DeviceCondition { condition: condition.into(), at: NOW }),
                ..DeviceFilter::default()
            };
            assert_eq!(list(store, app, &filter).await, expected, "{audience}");
            let of_ada = DeviceFilter { user: Some(user("ada")), ..filter };
            let is_of_ada = |id: &&str| {
                let device = devices.iter().find(|device| device.device_id.as_str() == *id);
                device.is_some_and(|device| device.user_id == Some(user("ada")))
            };
            let expected: Vec<&str> = expected.into_iter().filter(is_of_ada).collect();
            assert_eq!(list(store, app, &of_ada).await, expected, "{audience}, of a user");
        }
    }
}

/// The ids of devices by key. The keys of the devices of one platform have the order of their names.
fn ids_of<'d>(devices: &'d [Device], keys: &[DeviceKey]) -> Vec<&'d str> {
    let id_of = |key: &DeviceKey| {
        let place = usize::try_from(key.sequence() - 1).unwrap();
        devices[place].device_id.as_str()
    };
    keys.iter().map(id_of).collect()
}

#[apply(contract)]
async fn named_devices_that_do_not_meet_the_condition_are_excluded(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    fixtures::tagged(store, app, "d001", "vip", true).await;
    let audience = Audience::tag("vip").validate().unwrap().to_json();
    let named = fixtures::direct(&["d000", "d001"], &[]);
    let dispatch =
        fixtures::dispatch(store, app, NewNotification { audience: Some(audience), ..named }).await;
    let batch = store.read_batch(&dispatch, dispatch.cursor, 10).await.unwrap();
    let read: Vec<_> =
        batch.devices.iter().map(|device| (device.eligible, device.mismatch)).collect();
    assert_eq!(read, [(false, Some(Mismatch::Condition)), (true, None)]);
    let facts =
        store.delivery_facts(app, dispatch.notification_id.clone(), id("d000")).await.unwrap();
    assert_eq!(facts.device.unmet.as_deref(), Some("tag = vip"));
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.audience, Some(Audience::tag("vip")));
}

/// `within_days` counts from the due time, however late a device is read.
#[apply(contract)]
async fn days_count_from_the_due_time(store: &Store) {
    let app = fixtures::app(store).await;
    let at = NOW.plus_ms(-DAY_MS);
    fixtures::now(store.register_device(app, fixtures::android("d0"), at, None).await.unwrap());
    let dispatch =
        fixtures::dispatch(store, app, to_audience(&Audience::created_at().within_days(1))).await;
    assert_eq!(read(store, &dispatch, 10).await.len(), 1);
    let later = Dispatch { due_at: NOW.plus_ms(1), ..dispatch };
    assert_eq!(read(store, &later, 10).await.len(), 0);
}

/// A search that finds little is cut, so that no read takes long.
#[apply(contract)]
async fn a_batch_looks_at_a_bounded_number_of_devices(store: &Store) {
    let app = fixtures::app(store).await;
    let last = KEYS_PER_BATCH_MAX as i64 + 4_000;
    store
        .write(crate::store::Operation::Check, move |tx| {
            tx.prepare_cached(
                "with recursive n (i) as (select 1 union all select i + 1 from n where i < ?2)
                 insert into device_fields (key, created_at, registered_at)
                 select (?1 << 43) + i, 1, 1 from n",
            )?
            .execute([app.0, last])?;
            tx.prepare_cached("update apps set device_sequence = ?2 where no = ?1")?
                .execute([app.0, last])?;
            Ok(())
        })
        .await
        .unwrap();
    let audience = Audience::country().is("DE");
    let dispatch = fixtures::dispatch(store, app, to_audience(&audience)).await;
    let batch = store.read_batch(&dispatch, dispatch.cursor, 1_000).await.unwrap();
    assert!(batch.devices.is_empty() && !batch.end);
    let looked_at = batch.to.sequence();
    assert!((20_000..24_000).contains(&looked_at), "{looked_at}");
    // With a list of the matching devices, nothing else is looked at.
    let listed = audience.and(Audience::attribute("plan").is("pro"));
    let dispatch = fixtures::dispatch(store, app, to_audience(&listed)).await;
    let batch = store.read_batch(&dispatch, dispatch.cursor, 1_000).await.unwrap();
    assert!(batch.devices.is_empty() && batch.end);
}

#[apply(contract)]
async fn segments_are_replaced_listed_and_limited(store: &Store) {
    let app = fixtures::app(store).await;
    let name = |text: &str| SegmentName::new(text).unwrap();
    let put = |text: &str, audience: Audience, at: Timestamp| {
        store.put_segment(app, name(text), audience.validate().unwrap(), at)
    };
    let made = put("fans", Audience::tag("fan"), NOW).await.unwrap();
    let changed = put("fans", Audience::tag("fans"), NOW.plus_ms(5)).await.unwrap();
    assert_eq!((made.created_at, changed.created_at), (NOW, NOW));
    assert_eq!((changed.updated_at, changed.audience), (NOW.plus_ms(5), Audience::tag("fans")));
    assert_eq!(store.segment(app, "fans".into()).await.unwrap().audience, Audience::tag("fans"));
    for number in 1..SEGMENTS_MAX {
        put(&format!("s{number:04}"), Audience::tag("a"), NOW).await.unwrap();
    }
    let refused = refusal(put("one more", Audience::tag("a"), NOW).await);
    assert_eq!(refused, "name: the application has 1000 segments already");
    put("fans", Audience::tag("again"), NOW).await.unwrap();
    let first = store.list_segments(app, fixtures::page(2)).await.unwrap();
    let names: Vec<_> = first.rows.iter().map(|segment| segment.name.as_str()).collect();
    assert_eq!((names, first.next.is_some()), (vec!["fans", "s0001"], true));
    store.delete_segment(app, "fans".into()).await.unwrap();
    assert!(is_unknown(&store.delete_segment(app, "fans".into()).await));
    assert!(is_unknown(&store.segment(app, "fans".into()).await));
    let other = fixtures::named_app(store, "Other").await.1;
    assert!(is_unknown(&store.segment(other, "s0001".into()).await));
}
