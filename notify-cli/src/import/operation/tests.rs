//! Rows of every kind, and their errors.

use super::*;
use crate::import::json_row::draft_of_json;

fn operation_for(purpose: Purpose, line: &str) -> Result<Operation, Vec<String>> {
    draft_of_json(line.as_bytes(), purpose)?.validate(purpose, Timestamp(0))
}

fn operation(line: &str) -> Result<Operation, Vec<String>> {
    operation_for(Purpose::Register, line)
}

fn update(device_id: &str, tags: &[(&str, bool)]) -> Update {
    let tags = tags.iter().map(|(name, value)| Tag::new(*name, *value)).collect();
    let device_id = DeviceId::new(device_id).expect("an id of a test is one");
    Update { device_id, tags: SetTags { tags }, attributes: PatchAttributes::default() }
}

const ANDROID: &str =
    r#""device_id":"a","platform":"android","sdk_type":"android_push","push_token":"t""#;

const CHAT: &str = r#""device_id":"c","platform":"chatapp","recipient_id":"77""#;

#[test]
fn a_device_of_the_api_is_registered_or_subscribed_again() {
    let line = format!(
        r#"{{{ANDROID},"push_disabled":true,"ios_env":null,"enabled":false,
            "disabled_reason":"push_disabled","created_at":1,"updated_at":2,
            "tags":[{{"name":"vip","type":"bool","value":true}},
            {{"name":"old","type":"bool","value":false}}]}}"#
    );
    let registration = RegisterDevice {
        device_id: "a".into(),
        platform: "android".into(),
        sdk_type: "android_push".into(),
        push_token: Some("t".into()),
        push_disabled: Some(true),
        ..Default::default()
    };
    let tags = update("a", &[("vip", true), ("old", false)]);
    assert_eq!(operation(&line), Ok(Operation::Register(registration, tags)));

    let line = r#"{"device_id":"c","platform":"chatapp","sdk_type":null,"push_token":null,
        "push_disabled":false,"recipient_id":"77","language":"de","timezone":null,
        "tags":["vip"],"enabled":true,"disabled_reason":null,"created_at":1,"updated_at":1}"#;
    let subscribe = Subscribe {
        platform: "chatapp".into(),
        recipient_id: Some("77".into()),
        device_id: Some("c".into()),
        language: Some("de".into()),
        ..Default::default()
    };
    assert_eq!(operation(line), Ok(Operation::Subscribe(subscribe, update("c", &[("vip", true)]))));
}

#[test]
fn the_kind_of_sdk_follows_from_the_platform() {
    for (platform, sdk_type) in [("ios", "ios_push"), ("android", "android_push")] {
        let line = format!(r#"{{"device_id":"a","platform":"{platform}"}}"#);
        let registration = RegisterDevice {
            device_id: "a".into(),
            platform: platform.into(),
            sdk_type: sdk_type.into(),
            ..Default::default()
        };
        let registered = Operation::Register(registration, update("a", &[]));
        assert!(registered.lacks_address());
        assert_eq!(operation(&line), Ok(registered));
    }
}

#[test]
fn a_row_has_a_user_and_attributes() {
    let attributes = PatchAttributes::default().set("plan", "pro").set("seats", 3).remove("old");
    for (device, more) in [
        (ANDROID, r#""attributes":{"plan":"pro","seats":3,"old":null}"#),
        (
            ANDROID,
            r#""attributes":{"old":null,"plan":"x"},"attribute:plan":"pro","attribute:seats":3"#,
        ),
        (CHAT, r#""attributes":{"old":null,"seats":3},"attribute:plan":"pro","attribute:x":null"#),
    ] {
        let line = format!(r#"{{{device},"user_id":"u",{more}}}"#);
        let (user_id, seen) = match operation(&line).unwrap() {
            Operation::Register(registration, update) => (registration.user_id, update),
            Operation::Subscribe(subscribe, update) => (subscribe.user_id, update),
            other => panic!("{other:?}"),
        };
        assert_eq!((user_id.as_deref(), &seen.attributes), (Some("u"), &attributes), "{line}");
    }
    let exported = format!(r#"{{{ANDROID},"user_id":null,"attributes":{{}}}}"#);
    let Ok(Operation::Register(registration, seen)) = operation(&exported) else { panic!() };
    assert_eq!((registration.user_id, seen), (None, update("a", &[])));

    for (more, error) in [
        (r#""attributes":["plan"]"#, "attributes: must be a JSON object"),
        (r#""attribute:plan":[]"#, "attributes.plan: expected a boolean, a number or a string"),
        (
            r#""attribute:Plan":1"#,
            "attributes.Plan: must be a lower-case letter, then up to 63 lower-case letters, digits \
             and underscores",
        ),
        (r#""user_id":"..""#, "user_id: must not be `.` or `..`"),
    ] {
        assert_eq!(operation(&format!("{{{ANDROID},{more}}}")), Err(vec![error.to_owned()]));
    }
    // A file for an import can also be used to set tags. Then only its tags count.
    let line = r#"{"device_id":"a","tags":["vip"],"attribute:plan":"pro","user_id":"u"}"#;
    let tagged = operation_for(Purpose::Tag, line);
    assert_eq!(tagged, Ok(Operation::Tag(update("a", &[("vip", true)]))));
}

#[test]
fn the_row_of_a_user_changes_attributes() {
    let user = |attributes: Option<PatchAttributes>| {
        let user_id = UserId::new("u").expect("an id of a test is one");
        Ok(Operation::UpdateUser(user_id, PatchUser { attributes }))
    };
    let attributes = PatchAttributes::default().set("plan", "pro").set("seats", 3).remove("old");
    for (members, attributes) in [
        (r#""attributes":{"plan":"pro","seats":3,"old":null}"#, Some(attributes.clone())),
        (
            r#""attributes":{"old":null,"seats":3},"attribute:plan":"pro","attribute:x":null"#,
            Some(attributes.clone()),
        ),
        (r#""attributes":{}"#, None),
        (r#""attributes":null,"device_id":null"#, None),
        // A user as the API returns it.
        (
            r#""attributes":{"plan":"pro","seats":3,"old":null},"created_at":1,"updated_at":2,
                "devices":[{"device_id":"a","platform":"ios","enabled":true}]"#,
            Some(attributes),
        ),
        // Fields of a device are ignored, even if their values break a rule or have another type.
        (r#""platform":7,"tags":7,"enabled":"x","subscription":[]"#, None),
        (
            r#""device_id":"..","platform":"x","tags":["a","a"],"enabled":false,"line":1,"errors":[]"#,
            None,
        ),
    ] {
        let line = format!(r#"{{"user_id":"u",{members}}}"#);
        assert_eq!(operation_for(Purpose::UpdateUser, &line), user(attributes), "{line}");
    }
    assert_eq!(operation_for(Purpose::UpdateUser, r#"{"user_id":"u"}"#), user(None));

    for (line, errors) in [
        (r#"{"attributes":{"plan":"pro"}}"#, vec!["user_id: must not be empty"]),
        (
            r#"{"user_id":"..","attribute:Plan":1}"#,
            vec![
                "user_id: must not be `.` or `..`",
                "attributes.Plan: must be a lower-case letter, then up to 63 lower-case letters, \
                 digits and underscores",
            ],
        ),
        (
            r#"{"user_id":7,"attributes":["plan"],"plan":"pro"}"#,
            vec![
                "attributes: must be a JSON object",
                "user_id: expected a string",
                "plan: unknown field",
            ],
        ),
    ] {
        let errors = errors.into_iter().map(str::to_owned).collect();
        assert_eq!(operation_for(Purpose::UpdateUser, line), Err(errors), "{line}");
    }
    // Only a user of a listing has devices.
    let device = format!(r#"{{{ANDROID},"devices":[]}}"#);
    assert!(
        operation(&device).is_err_and(|errors| errors[0].starts_with("devices: unknown field"))
    );
}

/// Rows of the same user are executed in the order of the file.
#[test]
fn rows_of_a_user_have_the_same_key() {
    let mut duplicates = DuplicateDetector::default();
    let seen = [
        (Purpose::UpdateUser, r#"{"user_id":"u"}"#),
        (Purpose::UpdateUser, r#"{"user_id":"v","device_id":"a"}"#),
        (Purpose::UpdateUser, r#"{"user_id":"u","attribute:plan":"pro"}"#),
        (Purpose::Tag, r#"{"device_id":"u","tags":["vip"]}"#),
    ]
    .map(|(purpose, line)| duplicates.add(&operation_for(purpose, line).unwrap()));
    let ids = seen.map(|(_, duplicate)| (duplicate.id, duplicate.address));
    assert_eq!(ids, [(false, false), (false, false), (true, false), (false, false)]);
    let [first, second, third, _] = seen.map(|([id, _], _)| id);
    assert!(first == third && first.is_some() && first != second);
}

#[test]
fn a_dead_address_is_left_out() {
    let line = format!(r#"{{{ANDROID},"enabled":false,"disabled_reason":"unregistered"}}"#);
    assert_eq!(operation(&line), Ok(Operation::LeaveOut(UNREGISTERED)));
}

#[test]
fn fields_that_cannot_be_set_are_errors() {
    for (more, errors) in [
        (r#""enabled":false"#, vec!["enabled: cannot be set; push_disabled can"]),
        (r#""enabled":0"#, vec!["enabled: expected a boolean"]),
        (
            r#""disabled_reason":"tired","recipient_id":"7""#,
            vec![
                "disabled_reason: must be push_disabled or unregistered",
                "recipient_id: must be absent for platform android",
            ],
        ),
        (
            r#""tags":[7],"pish_token":"x""#,
            vec![
                "tags[0]: expected an object",
                "pish_token: unknown field, did you mean `push_token`?",
            ],
        ),
        (r#""tags":["a","a"]"#, vec!["tags[1].name: is given twice"]),
    ] {
        let errors = errors.into_iter().map(str::to_owned).collect();
        assert_eq!(operation(&format!("{{{ANDROID},{more}}}")), Err(errors), "{more}");
    }
    let line = r#"{"device_id":"w","platform":"web","push_token":"t","subscription":{}}"#;
    let errors = operation(line).unwrap_err();
    assert!(errors.contains(&"push_token: must be absent for platform web".to_owned()));
    assert!(errors.iter().any(|error| error.starts_with("subscription.endpoint: ")));
}

#[test]
fn tags_of_a_cell_are_names_or_json() {
    let vip = [Tag::new("vip", true), Tag::new("new, shiny", false)];
    for (cell, tags) in [
        ("vip", &vip[..1]),
        (" vip ;", &vip[..1]),
        (r#"["vip"]"#, &vip[..1]),
        (r#"["vip",{"name":"new, shiny","type":"bool","value":false}]"#, &vip[..]),
        (",", &[]),
    ] {
        assert_eq!(tags_of_cell(cell).as_deref(), Ok(tags), "{cell}");
    }
    // A line of NDJSON may have the names as a string, as a cell has them.
    let names = [Tag::new("vip", true), Tag::new("new", true)];
    assert_eq!(tags_of_json(r#""vip, new""#).as_deref(), Ok(&names[..]));
    for object in [r#"{"x":true}"#, r#" {"name":"x"},{"name":"y"}"#] {
        let error = "tags: must be an array of tags or of names".to_owned();
        assert_eq!(tags_of_cell(object), Err(vec![error]), "{object}");
    }
}
