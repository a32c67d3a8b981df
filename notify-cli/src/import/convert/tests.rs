//! The rows of every system, and what becomes of them.

use serde_json::{Value, json};
use uuid::Uuid;

use super::device_row::IDS;
use super::*;

const APNS: &str = "ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef0123456789";
const APNS_LOWER: &str = "abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789";
const P256DH: &str =
    "BN/+AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

fn converter(system: Option<System>, mapping: &str) -> Converter {
    let mapping = Mapping::parse(mapping.to_owned(), system.is_some()).expect("a correct mapping");
    let (tokens, feedback, unseen) = (Tokens::default(), None, UnseenColumns::of(&mapping));
    Converter { system, mapping, tokens, feedback, arguments: String::new(), unseen }
}

/// What becomes of the rows of one system: the fields of a device, the reason for leaving it out, or errors.
fn converted(system: Option<System>, mapping: &str, rows: &[Value]) -> Vec<Value> {
    let mut converter = converter(system, mapping);
    let rows: Vec<_> = rows.iter().map(Value::to_string).collect();
    if converter.needs_survey() {
        for row in &rows {
            converter.survey(&RawRow::Json(row.as_bytes()), Table::Notifications);
        }
    }
    let outcomes = rows.iter().flat_map(|row| converter.convert(&RawRow::Json(row.as_bytes())));
    outcomes.map(|(_, outcome)| shown(outcome)).collect()
}

fn shown(outcome: Conversion) -> Value {
    match outcome {
        Ok(Outcome::Device(draft)) => {
            let mut shown = json!(draft.registration);
            shown.as_object_mut().expect("an object").retain(|_, value| value != "");
            for (name, value) in [
                ("subscription", json!(draft.subscription)),
                ("recipient_id", json!(draft.recipient_id)),
                (
                    "tags",
                    json!(draft.tags.iter().map(|tag| (&tag.name, tag.value)).collect::<Vec<_>>()),
                ),
                ("attributes", json!(draft.attributes)),
            ] {
                if !matches!(&value, Value::Null) && value != json!([]) && value != json!({}) {
                    shown[name] = value;
                }
            }
            shown
        }
        Ok(Outcome::LeftOut(reason)) => json!(reason),
        Err(errors) => json!(errors),
    }
}

#[test]
fn installations_of_parse_become_devices() {
    let mongo = json!({
        "_id": "x1", "installationId": "i-1", "deviceType": "ios", "deviceToken": APNS,
        "channels": ["", "news", "sport"], "timeZone": "Asia/Kolkata", "localeIdentifier": "pt_BR",
        "badge": 3, "appVersion": "1.2", "appIdentifier": "com.example.app", "_p_user": "_User$u9",
        "_created_at": {"$date": "2024-05-01T10:00:00.000Z"}, "level": {"$numberLong": "7"},
    });
    let rest = json!({
        "objectId": "x2", "deviceType": "android", "pushType": "gcm", "deviceToken": "a:b",
        "GCMSenderId": "123", "user": {"__type": "Pointer", "className": "_User", "objectId": "u1"},
        "team": "red", "createdAt": "2024-05-01T10:00:00.000Z",
    });
    let mapping = "[fields]\nios_env = { value = \"production\" }\n[attributes]\nlevel = { column = \
                   \"level\", type = \"number\" }\nteam = \"team\"\nsince = \"_created_at\"\n";
    let rows = [mongo, rest];
    assert_eq!(
        converted(Some(System::Parse), mapping, &rows),
        [
            json!({"device_id": "i-1", "platform": "ios", "push_token": APNS_LOWER,
                "ios_env": "production", "app_version": "1.2", "store_identifier": "com.example.app",
                "timezone": "Asia/Kolkata", "country": "BR", "language": "pt-BR", "user_id": "u9",
                "tags": [["news", true], ["sport", true]],
                "attributes": {"level": 7, "since": "2024-05-01T10:00:00.000Z"}}),
            json!({"device_id": "x2", "platform": "android", "push_token": "a:b", "user_id": "u1",
                "attributes": {"team": "red"}}),
        ]
    );
    for (change, expected) in [
        (json!({"deviceType": "winrt"}), json!("Windows device")),
        (json!({"deviceType": "js"}), json!("installation without push")),
        (json!({"deviceType": "tvos"}), json!("Apple device other than iOS")),
        (json!({"deviceType": "ios", "pushType": "fcm"}), json!("FCM token of an iOS device")),
        (json!({"pushType": "ppns"}), json!("push service of Parse (ppns)")),
        (json!({"deviceToken": null}), json!("no push token")),
        (json!({"deviceToken": "(null)"}), json!("no push token")),
        (json!({"deviceType": "symbian"}), json!(["deviceType: `symbian` is unknown"])),
        (
            json!({"deviceToken": "a b"}),
            json!([
                "deviceToken: is not an FCM registration token: it looks like a text with blanks"
            ]),
        ),
        (
            json!({"deviceType": "ios", "pushType": null}),
            json!([
                "deviceToken: is not an APNs device token: it looks like a text that is not hexadecimal"
            ]),
        ),
        (json!({"channels": 7}), json!(["channels: must be a list of texts"])),
    ] {
        let mut row = rows[1].clone();
        for (name, value) in change.as_object().expect("an object") {
            row[name] = value.clone();
        }
        assert_eq!(converted(Some(System::Parse), "", &[row]), [expected], "{change}");
    }
}

#[test]
fn installations_of_aerogear_become_devices() {
    let web =
        json!({"endpoint": "https://push.example/1", "keys": {"p256dh": P256DH, "auth": "a+b/=="}});
    let token = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, web.to_string());
    let mut other = web.clone();
    other["note"] = json!("ÿÿÿ???>>>~~~");
    let other = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, other.to_string());
    assert!(other.contains('-') && other.contains('_'), "{other}");
    let rows = [
        json!({"id": "1", "enabled": true, "deviceToken": APNS, "deviceType": "iPhone",
            "operatingSystem": "iOS", "osVersion": "12.1", "alias": "ada@example.com",
            "categories": [{"name": "sport"}, {"name": "a,b"}], "platform": "ios_token"}),
        json!({"id": "2", "enabled": false, "deviceToken": "t", "categories": [],
            "platform": "android"}),
        json!({"id": "3", "enabled": true, "deviceToken": token, "alias": "ada", "osVersion": "9",
            "platform": "web_push"}),
        json!({"id": "4", "enabled": false, "deviceToken": other, "platform": "web_push"}),
        json!({"id": "5", "deviceToken": "e30=", "platform": "web_push"}),
        json!({"id": "6", "deviceToken": "x", "platform": "windows_wns"}),
        json!({"id": "7", "deviceToken": "x", "operatingSystem": "Android"}),
        json!({"id": "8", "deviceToken": "x", "platform": "beos", "enabled": 7}),
    ];
    let browser = |p256dh: &str| json!({"endpoint": "https://push.example/1", "keys": {"p256dh": p256dh, "auth": "a+b/=="}});
    let key = P256DH;
    assert_eq!(
        converted(Some(System::Aerogear), "", &rows),
        [
            json!({"device_id": "1", "platform": "ios", "push_token": APNS_LOWER,
                "os_version": "12.1", "device_description": "iPhone", "user_id": "ada@example.com",
                "tags": [["sport", true], ["a,b", true]]}),
            json!({"device_id": "2", "platform": "android", "push_token": "t",
                "push_disabled": true}),
            json!({"device_id": "3", "platform": "web", "user_id": "ada",
                "subscription": browser(key)}),
            json!("disabled"),
            json!(["deviceToken: must be the JSON of a browser's subscription, in base64"]),
            json!("Windows device"),
            json!({"device_id": "7", "platform": "android", "push_token": "x"}),
            json!(["platform: `beos` is unknown"]),
        ]
    );
}

/// A row of OneSignal's export.
fn onesignal_row() -> Value {
    json!({
        "id": "p-1", "identifier": "a:b", "session_count": "7", "language": "en",
        "timezone": "-28800", "game_version": "12", "device_os": "9", "device_type": "1",
        "device_model": "Pixel 3", "ad_id": "OptedOut",
        "tags": "{\"firstName\":\"Ada\",\"level\":\"03\",\"2fa\":\"1\",\"none\":null}",
        "last_active": "2024-05-01 10:00:00", "invalid_identifier": "f", "badge_count": "0",
        "external_user_id": "u1", "country": "US", "notification_types": "1",
    })
}

#[test]
fn a_subscription_of_onesignal_becomes_a_device() {
    let row = onesignal_row();
    let device = json!({
        "device_id": "p-1", "platform": "android", "push_token": "a:b", "app_version": "12",
        "os_version": "9", "device_description": "Pixel 3", "country": "US", "utc_offset": "-480",
        "language": "en", "user_id": "u1",
        "attributes": {"first_name": "Ada", "level": "03", "tag_2fa": "1"},
    });
    assert_eq!(
        converted(Some(System::Onesignal), "", std::slice::from_ref(&row)),
        std::slice::from_ref(&device)
    );
    let mapping = "[attributes]\nlevel = { column = \"tags.level\", type = \"number\" }\n";
    let mut with_number = device;
    with_number["attributes"]["level"] = json!(3);
    let mut leading = row.clone();
    leading["tags"] = json!("{'firstName': \"Ada\", 'level': '3', '2fa': '1'}");
    assert_eq!(converted(Some(System::Onesignal), mapping, &[leading]), [with_number]);
}

#[test]
fn subscriptions_of_onesignal_of_every_kind_are_converted() {
    let keys = "the browser's keys (p256dh and auth) are missing: export them too, a browser cannot be \
                reached without them";
    for (change, expected) in [
        (
            json!({"device_type": "0", "identifier": APNS, "tags": null, "timezone": null,
            "ad_id": "ad", "game_version": null, "device_os": "17.1", "device_model": null,
            "country": null, "language": null, "external_user_id": null}),
            json!({"device_id": "p-1", "platform": "ios", "push_token": APNS_LOWER, "ad_id": "ad",
            "os_version": "17.1"}),
        ),
        (
            json!({"device_type": "5", "identifier": "https://push.example/1", "web_auth": "a+/=",
            "web_p256": "k", "tags": "{}", "timezone_id": "Asia/Kolkata"}),
            json!({"device_id": "p-1", "platform": "web", "language": "en",
            "timezone": "Asia/Kolkata", "utc_offset": "-480", "user_id": "u1", "subscription":
            {"endpoint": "https://push.example/1", "keys": {"p256dh": "k", "auth": "a+/="}}}),
        ),
        (json!({"device_type": "8", "identifier": "https://push.example/1"}), json!([keys])),
        (
            json!({"device_type": "5", "identifier": "APA91b"}),
            json!(["identifier: must be the URL of a browser's subscription"]),
        ),
        (json!({"device_type": "11"}), json!("email address")),
        (json!({"device_type": "14"}), json!("telephone number")),
        (json!({"device_type": "2"}), json!("Amazon device")),
        (json!({"device_type": "6"}), json!("Windows device")),
        (json!({"device_type": "7"}), json!("Safari before Web Push")),
        (json!({"device_type": "13"}), json!("Huawei device")),
        (json!({"invalid_identifier": "t"}), json!("unsubscribed")),
        (json!({"notification_types": "-2"}), json!("unsubscribed")),
        (json!({"identifier": null}), json!("no push token")),
        (json!({"device_type": "99"}), json!(["device_type: `99` is unknown"])),
        (
            json!({"timezone": "PST", "tags": "level 3"}),
            json!([
                "timezone: must be an offset from UTC, such as 3600",
                "tags: must be a JSON object, such as {\"level\": \"3\"}"
            ]),
        ),
        (
            json!({"tags": "{\"aB\":\"1\",\"a b\":\"2\"}"}),
            json!(["tags: `aB` and another tag both become the attribute `a_b`"]),
        ),
    ] {
        let mut row = onesignal_row();
        for (name, value) in change.as_object().expect("an object") {
            row[name] = value.clone();
        }
        assert_eq!(converted(Some(System::Onesignal), "", &[row]), [expected], "{change}");
    }
}

#[test]
fn tags_of_onesignal_are_read_in_every_form() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for (text, expected) in [
        (
            "{\"a\":\"1\",\"b\":2,\"c\":true,\"d\":null}",
            Ok(vec![pair("a", "1"), pair("b", "2"), pair("c", "true")]),
        ),
        ("{'a': 'it\\'s', 'b': 2, 'c': None}", Ok(vec![pair("a", "it's"), pair("b", "2")])),
        ("\"a\"=>\"1\", \"b\"=>NULL, \"c\"=>\"NULL\"", Ok(vec![pair("a", "1"), pair("c", "NULL")])),
        ("{}", Ok(vec![])),
        ("{\"a\":[1]}", Err("the values must be texts")),
        ("{'a': 'b", Err(pairs::NO_PAIRS)),
        ("{a}", Err(pairs::NO_PAIRS)),
    ] {
        assert_eq!(pairs::pairs(text), expected, "{text}");
    }
}

#[test]
fn tokens_of_rpush_become_devices() {
    let class = |service: &str| format!("Rpush::Client::ActiveRecord::{service}::Notification");
    let web =
        "---\n- endpoint: https://push.example/1\n  keys:\n    p256dh: BN/x=\n    auth: a+b==\n";
    let spaced = format!("<{} {}>", &APNS[..32], &APNS[32..]);
    let rows = [
        json!({"id": 1, "type": class("Apnsp8"), "device_token": spaced, "delivered": "t"}),
        json!({"id": 2, "type": class("Apns"), "device_token": APNS_LOWER, "delivered": "t",
            "environment": "development"}),
        json!({"id": 3, "type": class("Gcm"), "registration_ids": "---\n- g1\n- g2\n- g1\n"}),
        json!({"id": 4, "type": class("Fcm"), "device_token": "f1", "environment": "production"}),
        json!({"id": 5, "type": class("Webpush"), "registration_ids": web}),
        json!({"id": 6, "type": class("Adm"), "registration_ids": "---\n- x\n"}),
        json!({"id": 7, "type": class("Fcm"), "device_token": null}),
        json!({"id": 8, "type": "Other", "device_token": "x"}),
        json!({"id": 9, "type": class("Gcm"), "registration_ids": web}),
    ];
    let converted =
        converted(Some(System::Rpush), "[where]\nid = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n", &rows);
    let android = |token: &str| {
        let id = Uuid::new_v5(&IDS, format!("android:{token}").as_bytes()).to_string();
        json!({"device_id": id, "platform": "android", "push_token": token})
    };
    let ids = [("ios", APNS_LOWER), ("web", "https://push.example/1")];
    let [ios, browser] = ids
        .map(|(platform, address)| Uuid::new_v5(&IDS, format!("{platform}:{address}").as_bytes()));
    assert_eq!(
        converted,
        [
            json!("repeated token"),
            json!({"device_id": ios.to_string(), "platform": "ios", "push_token": APNS_LOWER,
                "ios_env": "sandbox"}),
            json!("repeated token"),
            android("g2"),
            android("g1"),
            android("f1"),
            json!({"device_id": browser.to_string(), "platform": "web", "subscription":
                {"endpoint": "https://push.example/1", "keys": {"p256dh": "BN/x=", "auth": "a+b=="}}}),
            json!("Amazon device"),
            json!("no push token"),
            json!(["type: `Other` is not a notification of rpush"]),
            json!(["registration_ids: is of another push service than the notification"]),
        ]
    );
}

/// Reports of other apps of rpush say nothing about the tokens of the app that is imported.
#[test]
fn a_mapping_excludes_rows_of_rpush_from_the_survey_too() {
    let class = "Rpush::Client::ActiveRecord::Fcm::Notification";
    let delivered = |app: u64| {
        json!({"type": class, "device_token": "t", "app_id": app, "delivered": "t",
        "delivered_at": "2024-05-01 10:00:00"})
    };
    let failed = |app: u64| {
        json!({"type": class, "device_token": "t", "app_id": app, "failed": "t",
        "failed_at": "2024-05-02 10:00:00", "error_description": "Unregistered"})
    };
    let feedback = |app: Value| {
        json!({"device_token": "t", "app_id": app,
        "failed_at": "2024-05-02 10:00:00"})
    };
    let excluded = "excluded by [where] of the mapping";
    for (rows, feedback, expected) in [
        (vec![delivered(1), failed(2)], None, vec!["imported", excluded]),
        (vec![delivered(1), failed(1)], None, vec!["unregistered", "unregistered"]),
        (vec![delivered(1), delivered(2)], None, vec!["imported", excluded]),
        (vec![delivered(1)], Some(feedback(json!(2))), vec!["imported"]),
        (vec![delivered(1)], Some(feedback(json!(1))), vec!["unregistered"]),
        // An export of some columns only.
        (vec![delivered(1)], Some(feedback(Value::Null)), vec!["unregistered"]),
    ] {
        let mut converter = converter(Some(System::Rpush), "[where]\napp_id = 1\n");
        let rows: Vec<_> = rows.iter().map(Value::to_string).collect();
        for row in feedback.iter().map(Value::to_string) {
            converter.survey(&RawRow::Json(row.as_bytes()), Table::Feedback);
        }
        for row in &rows {
            converter.survey(&RawRow::Json(row.as_bytes()), Table::Notifications);
        }
        let outcomes = rows.iter().flat_map(|row| converter.convert(&RawRow::Json(row.as_bytes())));
        let seen: Vec<_> = outcomes
            .map(|(_, outcome)| match outcome {
                Ok(Outcome::Device(_)) => "imported",
                Ok(Outcome::LeftOut(reason)) => reason,
                Err(errors) => panic!("{errors:?}"),
            })
            .collect();
        assert_eq!(seen, expected, "{rows:?} {feedback:?}");
    }
}

const OWN_TABLE: &str = r#"
[fields]
device_id = "uuid"
push_token = "token"
platform = { column = "os", values = { "1" = "ios", "2" = "android", "3" = "web" } }
endpoint = "token"
p256dh = "p256dh"
auth = "auth"
user_id = "account.id"
language = { column = "lang", default = "en" }
utc_offset = { column = "tz", unit = "hours" }
ios_env = { value = "production" }
push_disabled = { column = "muted" }

[[tags]]
column = "topics"
separator = ";"

[[tags]]
column = "vip"
name = "vip"

[attributes]
plan = "plan"
level = { column = "level", type = "number" }
trial = { column = "trial", type = "boolean" }

[where]
status = ["active", "new"]
"#;

#[test]
fn a_mapping_reads_a_table_of_ones_own() {
    let row = json!({
        "uuid": 17, "token": APNS, "os": 1, "account": {"id": 9}, "tz": "5.5", "muted": "t",
        "topics": "a; b,c", "vip": "no", "plan": "pro", "level": "3", "trial": 1, "status": "new",
    });
    let device = json!({
        "device_id": "17", "platform": "ios", "push_token": APNS_LOWER, "push_disabled": true,
        "ios_env": "production", "utc_offset": "330", "language": "en", "user_id": "9",
        "tags": [["a", true], ["b,c", true], ["vip", false]],
        "attributes": {"plan": "pro", "level": 3, "trial": true},
    });
    assert_eq!(converted(None, OWN_TABLE, std::slice::from_ref(&row)), [device]);
    for (change, expected) in [
        (json!({"status": "gone"}), json!("excluded by [where] of the mapping")),
        (
            json!({"os": 2, "muted": 0, "tz": null, "topics": null, "vip": "", "level": "", "plan": null,
            "trial": null, "account": null, "uuid": null, "lang": "de"}),
            json!({"device_id": Uuid::new_v5(&IDS, format!("android:{APNS}").as_bytes()).to_string(),
            "platform": "android", "push_token": APNS, "push_disabled": false, "language": "de"}),
        ),
        (
            json!({"os": 4, "level": "x", "trial": "maybe", "vip": "7"}),
            json!([
                "os: `4` is not among the `values` of the mapping",
                "vip: must be true or false",
                "level: must be a number, such as 3 or 2.5",
                "trial: must be true or false"
            ]),
        ),
        (
            json!({"os": 3, "muted": null, "token": "https://push.example/1"}),
            json!([
                "the browser's keys (p256dh and auth) are missing: export them too, a browser cannot be \
             reached without them"
            ]),
        ),
    ] {
        let mut row = row.clone();
        for (name, value) in change.as_object().expect("an object") {
            row[name] = value.clone();
        }
        assert_eq!(converted(None, OWN_TABLE, &[row]), [expected], "{change}");
    }
}

#[test]
fn a_disabled_subscription_is_left_out() {
    let mapping = "[fields]\nplatform = \"platform\"\npush_token = \"token\"\nrecipient_id = \"chat\"\n\
                   endpoint = \"endpoint\"\np256dh = \"key\"\nauth = \"key\"\npush_disabled = \"muted\"\n";
    for (platform, is_muted, is_left_out) in [
        ("ios", true, false),
        ("android", true, false),
        ("web", true, true),
        ("web", false, false),
        ("fb-messenger", true, true),
        ("fb-messenger", false, false),
        ("chatapp", true, true),
        ("chatapp", false, false),
    ] {
        let mut row = json!({"platform": platform, "muted": is_muted});
        match platform {
            "ios" | "android" => row["token"] = APNS.into(),
            "web" => {
                row["endpoint"] = "https://push.example/1".into();
                row["key"] = "k".into();
            }
            _ => row["chat"] = "c1".into(),
        }
        let [seen] = <[_; 1]>::try_from(converted(None, mapping, &[row])).expect("one outcome");
        assert_eq!(seen == json!("disabled"), is_left_out, "{platform} {is_muted}: {seen}");
        assert_eq!(seen["platform"] == platform, !is_left_out, "{platform} {is_muted}: {seen}");
    }
}

#[test]
fn a_column_of_the_mapping_that_no_row_has_is_reported() {
    let mapping = "[fields]\nuser_id = \"user.id\"\nlanguage = \"langauge\"\n[[tags]]\ncolumn = \"topics\"\n\
                   [attributes]\nplan = \"plan\"\n[where]\nstatsu = \"new\"\n";
    for (rows, expected) in [
        (vec![], &[] as &[&str]),
        (vec![json!({})], &["langauge", "plan", "statsu", "topics", "user.id"]),
        (
            vec![
                json!({"user": {"uid": 1}, "plan": null}),
                json!({"topics": "a", "status": "new"}),
            ],
            &["langauge", "statsu", "user.id"],
        ),
        (
            vec![
                json!({"user": "{\"id\": 1}", "plan": 1, "statsu": "old", "topics": [], "langauge": "en"}),
            ],
            &[],
        ),
    ] {
        let mut converter = converter(Some(System::Parse), mapping);
        for row in rows.iter().map(Value::to_string) {
            converter.convert(&RawRow::Json(row.as_bytes()));
        }
        assert_eq!(converter.into_unseen_columns(), expected, "{rows:?}");
    }
    let mut converter = converter(Some(System::Parse), mapping);
    let header = std::sync::Arc::new(ByteRecord::from(vec!["plan"]));
    let cells = ByteRecord::from(vec![""]);
    converter.convert(&RawRow::Csv { header: &header, cells: &cells, is_unterminated: false });
    assert!(converter.into_unseen_columns().is_empty(), "the header was checked");
}

#[test]
fn a_wrong_mapping_is_refused() {
    for (text, error) in [
        ("[fields]\nplatfrom = \"os\"\n", "[fields] has no `platfrom` (did you mean `platform`?)"),
        (
            "[fields]\nplatform = \"os\"\n",
            "[fields] needs `platform`, and `push_token`, `endpoint`",
        ),
        (
            "[fields]\nplatform = { column = \"os\", value = \"ios\" }\npush_token = \"t\"\n",
            "[fields] platform: give either `column` or `value`",
        ),
        (
            "[fields]\nplatform = { column = \"os\", unit = \"hours\" }\npush_token = \"t\"\n",
            "[fields] platform: only `utc_offset` has a unit",
        ),
        ("[attributes]\nPlan = \"plan\"\n", "[attributes] `Plan`: a name is a lower-case letter"),
        ("[field]\n", "unknown field `field`"),
        ("[fields]\nplatform = 7\n", "the name of a column, or a table"),
    ] {
        let seen = Mapping::parse(text.to_owned(), false).map(|_| ()).expect_err(text);
        assert!(seen.contains(error), "{text}: {seen}");
    }
}

#[test]
fn a_header_has_the_columns_of_the_system_and_the_mapping() {
    for (system, mapping, header, error) in [
        (
            Some(System::Onesignal),
            "",
            &["id", "device_type"] as &[&str],
            Some("the header has no column `identifier`: is the file from this system?"),
        ),
        (
            Some(System::Rpush),
            "",
            &["type"],
            Some(
                "the header has no column `device_token` or `registration_ids`: is the file from this system?",
            ),
        ),
        (Some(System::Rpush), "", &["type", "registration_ids"], None),
        (
            Some(System::Onesignal),
            "[attributes]\nlevel = \"tags.level\"\nteam = \"taem\"\n",
            &["identifier", "device_type", "tags", "team"],
            Some("the header has no column `taem`, which the mapping names (did you mean `team`?)"),
        ),
    ] {
        let header = header.iter().copied().collect();
        let seen = converter(system, mapping).check_header(&header);
        assert_eq!(seen.err().map(|error| error.to_string()).as_deref(), error);
    }
}

/// The cells of a CSV file, with NULL as databases write it, and a report of refused rows.
#[test]
fn a_row_of_csv_has_the_columns_of_its_header() {
    let mut converter = converter(Some(System::Onesignal), "");
    let header = ["identifier", "device_type", "line", "errors", "language"];
    let header = std::sync::Arc::new(header.into_iter().collect::<ByteRecord>());
    for (cells, expected) in [
        (
            &["'=t", "1", "7", "old", "\\N"] as &[&str],
            json!({"platform": "android", "push_token": "=t"}),
        ),
        (&["NULL", "1", "7", "old", ""], json!("no push token")),
        (&["t", "1"], json!(["has 2 cells, the header has 5"])),
    ] {
        let cells: ByteRecord = cells.iter().copied().collect();
        let row = RawRow::Csv { header: &header, cells: &cells, is_unterminated: false };
        let [(_, outcome)] = <[_; 1]>::try_from(converter.convert(&row)).expect("one outcome");
        let mut shown = shown(outcome);
        if let Some(device) = shown.as_object_mut() {
            assert!(device.remove("device_id").is_some(), "derived from the token");
        }
        assert_eq!(shown, expected);
    }
}

#[test]
fn offsets_and_locales_are_converted() {
    for (text, unit, expected) in [
        ("-28800", zone::Unit::Seconds, Some("-480")),
        ("5.75", zone::Unit::Hours, Some("345")),
        ("60", zone::Unit::Minutes, Some("60")),
        ("nan", zone::Unit::Minutes, None),
        ("1e9", zone::Unit::Hours, None),
    ] {
        assert_eq!(zone::offset(text, unit).ok().as_deref(), expected, "{text}");
    }
    for (locale, language, country) in [
        ("de", "de", None),
        ("de_AT", "de-AT", Some("AT")),
        ("zh-Hans-CN", "zh-Hans-CN", Some("CN")),
        ("zh-Hant", "zh-Hant", None),
        ("en_US@calendar=buddhist", "en-US", Some("US")),
    ] {
        let expected = (language.to_owned(), country.map(str::to_owned));
        assert_eq!(zone::language_and_country(locale), expected, "{locale}");
    }
}
