//! Each command: the request that its arguments make.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Fixture, ID, response};
use serde_json::{Value, json};

/// Runs the command of each row against a server that responds with the row's body. Checks the request of
/// the command, and that it prints the response.
async fn check(rows: Vec<(&str, Value, String, Option<Value>)>) {
    for (line, body, request, request_body) in rows {
        let fixture = Fixture::with_body(body.clone()).await;
        fixture.file("body.json", TEMPLATE);
        fixture.file("expression.txt", EXPRESSION);
        fixture.file("vip.json", r#" { "tag": "vip" } "#);
        fixture.file("put.json", r#"{"audience": {"tag": "vip"}}"#);
        fixture.file("preview.json", r#"{"audience": {"segment": "fans"}, "platforms": ["ios"]}"#);
        let args: Vec<&str> = line.split_whitespace().collect();
        let run = fixture.run(&args).assert_success();
        let mut calls = fixture.received().await;
        // `send` also checks whether the devices can receive anything. Other tests check these requests.
        let is_check = |call: &str| call.contains("/explain/") || call.ends_with("/preview");
        calls.retain(|(call, _)| *call == request || !is_check(call));
        assert_eq!(calls, [(request, request_body)], "{line}");
        assert_eq!(run.json(), body, "{line}");
    }
}

const TEMPLATE: &str =
    r#"{"name": "spring", "layout_id": "content_with_two", "settings": {}, "features": []}"#;

const EXPRESSION: &str = "tag = vip\n";

fn template() -> Value {
    serde_json::from_str(TEMPLATE).unwrap()
}

fn created() -> Value {
    json!({ "id": ID })
}

fn done() -> Value {
    json!({ "success": true })
}

#[tokio::test(flavor = "multi_thread")]
async fn send_makes_the_request() {
    let tomorrow = jiff::Timestamp::now().as_millisecond() + 86_400_000;
    let at_a_time = format!(
        "send --text Hi --platform ios --platform fb-messenger --tag vip --url shop://sale \
         --image-url https://e/i.png --campaign default --ttl 60 --priority normal --collapse-key k \
         --send-at {tomorrow} --per-minute 600 --canary 5 --canary-wait 60 --canary-max-failed 1 \
         --canary-pause"
    );
    check(vec![
        (
            at_a_time.as_str(),
            created(),
            "POST /v1/notifications".to_owned(),
            Some(json!({
                "text": "Hi", "platforms": ["ios", "fb-messenger"], "tags": ["vip"],
                "url": "shop://sale", "image_url": "https://e/i.png", "campaign_id": "default",
                "ttl_seconds": 60, "priority": "normal", "collapse_key": "k",
                "send_at": tomorrow, "per_minute": 600,
                "canary": {"percent": 5, "wait_seconds": 60, "max_failed_percent": 1,
                    "then": "pause"},
            })),
        ),
        (
            "send --text Hi --android-device a --android-device b --ios-device c --ios-badge 1 \
             --ios-sound default --android-title T --view-button Go --custom-json-key k \
             --custom-json-value {\"a\":1} --send-at-local 2026-01-01T09:00",
            created(),
            "POST /v1/notifications".to_owned(),
            Some(json!({
                "text": "Hi", "android_device_ids": ["a", "b"], "ios_device_ids": ["c"],
                "ios_settings": {"badge": 1, "sound": "default"},
                "android_settings": {"title": "T"},
                "social_messenger_settings": {"view_button": "Go"},
                "custom_json_key": "k", "custom_json_value": {"a": 1},
                "send_at_local": "2026-01-01T09:00",
            })),
        ),
        (
            "send --text Hi --platform telegram",
            created(),
            "POST /v1/notifications".to_owned(),
            Some(json!({ "text": "Hi", "platforms": ["chatapp"] })),
        ),
        (
            "send --text Hi --device chat-77 --device phone",
            created(),
            "POST /v1/notifications".to_owned(),
            Some(json!({ "text": "Hi", "device_ids": ["chat-77", "phone"] })),
        ),
        (
            "send --text Hi --title Shop --platform ios --translations {\"de\":{\"text\":\"Hallo\"}}",
            created(),
            "POST /v1/notifications".to_owned(),
            Some(json!({ "text": "Hi", "title": "Shop", "platforms": ["ios"],
                "translations": {"de": {"text": "Hallo"}} })),
        ),
        (
            "send --silent --platform ios --url shop://inbox",
            created(),
            "POST /v1/notifications".to_owned(),
            Some(json!({ "platforms": ["ios"], "url": "shop://inbox", "silent": true })),
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notification_commands_make_the_requests() {
    check(vec![
        (
            "report --id mine --text Hi --platform web",
            created(),
            "POST /v1/notifications/notify".to_owned(),
            Some(json!({ "id": "mine", "text": "Hi", "platforms": ["web"] })),
        ),
        (
            "notifications pause mine/1",
            done(),
            "POST /v1/notifications/mine%2F1/pause".to_owned(),
            None,
        ),
        (
            "notifications resume mine/1",
            done(),
            "POST /v1/notifications/mine%2F1/resume".to_owned(),
            None,
        ),
        (
            "notifications cancel mine/1",
            done(),
            "DELETE /v1/notifications/mine%2F1".to_owned(),
            None,
        ),
        (
            "notifications list --limit 2 --cursor c",
            json!({ "notifications": [], "next_cursor": null }),
            "GET /v1/notifications?limit=2&cursor=c".to_owned(),
            None,
        ),
        (
            "notifications list --status scheduled",
            json!({ "notifications": [], "next_cursor": null }),
            "GET /v1/notifications?status=scheduled".to_owned(),
            None,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn device_commands_make_the_requests() {
    let tag = |value: bool| json!({ "name": "vip", "type": "bool", "value": value });
    check(vec![
        (
            "devices register a --platform ios --push-token t --push-disabled --ios-env sandbox \
             --timezone GMT+02:00 --language de",
            done(),
            "POST /v1/devices".to_owned(),
            Some(json!({
                "device_id": "a", "platform": "ios", "sdk_type": "ios_push", "push_token": "t",
                "push_disabled": true, "ios_env": "sandbox", "timezone": "GMT+02:00",
                "language": "de",
            })),
        ),
        (
            "devices list --platform web --tag vip",
            json!({ "devices": [], "next_cursor": null }),
            "GET /v1/devices?platform=web&tag=vip".to_owned(),
            None,
        ),
        (
            "devices list --state unregistered --token https://push.example/a+b",
            json!({ "devices": [], "next_cursor": null }),
            "GET /v1/devices?state=unregistered&push_token=https%3A%2F%2Fpush.example%2Fa%2Bb"
                .to_owned(),
            None,
        ),
        ("devices delete a/b --yes", done(), "DELETE /v1/devices/a%2Fb".to_owned(), None),
        (
            "devices tag a vip",
            done(),
            "POST /v1/devices/a/tags".to_owned(),
            Some(json!({ "tags": [tag(true)] })),
        ),
        (
            "devices tag a vip --false",
            done(),
            "POST /v1/devices/a/tags".to_owned(),
            Some(json!({ "tags": [tag(false)] })),
        ),
        ("devices untag a vip", done(), "DELETE /v1/devices/a/tags/vip".to_owned(), None),
        (
            "tags list",
            json!({ "tags": [{"name": "vip", "type": "bool", "devices": 3}], "next_cursor": null }),
            "GET /v1/tags".to_owned(),
            None,
        ),
        (
            "subscriptions create --platform chatapp --recipient-id 4711 --device-id d",
            created(),
            "POST /v1/subscriptions".to_owned(),
            Some(json!({ "platform": "chatapp", "recipient_id": "4711", "device_id": "d" })),
        ),
        (
            "subscriptions create --platform telegram --recipient-id 4711",
            created(),
            "POST /v1/subscriptions".to_owned(),
            Some(json!({ "platform": "chatapp", "recipient_id": "4711" })),
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_for_users_make_the_requests() {
    let user = json!({
        "user_id": "u/7", "attributes": {"plan": "pro"}, "created_at": 1, "updated_at": 2,
        "devices": [{"device_id": "a", "platform": "ios", "enabled": true}],
    });
    check(vec![
        (
            "users list --limit 1 --cursor c",
            json!({ "users": [user], "next_cursor": null }),
            "GET /v1/users?limit=1&cursor=c".to_owned(),
            None,
        ),
        ("users get u/7", user.clone(), "GET /v1/users/u%2F7".to_owned(), None),
        ("users show u/7", user.clone(), "GET /v1/users/u%2F7".to_owned(), None),
        (
            "users set u/7 plan=pro seats=-3 --attribute trial=true \
             --attribute zip=\"10115\" --attribute note= --remove old",
            user.clone(),
            "PATCH /v1/users/u%2F7".to_owned(),
            Some(json!({ "attributes": {
                "plan": "pro", "seats": -3, "trial": true, "zip": "10115", "note": "", "old": null,
            } })),
        ),
        ("users set u/7", user, "PATCH /v1/users/u%2F7".to_owned(), Some(json!({}))),
        ("users delete u/7 --yes", done(), "DELETE /v1/users/u%2F7".to_owned(), None),
        (
            "users delete u/7 --keep-devices --yes",
            done(),
            "DELETE /v1/users/u%2F7?devices=keep".to_owned(),
            None,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_for_devices_of_users_make_the_requests() {
    let of_notification = json!({
        "users": [{"user_id": null, "state": "reached", "devices": 1}], "next_cursor": null,
    });
    check(vec![
        (
            "devices login a/b u/7",
            done(),
            "PUT /v1/devices/a%2Fb/user".to_owned(),
            Some(json!({ "user_id": "u/7" })),
        ),
        ("devices logout a/b", done(), "DELETE /v1/devices/a%2Fb/user".to_owned(), None),
        (
            "devices attributes a/b plan=a=b seats=2.5 --remove old --remove trial",
            done(),
            "PATCH /v1/devices/a%2Fb/attributes".to_owned(),
            Some(json!({ "plan": "a=b", "seats": 2.5, "old": null, "trial": null })),
        ),
        (
            "devices attributes a --remove old",
            done(),
            "PATCH /v1/devices/a/attributes".to_owned(),
            Some(json!({ "old": null })),
        ),
        (
            "devices list --user u/7 --segment fans",
            json!({ "devices": [], "next_cursor": null }),
            "GET /v1/devices?segment=fans&user_id=u%2F7".to_owned(),
            None,
        ),
        (
            "devices register a --platform ios --user u/7",
            done(),
            "POST /v1/devices".to_owned(),
            Some(json!({
                "device_id": "a", "platform": "ios", "sdk_type": "ios_push", "user_id": "u/7",
            })),
        ),
        (
            "subscriptions create --platform chatapp --recipient-id 4711 --user u/7",
            created(),
            "POST /v1/subscriptions".to_owned(),
            Some(json!({ "platform": "chatapp", "recipient_id": "4711", "user_id": "u/7" })),
        ),
        (
            "notifications users n --state reached --limit 2",
            of_notification,
            "GET /v1/notifications/n/users?limit=2&state=reached".to_owned(),
            None,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_for_segments_make_the_requests() {
    let vip = json!({ "tag": "vip" });
    let segment = json!({ "name": "a/b", "audience": vip, "created_at": 1, "updated_at": 2 });
    let preview = json!({ "platforms": [{"platform": "ios", "devices": 3, "exact": true}] });
    let body = json!({ "audience": vip });
    check(vec![
        (
            "segments list",
            json!({ "segments": [segment], "next_cursor": null }),
            "GET /v1/segments".to_owned(),
            None,
        ),
        ("segments get a/b", segment.clone(), "GET /v1/segments/a%2Fb".to_owned(), None),
        ("segments delete a/b --yes", done(), "DELETE /v1/segments/a%2Fb".to_owned(), None),
        (
            r#"segments set a/b {"tag":"vip"}"#,
            segment.clone(),
            "PUT /v1/segments/a%2Fb".to_owned(),
            Some(body.clone()),
        ),
        (
            "segments set a/b @expression.txt",
            segment.clone(),
            "PUT /v1/segments/a%2Fb".to_owned(),
            Some(body.clone()),
        ),
        (
            "segments set a/b @vip.json",
            segment.clone(),
            "PUT /v1/segments/a%2Fb".to_owned(),
            Some(body.clone()),
        ),
        (
            "segments set a/b --file put.json",
            segment,
            "PUT /v1/segments/a%2Fb".to_owned(),
            Some(body),
        ),
        (
            "segments preview @expression.txt --platform ios --platform web",
            preview.clone(),
            "POST /v1/segments/preview".to_owned(),
            Some(json!({ "audience": vip, "platforms": ["ios", "web"] })),
        ),
        (
            "segments preview --file preview.json",
            preview,
            "POST /v1/segments/preview".to_owned(),
            Some(json!({ "audience": {"segment": "fans"}, "platforms": ["ios"] })),
        ),
    ])
    .await;
}

/// An audience has blanks, so these commands are lists of arguments.
#[tokio::test(flavor = "multi_thread")]
async fn send_has_users_and_an_audience() {
    let seats = json!({ "attribute": "seats", "at_least": 3 });
    let (vip, fans) = (json!({ "tag": "vip" }), json!({ "segment": "fans" }));
    for (args, body) in [
        (
            vec!["--user", "u/7", "--user", "u/8"],
            json!({ "text": "Hi", "user_ids": ["u/7", "u/8"] }),
        ),
        (
            vec!["--user", "u", "--platform", "ios", "--audience", "seats >= 3"],
            json!({ "text": "Hi", "user_ids": ["u"], "platforms": ["ios"], "audience": seats }),
        ),
        (
            vec!["--platform", "ios", "--audience", "tag = vip and seats >= 3"],
            json!({ "text": "Hi", "platforms": ["ios"], "audience": {"all": [vip, seats]} }),
        ),
        (
            vec!["--platform", "ios", "--audience", r#"{"not": {"tag": "vip"}}"#],
            json!({ "text": "Hi", "platforms": ["ios"], "audience": {"not": vip} }),
        ),
        (
            vec!["--platform", "ios", "--segment", "fans"],
            json!({ "text": "Hi", "platforms": ["ios"], "audience": fans }),
        ),
        (
            vec!["--device", "a", "--segment", "fans", "--audience", "@expression.txt"],
            json!({ "text": "Hi", "device_ids": ["a"], "audience": {"all": [fans, vip]} }),
        ),
        (
            vec!["--platform", "ios", "--segment", "fans", "--audience", "tag = vip or seats >= 3"],
            json!({ "text": "Hi", "platforms": ["ios"],
                "audience": {"all": [fans, {"any": [vip, seats]}]} }),
        ),
    ] {
        let fixture = Fixture::with_body(created()).await;
        fixture.file("expression.txt", EXPRESSION);
        let run = fixture.run(&[&["send", "--text", "Hi"], &args[..]].concat());
        assert_eq!((run.status, run.json()), (0, created()), "{args:?}: {run:?}");
        let expected = ("POST /v1/notifications".to_owned(), Some(body));
        assert_eq!(fixture.received().await[0], expected, "{args:?}");
    }
    let fixture = Fixture::with_body(created()).await;
    let mut command =
        fixture.command(&["send", "--text", "Hi", "--platform", "ios", "--audience", "@-"]);
    command.write_stdin(EXPRESSION);
    common::finish(command).assert_success();
    let body = json!({ "text": "Hi", "platforms": ["ios"], "audience": vip });
    assert_eq!(fixture.received().await[0].1, Some(body));
}

/// The mark is below the position of the error.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_audience_is_not_sent() {
    let fixture = Fixture::with_body(created()).await;
    fixture.file("wrong.txt", "tag = vip\nan plan = x\n");
    let send = ["send", "--text", "Hi", "--platform", "ios", "--audience"];
    for (args, status, text) in [
        (
            [&send[..], &["platform = ios an tag = vip"]].concat(),
            2,
            "error: --audience: expected `and`, `or` or the end\n\
            \x20 platform = ios an tag = vip\n\
            \x20                ^\n",
        ),
        (
            vec!["segments", "set", "vip", "tag >= 3"],
            2,
            "error: audience: `tag` takes only `=`\n  tag >= 3\n      ^\n",
        ),
        (
            vec!["segments", "preview", "@wrong.txt"],
            2,
            "error: wrong.txt: expected `and`, `or` or the end\n  an plan = x\n  ^\n",
        ),
        (
            [&send[..], &[r#"{"any": []}"#]].concat(),
            3,
            "error: audience.any: must hold at least 1 condition\n",
        ),
        (
            vec!["segments", "set", "vip", "segment = fans"],
            3,
            "error: audience.segment: a segment must not name another segment\n",
        ),
        (
            vec!["segments", "set", "preview", "tag = vip"],
            2,
            "error: name: must not be `preview`\n",
        ),
    ] {
        let run = fixture.run(&args);
        assert_eq!((run.status, &*run.stderr), (status, text), "{args:?}");
    }
    assert!(fixture.requests().await.is_empty());
}

/// Resources are printed as the server returns them.
#[tokio::test(flavor = "multi_thread")]
async fn read_commands_make_the_requests() {
    let counts = json!({
        "targeted": 1, "sent": 1, "failed": 0, "unregistered": 0, "expired": 0, "canceled": 0,
        "pending": 0, "unknown": 0, "excluded": 0,
    });
    let notification = json!({
        "id": "mine", "status": "completed", "origin": "created", "created_at": 1, "send_at": 1,
        "started_at": 1, "completed_at": 2, "request": {"text": "Hi"}, "counts": counts,
        "paused": null, "by_platform": [], "failures": [],
        "audience": {"any": [{"tag": "vip"}, {"attribute": "seats", "at_least": 3}]},
        "users": {"named": 3, "reached": 1, "unreached": 1, "pending": 0, "unknown": 1},
        "engagement": {"received": 0, "opened": 0, "clicked": 0, "dismissed": 0},
    });
    let device = json!({
        "device_id": "a", "platform": "web", "sdk_type": null, "push_token": null,
        "push_disabled": false, "ios_env": null, "android_id": null, "ad_id": null, "imei": null,
        "sdk_version": null, "app_version": null, "os_version": null, "store_identifier": null,
        "timezone": null, "country": null, "utc_offset": null, "language": "en",
        "device_description": null, "tags": [], "user_id": "user-7", "attributes": {"seats": 3},
        "enabled": true, "disabled_reason": null,
        "subscription": {"endpoint": "https://e", "p256dh": "p", "auth": "a"},
        "created_at": 1, "updated_at": 2,
    });
    let campaign = json!({
        "id": ID, "name": "spring", "status": "active", "is_default": true, "created_at": 5,
        "template": {
            "name": "spring", "layout_id": "content_with_two",
            "settings": {
                "big_share_button": true, "small_view": true, "build_without_image": true,
                "small_share_button": true, "drag_to_expand": false,
            },
            "strings": [], "is_default": true, "features": [],
        },
    });
    let provider = json!({ "provider": "apns", "config": {"topic": "t"}, "updated_at": 1 });
    let [get_campaign, get_provider] =
        [format!("campaigns get {ID}"), format!("providers get apns --app {ID}")];
    check(vec![
        ("notifications get mine", notification, "GET /v1/notifications/mine".to_owned(), None),
        ("devices get a", device, "GET /v1/devices/a".to_owned(), None),
        (&get_campaign, campaign, format!("GET /v1/campaigns/{ID}"), None),
        (&get_provider, provider, format!("GET /admin/v1/apps/{ID}/providers/apns"), None),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn campaign_and_feed_commands_make_the_requests() {
    let path = format!("/v1/campaigns/{ID}");
    let with_id = |line: &str| line.replace("ID", ID);
    let [replace, enable, disable, delete, feed] = [
        "campaigns replace ID body.json",
        "campaigns enable ID",
        "campaigns disable ID",
        "campaigns delete ID --yes",
        "feeds delete ID --yes",
    ]
    .map(with_id);
    check(vec![
        (
            "campaigns create body.json",
            created(),
            "POST /v1/campaigns".to_owned(),
            Some(template()),
        ),
        (
            "campaigns list --name spring --status all --offset 1 --limit 2",
            json!({ "campaigns": [] }),
            "GET /v1/campaigns?offset=1&limit=2&name=spring&status=all".to_owned(),
            None,
        ),
        (&replace, done(), format!("PUT {path}"), Some(template())),
        (&enable, done(), format!("PUT {path}/status"), Some(json!({ "status": "active" }))),
        (&disable, done(), format!("PUT {path}/status"), Some(json!({ "status": "disabled" }))),
        (&delete, done(), format!("DELETE {path}"), None),
        (
            "feeds list",
            json!({ "feeds": [], "next_cursor": null }),
            "GET /v1/feeds".to_owned(),
            None,
        ),
        (&feed, done(), format!("DELETE /v1/feeds/{ID}"), None),
    ])
    .await;
}

/// If a feed with the address exists, it keeps its name, and the command prints that.
#[tokio::test(flavor = "multi_thread")]
async fn an_existing_feed_keeps_its_name() {
    const URL: &str = "https://e.example/rss";
    let keeps = "the feed `x` already has this address and keeps its name\n";
    for (current_name, text) in [("News", ""), ("x", keeps)] {
        let feed = feed(URL, current_name, "pending", None);
        let feeds = json!({ "feeds": [feed], "next_cursor": null });
        let fixture =
            Fixture::with_responses(vec![response(200, &created()), response(200, &feeds)]).await;
        let run = fixture.run(&["feeds", "create", URL, "--name", "News"]);
        assert_eq!((run.status, run.stderr.as_str()), (0, text), "{run:?}");
        assert_eq!(run.json(), created());
        let body = json!({ "url": URL, "name": "News" });
        let request = [
            ("POST /v1/feeds".to_owned(), Some(body)),
            ("GET /v1/feeds?limit=500".to_owned(), None),
        ];
        assert_eq!(fixture.received().await, request);
    }
}

fn feed(url: &str, name: &str, status: &str, error: Option<&str>) -> Value {
    json!({ "id": ID, "name": name, "url": url, "status": status, "items": 0,
        "last_fetched_at": null, "last_error": error, "created_at": 1 })
}

/// The server accepts an address that it refuses to fetch. The first fetch fails.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_feed_is_a_warning() {
    const REFUSED: &str = "the address is not allowed";
    let check = |status: &str, problems: &[&str]| json!({ "status": status, "count": 0, "items": [], "problems": problems });
    for (url, state, checked, problem) in [
        ("https://e.example/rss", ("failing", Some("status 404")), None, Some("status 404")),
        ("https://e.example/rss", ("ok", None), None, None),
        (
            "http://10.1.2.3/rss",
            ("pending", None),
            Some(check("failing", &[REFUSED])),
            Some(REFUSED),
        ),
        (
            "https://e.example:8443/rss",
            ("pending", None),
            Some(check("failing", &[REFUSED])),
            Some(REFUSED),
        ),
        // The server runs with --allow-private-networks.
        ("http://localhost/rss", ("pending", None), Some(check("ok", &["one item is cut"])), None),
    ] {
        let feeds = json!({ "feeds": [feed(url, "News", state.0, state.1)], "next_cursor": null });
        let mut answers = vec![response(200, &created()), response(200, &feeds)];
        answers.extend(checked.iter().map(|checked| response(200, checked)));
        let calls = answers.len();
        let fixture = Fixture::with_responses(answers).await;
        let run = fixture.run(&["feeds", "create", url, "--name", "News"]);
        let text = problem.map_or_else(String::new, |problem| {
            format!("warning: the server cannot read this feed: {problem}\n")
        });
        assert_eq!((run.status, &run.stderr), (0, &text), "{url}");
        assert_eq!(run.json(), created());
        let request = fixture.received().await;
        assert_eq!(request.len(), calls, "{request:?}");
        if checked.is_some() {
            let call = ("POST /v1/feeds/check".to_owned(), Some(json!({ "url": url })));
            assert_eq!(request.last(), Some(&call));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn poll_event_and_statistics_commands_make_the_requests() {
    let answer = format!("polls answer p {ID} --device d");
    check(vec![
        (
            "polls get p",
            json!({
                "id": "p", "text": "Tea?", "url": "http://a/polls/x", "layout_id": "poll_text",
                "lang": "en", "created_at": 1, "answers": [],
            }),
            "GET /v1/polls/p".to_owned(),
            None,
        ),
        (
            &answer,
            done(),
            format!("POST /v1/polls/p/answers/{ID}"),
            Some(json!({ "device_id": "d" })),
        ),
        (
            "events report --type opened --notification n --device d --at 1767323045000",
            json!({ "accepted": 1, "ignored": [] }),
            "POST /v1/events".to_owned(),
            Some(json!({ "events": [
                {
                    "type": "opened", "notification_id": "n", "device_id": "d",
                    "at": 1_767_323_045_000_i64,
                },
            ] })),
        ),
        (
            "statistics devices --from 1970-01-01T00:00:01Z --to 100000000000",
            json!({ "platforms": [], "total_enabled": 0, "total_disabled": 0, "total": 0 }),
            "GET /v1/statistics/devices?date_from=1000&date_to=100000000000".to_owned(),
            None,
        ),
        (
            "statistics notifications --from 1973-03-03T00:00:00Z --to 100000000000",
            json!({
                "days": [], "total_sent": 0, "total_failed": 0, "total_unregistered": 0,
                "total_expired": 0, "total_received": 0, "total_opened": 0,
                "total_clicked": 0, "total_dismissed": 0,
            }),
            "GET /v1/statistics/notifications?date_from=99964800000&date_to=100000000000"
                .to_owned(),
            None,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_commands_make_the_requests() {
    let with_id = |line: &str| line.replace("ID", ID);
    let [get, update, delete, create, list, revoke, providers, remove, test] = [
        "apps get ID",
        "apps update ID --status suspended",
        "apps delete ID --yes",
        "keys create --app ID --name ci --scope read,send --scope content",
        "keys list --app ID",
        "keys revoke ID --app ID --yes",
        "providers list --app ID",
        "providers delete webpush --app ID --yes",
        "providers test apns --app ID",
    ]
    .map(with_id);
    let app =
        json!({ "id": ID, "name": "Shop", "language": "en", "status": "active", "created_at": 1 });
    let path = format!("/admin/v1/apps/{ID}");
    check(vec![
        (
            "apps list",
            json!({ "apps": [app.clone()], "next_cursor": null }),
            "GET /admin/v1/apps".to_owned(),
            None,
        ),
        (&get, app, format!("GET {path}"), None),
        (&update, done(), format!("PATCH {path}"), Some(json!({ "status": "suspended" }))),
        (&delete, done(), format!("DELETE {path}"), None),
        (
            &create,
            json!({ "id": ID, "api_key": "nk_new" }),
            format!("POST {path}/keys"),
            Some(json!({ "name": "ci", "scopes": ["read", "send", "content"] })),
        ),
        (&list, json!({ "keys": [] }), format!("GET {path}/keys"), None),
        (
            &with_id("keys rotate ID --app ID"),
            json!({ "id": ID, "api_key": "nk_new" }),
            format!("POST {path}/keys/{ID}/rotate"),
            Some(json!({})),
        ),
        (
            &with_id("keys rotate ID --overlap 12h --app ID"),
            json!({ "id": ID, "api_key": "nk_new" }),
            format!("POST {path}/keys/{ID}/rotate"),
            Some(json!({ "overlap_seconds": 43_200 })),
        ),
        (
            &with_id("keys create --publishable --allow-tag news --allow-attribute plan --app ID"),
            json!({ "id": ID, "api_key": "np_new" }),
            format!("POST {path}/keys"),
            Some(json!({ "kind": "publishable", "allowed_tags": ["news"],
                "allowed_attributes": ["plan"] })),
        ),
        (
            &with_id("keys create --expires-in 2030-01-01T00:00:00Z --app ID"),
            json!({ "id": ID, "api_key": "nk_new" }),
            format!("POST {path}/keys"),
            Some(json!({ "expires_at": 1_893_456_000_000_i64 })),
        ),
        (&revoke, done(), format!("DELETE {path}/keys/{ID}"), None),
        (&providers, json!({ "providers": [] }), format!("GET {path}/providers"), None),
        (&remove, done(), format!("DELETE {path}/providers/webpush"), None),
        (
            &test,
            json!({ "ok": true, "detail": "good" }),
            format!("POST {path}/providers/apns/test"),
            None,
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_tokens_are_requested() {
    check(vec![
        (
            "devices secret phone",
            json!({ "device_id": "phone", "device_secret": "s" }),
            "POST /v1/devices/phone/secret".to_owned(),
            None,
        ),
        (
            "users token ada",
            json!({ "user_token": "nu_x", "expires_at": 1 }),
            "POST /v1/users/ada/tokens".to_owned(),
            Some(json!({})),
        ),
        (
            "users token ada --ttl 10m",
            json!({ "user_token": "nu_x", "expires_at": 1 }),
            "POST /v1/users/ada/tokens".to_owned(),
            Some(json!({ "ttl_seconds": 600 })),
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn playground_commands_make_the_requests() {
    let path = "/admin/v1/playground";
    let device = json!({ "device_id": "phone", "platform": "android", "description": "works" });
    let running = json!({ "app_id": ID, "started_at": 1, "devices": [device] });
    let mut started = running.clone();
    started["api_key"] = "nk_new".into();
    let message = json!({ "at": 1, "platform": "android", "device_id": "phone",
        "is_credential_check": false, "headers": {}, "payload": {},
        "answer": { "status": 200, "reason": null } });
    check(vec![
        ("playground start", started, format!("POST {path}"), None),
        ("playground show", running, format!("GET {path}"), None),
        (
            "playground messages",
            json!({ "messages": [message] }),
            format!("GET {path}/messages"),
            None,
        ),
        (
            "playground answer phone unavailable",
            done(),
            format!("PUT {path}/devices/phone/answer"),
            Some(json!({ "answer": "unavailable" })),
        ),
        ("playground stop", done(), format!("DELETE {path}"), None),
    ])
    .await;
}

/// If no deliveries are held, resuming changes nothing. The note explains why.
#[tokio::test(flavor = "multi_thread")]
async fn resuming_open_deliveries_prints_a_note() {
    let provider = |state: &str, services: Value| {
        let until = (state == "held").then_some(9_000);
        json!({ "provider": "fcm", "config": {}, "updated_at": 1, "channel":
            { "state": state, "reason": null, "until": until, "services": services } })
    };
    let held =
        json!([{ "service": "https://e", "state": "held", "reason": "http_403", "until": 9_000 }]);
    let mut silent = provider("open", json!([]));
    silent.as_object_mut().unwrap().remove("channel");
    for (before, text) in [
        (provider("open", json!([])), "no deliveries were held\n"),
        (provider("held", json!([])), ""),
        (provider("open", held), ""),
        (silent, ""),
    ] {
        let fixture =
            Fixture::with_responses(vec![response(200, &before), response(200, &done())]).await;
        let run = fixture.run(&["providers", "resume", "fcm", "--app", ID]);
        assert_eq!((run.status, run.stderr.as_str(), run.json()), (0, text, done()));
        let path = format!("/admin/v1/apps/{ID}/providers/fcm");
        let request = [(format!("GET {path}"), None), (format!("POST {path}/resume"), None)];
        assert_eq!(fixture.received().await, request);
    }
}

/// A disabled webhook misses events, and enabling it does not send its failed messages.
#[tokio::test(flavor = "multi_thread")]
async fn enabling_a_webhook_prints_how_to_recover_messages() {
    let text = format!(
        "events that happened while it was disabled were not kept; `notify webhooks recover {ID} \
         --since TIME` sends the messages that failed\n"
    );
    for (option, text) in [("--enable", &*text), ("--disable", ""), ("--every-event", "")] {
        let fixture = Fixture::with_body(done()).await;
        let run = fixture.run(&["webhooks", "update", ID, option]);
        assert_eq!((run.status, run.stderr.as_str(), run.json()), (0, text, done()), "{option}");
    }
}

/// If the endpoint answers a test with 410, the server disables the webhook. The command prints that.
#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_disables_the_webhook_prints_it() {
    for (status, text) in [
        (500, "status 500".to_owned()),
        (
            410,
            format!(
                "status 410; the server disabled the webhook: `notify webhooks update {ID} --enable` \
                 sends events again"
            ),
        ),
    ] {
        let attempt = json!({ "id": ID, "event": "webhook.test", "outcome": "failed", "attempts": 1,
            "status": status, "reason": null, "latency_ms": 3, "created_at": 1,
            "last_attempt_at": 1, "next_attempt_at": null });
        let fixture = Fixture::with_body(attempt.clone()).await;
        let run = fixture.run(&["webhooks", "test", ID]);
        let text = format!("error: the endpoint did not accept the message: {text}\n");
        assert_eq!((&run.stderr, run.json()), (&text, attempt));
    }
}

/// The server sends the message later, and the endpoint may refuse it again.
#[tokio::test(flavor = "multi_thread")]
async fn redelivery_prints_that_the_message_is_queued() {
    let fixture = Fixture::with_body(done()).await;
    let redeliver = ["webhooks", "redeliver", ID, ID];
    assert_eq!(fixture.run(&redeliver).assert_success().json(), done());
    let shown = fixture.run(&[&redeliver[..], &["-o", "table"]].concat()).assert_success().stdout;
    assert_eq!(shown, format!("queued; see `notify webhooks attempts {ID}`\n"));
}

/// The warning mentions an id with a comma, because the user may have meant several ids.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_to_unknown_devices_is_a_warning() {
    for (devices, unknown, text) in [
        (&["a"][..], 1, "no device has the given id"),
        (&["a", "b"], 2, "no device has one of the 2 given ids"),
        (
            &["a,b"],
            1,
            "no device has the given id; `a,b` is one id that contains a comma: repeat --device for each id",
        ),
    ] {
        let created = json!({ "id": ID, "unknown": unknown });
        let fixture = Fixture::with_body(created.clone()).await;
        let options = devices.iter().flat_map(|id| ["--device", id]);
        let args: Vec<&str> = ["send", "--text", "Hi"].into_iter().chain(options).collect();
        let run = fixture.run(&args);
        let text = format!("warning: no device receives it: {text}\n");
        assert_eq!((run.status, &run.stderr, run.json()), (0, &text, created), "{devices:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_to_unknown_users_is_a_warning() {
    for (users, unknown, text) in [
        (&["a"][..], 1, "no user has the given id"),
        (&["a", "b"], 2, "no user has one of the 2 given ids"),
        (
            &["a,b"],
            1,
            "no user has the given id; `a,b` is one id that contains a comma: repeat --user for each id",
        ),
    ] {
        let created = json!({ "id": ID, "unknown": unknown });
        let fixture = Fixture::with_body(created.clone()).await;
        let options = users.iter().flat_map(|id| ["--user", id]);
        let args: Vec<&str> = ["send", "--text", "Hi"].into_iter().chain(options).collect();
        let run = fixture.run(&args);
        let text = format!("warning: no device receives it: {text}\n");
        assert_eq!((run.status, &run.stderr, run.json()), (0, &text, created), "{users:?}");
    }
}

/// The command prints why a device receives nothing at once, so that users need not search for it later.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_warns_of_each_unreachable_device() {
    let created = json!({ "id": ID });
    let explained = |what: &str, detail: &str| {
        let step = json!({ "at": null, "what": what, "detail": detail });
        let steps = [json!({ "at": 1, "what": "targeted", "detail": "it names the device" }), step];
        response(200, &json!({ "device_id": "any", "outcome": "pending", "steps": steps }))
    };
    let fixture = Fixture::with_responses(vec![
        response(200, &created),
        explained("disabled", "push is turned off by its user now"),
        explained("enabled", "is enabled now"),
        response(404, &json!({ "errors": ["not found"] })),
        response(500, &json!({ "errors": ["internal error"] })),
    ])
    .await;
    // The ids are checked in alphabetical order, each only once.
    let args = ["send", "--text", "Hi", "--retries", "0"];
    let devices = ["--device", "a", "--ios-device", "b", "--android-device", "c", "--device", "d"];
    let run = fixture.run(&[&args[..], &devices, &["--device", "a"]].concat());
    let text = "warning: a: push is turned off by its user now\n\
        warning: c: no device has the given id\n";
    assert_eq!((run.status, &*run.stderr, run.json()), (0, text, created));
    let paths: Vec<String> = fixture.received().await.into_iter().map(|(call, _)| call).collect();
    let explain = |device: &str| format!("GET /v1/notifications/{ID}/explain/{device}");
    let each = ["a", "b", "c", "d"].map(explain);
    assert_eq!(paths, [vec!["POST /v1/notifications".to_owned()], each.to_vec()].concat());
}

/// For many devices, and for an audience, one preview returns how many devices receive nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_warns_once_of_many_devices_and_of_an_empty_audience() {
    let many: Vec<String> = (0..11).map(|nth| format!("--device=d{nth}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let tagged = ["--platform", "web", "--tag", "nosuch"];
    let user = ["--user", "a", "--user", "b"];
    let segment = ["--platform", "web", "--segment", "empty"];
    for (target, devices, unknown, warning) in [
        (&many[..], 11, None, None),
        (&many[..], 8, Some(2), Some("3 of 11 given devices receive nothing now; unknown ids: 2")),
        (
            &many[..],
            8,
            None,
            Some("3 of 11 given devices receive nothing now; `--preview` shows why"),
        ),
        (&tagged, 1, None, None),
        (&tagged, 0, None, Some("no device with that tag would receive it now; is the tag right?")),
        (&user, 1, None, None),
        (&user, 0, None, Some("no device of the given users would receive it now")),
        (&user, 2, Some(1), Some("unknown ids: 1 of 2")),
        (&segment, 5, None, None),
        (
            &segment,
            0,
            None,
            Some(
                "no device that meets the condition would receive it now; is the condition right?",
            ),
        ),
    ] {
        let created = json!({ "id": ID });
        // The warning replaces the problem of each platform.
        let problems = if devices == 0 { vec!["no device would be reached now"] } else { vec![] };
        let platform = json!({ "platform": "web", "devices": devices, "payload": {}, "headers": {},
            "bytes": 2, "limit": 4096, "problems": problems });
        let preview = match unknown {
            Some(unknown) => json!({ "platforms": [platform], "unknown": unknown }),
            None => json!({ "platforms": [platform] }),
        };
        let fixture =
            Fixture::with_responses(vec![response(200, &created), response(200, &preview)]).await;
        let run = fixture.run(&[&["send", "--text", "Hi"], target].concat());
        let warning = warning.map_or_else(String::new, |text| format!("warning: {text}\n"));
        assert_eq!((run.status, &run.stderr, run.json()), (0, &warning, created));
    }
}

/// A first notification often cannot arrive: no provider is configured, or no device is registered.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_to_a_platform_warns_of_its_problems() {
    let platform = |name: &str, devices: u64, problems: &[&str]| {
        json!({ "platform": name, "devices": devices, "payload": {}, "headers": {}, "bytes": 2,
            "limit": 4096, "problems": problems })
    };
    let (missing, nothing) = ("fcm is not configured", "no device would be reached now");
    for (platforms, warnings) in [
        (
            vec![platform("android", 0, &[missing, nothing]), platform("ios", 0, &[nothing])],
            "warning: android: fcm is not configured\n\
             warning: android: no device would be reached now\n\
             warning: ios: no device would be reached now\n",
        ),
        (
            vec![platform("android", 1, &[missing]), platform("ios", 0, &[nothing])],
            "warning: android: fcm is not configured\n",
        ),
        (vec![platform("android", 12_000, &["many devices: at most 12000"])], ""),
    ] {
        let created = json!({ "id": ID });
        let preview = json!({ "platforms": platforms });
        let fixture =
            Fixture::with_responses(vec![response(200, &created), response(200, &preview)]).await;
        let run =
            fixture.run(&["send", "--text", "Hi", "--platform", "android", "--platform", "ios"]);
        assert_eq!((run.status, &*run.stderr, run.json()), (0, warnings, created));
    }
}

/// The table of a preview has no place for unknown ids, so the command prints them as a warning.
#[tokio::test(flavor = "multi_thread")]
async fn a_preview_counts_unknown_ids() {
    let preview = json!({ "platforms": [], "unknown": 1 });
    for (devices, warning) in [
        (&["--device", "a"][..], "no device has the given id"),
        (&["--device", "a", "--ios-device", "b"], "unknown ids: 1 of 2"),
    ] {
        let fixture = Fixture::with_body(preview.clone()).await;
        let run = fixture.run(&[&["send", "--text", "Hi", "--preview"], devices].concat());
        assert_eq!((run.status, run.stderr), (0, format!("warning: {warning}\n")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_shows_the_message_of_a_device_and_every_language() {
    let payload = |text: &str| json!({ "aps": { "alert": text } });
    let german = json!({ "language": "de", "payload": payload("Hallo"), "bytes": 26, "bytes_max": 90,
        "problems": ["is long"] });
    let platform = json!({ "platform": "ios", "devices": 1, "payload": payload("Hello"), "headers": {},
        "bytes": 27, "bytes_max": 91, "limit": 4096, "problems": [], "languages": [german] });
    let fixture = Fixture::with_body(json!({ "platforms": [platform], "unknown": null })).await;
    let send = ["send", "--text", "Hello", "--platform", "ios", "--preview"];
    let more = ["--preview-device", "a/1", "-o", "table"];
    let run = fixture.run(&[&send[..], &more[..]].concat()).assert_success();
    for shown in ["Hello", "de, 26 bytes, at most 90", "Hallo", "is long"] {
        assert!(run.stdout.contains(shown), "{shown}: {}", run.stdout);
    }
    assert_eq!(
        fixture.received().await[0].0,
        "POST /v1/notifications/preview?device_id=a%2F1".to_owned()
    );
    let run = fixture.run(&["send", "--text", "Hi", "--platform", "ios", "--preview-device", "a"]);
    assert!(run.status == 2 && run.stderr.contains("--preview"), "{run:?}");
    let run = fixture.run(&[&send[..], &["--preview-device", ""]].concat());
    assert!(run.status == 2 && run.stderr.starts_with("error: --preview-device: "), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_application_beside_the_playground_is_the_default() {
    const OTHER: &str = "0190a3b2-7f00-7000-8000-000000000002";
    let [app, playground] = [(ID, "Shop"), (OTHER, "Playground")].map(|(id, name)| {
        json!({ "id": id, "name": name, "language": "en", "status": "active", "created_at": 1 })
    });
    let one = json!({ "apps": [app], "next_cursor": null });
    let fixture = Fixture::with_responses(vec![response(200, &one), response(200, &done())]).await;
    fixture.file("account.json", r#"{"type": "service_account", "private_key": "secret"}"#);
    fixture.run(&["providers", "put", "fcm", "account.json"]).assert_success();
    let config = json!({ "service_account": {"type": "service_account", "private_key": "secret"} });
    assert_eq!(
        fixture.received().await,
        [
            ("GET /admin/v1/apps?limit=3".to_owned(), None),
            (format!("PUT /admin/v1/apps/{ID}/providers/fcm"), Some(config)),
        ]
    );

    let two = json!({ "apps": [app, playground], "next_cursor": null });
    let running = json!({ "app_id": OTHER, "started_at": 1, "devices": [] });
    let responses = vec![
        response(200, &two),
        response(200, &running),
        response(200, &json!({ "keys": [], "next_cursor": null })),
    ];
    let fixture = Fixture::with_responses(responses).await;
    fixture.run(&["keys", "list"]).assert_success();
    let lines: Vec<_> = fixture.received().await.into_iter().map(|(line, _)| line).collect();
    let keys = format!("GET /admin/v1/apps/{ID}/keys");
    assert_eq!(lines, ["GET /admin/v1/apps?limit=3", "GET /admin/v1/playground", &keys]);

    let responses = vec![response(200, &two), response(404, &json!({ "errors": ["not found"] }))];
    let fixture = Fixture::with_responses(responses).await;
    let run = fixture.run(&["keys", "list"]);
    assert_eq!(run.status, 2);
    assert_eq!(
        run.stderr,
        "error: there are several applications: give --app with a name or id of `notify apps \
         list`\n"
    );
}

/// The application may be on any page of the listing.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_found_by_its_name() {
    const OTHER: &str = "0190a3b2-7f00-7000-8000-000000000002";
    let app = |id: &str, name: &str| json!({ "id": id, "name": name, "language": "en", "status": "active", "created_at": 1 });
    let page = |apps: &[Value], cursor: Option<&str>| {
        response(200, &json!({ "apps": apps, "next_cursor": cursor }))
    };
    let first = page(&[app(OTHER, "Shop 2")], Some("c"));
    let listed = [
        ("GET /admin/v1/apps?limit=500".to_owned(), None),
        ("GET /admin/v1/apps?limit=500&cursor=c".to_owned(), None),
    ];
    let shop = app(ID, "Shop");
    for (line, body, request, sent) in [
        ("keys list --app Shop", json!({ "keys": [] }), "GET /admin/v1/apps/ID/keys", None),
        ("apps get Shop", shop.clone(), "GET /admin/v1/apps/ID", None),
        (
            "apps update Shop --language de",
            done(),
            "PATCH /admin/v1/apps/ID",
            Some(json!({ "language": "de" })),
        ),
        ("apps delete Shop --yes", done(), "DELETE /admin/v1/apps/ID", None),
        (
            "providers delete fcm --app Shop --yes",
            done(),
            "DELETE /admin/v1/apps/ID/providers/fcm",
            None,
        ),
    ] {
        let second = page(std::slice::from_ref(&shop), None);
        let fixture =
            Fixture::with_responses(vec![first.clone(), second, response(200, &body)]).await;
        fixture.run(&line.split_whitespace().collect::<Vec<_>>()).assert_success();
        let [one, two] = listed.clone();
        assert_eq!(
            fixture.received().await,
            [one, two, (request.replace("ID", ID), sent)],
            "{line}"
        );
    }

    let third = "0190a3b2-7f00-7000-8000-000000000003";
    for (apps, status, text) in [
        (vec![], 5, "not found: no application has the name or id `Shop`".to_owned()),
        (
            vec![app(ID, "shop")],
            5,
            "not found: no application has the name or id `Shop`".to_owned(),
        ),
        (
            vec![app(ID, "Shop"), app(OTHER, "Shop")],
            2,
            format!("2 applications have the name `Shop`: give the id ({ID}, {OTHER})"),
        ),
        (
            vec![app(ID, "Shop"), app(OTHER, "Shop"), app(third, "Shop")],
            2,
            format!("3 applications have the name `Shop`: give the id ({ID}, {OTHER}, …)"),
        ),
    ] {
        let fixture = Fixture::with_responses(vec![page(&apps, None)]).await;
        let run = fixture.run(&["keys", "list", "--app", "Shop"]);
        assert_eq!((run.status, run.stderr), (status, format!("error: {text}\n")));
        assert_eq!(fixture.requests().await.len(), 1, "the command does nothing");
    }
}

/// Commands accept names as ids, so names must be unique.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_created_with_a_unique_name() {
    let app =
        json!({ "id": ID, "name": "Shop", "language": "en", "status": "active", "created_at": 1 });
    let page = |apps: &[Value]| response(200, &json!({ "apps": apps, "next_cursor": null }));
    let listed = ("GET /admin/v1/apps?limit=500".to_owned(), None);
    let create = ["apps", "create", "Shop", "--language", "de"];
    let if_missing = [&create[..], &["--if-missing"]].concat();
    let posted = json!({ "name": "Shop", "language": "de" });
    for args in [&create[..], &if_missing] {
        let fixture = Fixture::with_responses(vec![page(&[]), response(200, &created())]).await;
        assert_eq!(fixture.run(args).assert_success().json(), created());
        let post = ("POST /admin/v1/apps".to_owned(), Some(posted.clone()));
        assert_eq!(fixture.received().await, [listed.clone(), post]);
    }

    let fixture = Fixture::with_body(json!({ "apps": [app], "next_cursor": null })).await;
    let run = fixture.run(&create);
    let text =
        format!("error: an application has the name `Shop`: {ID}; --if-missing prints that id\n");
    assert_eq!((run.status, run.stderr), (3, text));
    assert_eq!(fixture.run(&if_missing).assert_success().json(), created());
    assert_eq!(fixture.received().await, [listed.clone(), listed], "no application is created");

    let fixture = Fixture::with_body(json!({ "apps": [app, app], "next_cursor": null })).await;
    for args in [&create[..], &if_missing] {
        let run = fixture.run(args);
        let text = "error: 2 applications have the name `Shop`\n";
        assert_eq!((run.status, &*run.stderr), (3, text));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_renamed_to_a_unique_name() {
    const OTHER: &str = "0190a3b2-7f00-7000-8000-000000000002";
    let shop =
        json!({ "id": ID, "name": "Shop", "language": "en", "status": "active", "created_at": 1 });
    let apps = response(200, &json!({ "apps": [shop], "next_cursor": null }));
    for (renamed, is_done) in [(ID, true), (OTHER, false)] {
        let fixture = Fixture::with_responses(vec![apps.clone(), response(200, &done())]).await;
        let run = fixture.run(&["apps", "update", renamed, "--name", "Shop"]);
        let text = format!("error: an application has the name `Shop`: {ID}\n");
        let expected = if is_done { (0, String::new()) } else { (3, text) };
        assert_eq!((run.status, run.stderr), expected);
        let mut request = vec![("GET /admin/v1/apps?limit=500".to_owned(), None)];
        let patch = format!("PATCH /admin/v1/apps/{renamed}");
        request.extend(is_done.then(|| (patch, Some(json!({ "name": "Shop" })))));
        assert_eq!(fixture.received().await, request);
    }
}

/// The response with status 404 does not contain the id.
#[tokio::test(flavor = "multi_thread")]
async fn not_found_errors_name_the_resource() {
    let app =
        json!({ "id": ID, "name": "Shop", "language": "en", "status": "active", "created_at": 1 });
    let device = json!({
        "device_id": "d", "platform": "ios", "sdk_type": "ios_push", "push_token": null,
        "push_disabled": false, "ios_env": null, "android_id": null, "ad_id": null, "imei": null,
        "sdk_version": null, "app_version": null, "os_version": null, "store_identifier": null,
        "timezone": null, "country": null, "utc_offset": null, "language": null,
        "device_description": null, "tags": [], "enabled": true, "disabled_reason": null,
        "created_at": 1, "updated_at": 1,
    });
    let missing = || response(404, &json!({ "errors": ["not found"] }));
    let there = |body: &Value| response(200, body);
    for (line, answers, text) in [
        (
            "devices untag d hungry nope other",
            vec![there(&done()), missing(), missing(), there(&device)],
            "`d` has no tags `nope`, `other`",
        ),
        ("devices untag d nope", vec![missing(), there(&device)], "`d` has no tag `nope`"),
        ("devices untag d nope", vec![missing(), missing()], "no device has the id `d`"),
        (
            "apps web ID",
            vec![missing(), there(&app)],
            "no page may subscribe browsers of `Shop`: --origin allows one",
        ),
        ("apps web ID", vec![missing(), missing()], "no application has the id `ID`"),
        ("enrichments get default", vec![missing()], "no campaign is the default one"),
        (
            "enrichments get ID --device d",
            vec![missing()],
            "no active campaign has the id `ID`, or no device the id `d`",
        ),
    ] {
        let fixture = Fixture::with_responses(answers).await;
        let line = line.replace("ID", ID);
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>());
        let text = format!("error: not found: {}\n", text.replace("ID", ID));
        assert_eq!((run.status, run.stderr), (5, text), "{line}");
    }
}

/// Each command prints the kind of resource and the id.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_prints_the_unknown_id() {
    const APP: &str = "no application has the id `ID`";
    const FCM: &str = "fcm is not configured in an application with the id `ID`";
    const WEBHOOK: &str = "no webhook has the id `ID`";
    const CAMPAIGN: &str = "no campaign has the id `ID`";
    const PLAYGROUND: &str = "the playground does not run: `notify playground start` starts it";
    for (line, text) in [
        ("apps get ID", APP),
        ("apps update ID --status active", APP),
        ("apps web ID --off", APP),
        ("apps web ID --origin https://a.example", APP),
        ("keys create --app ID", APP),
        ("keys list --app ID", APP),
        ("keys revoke ID --app ID --yes", "no key of the application ID has the id `ID`"),
        ("keys rotate ID --app ID", "no key of the application ID has the id `ID`"),
        ("providers list --app ID", APP),
        ("providers get fcm --app ID", FCM),
        ("providers test fcm --app ID", FCM),
        ("providers resume fcm --app ID", FCM),
        ("providers delete fcm --app ID --yes", FCM),
        ("playground show", PLAYGROUND),
        ("playground messages", PLAYGROUND),
        ("playground stop", PLAYGROUND),
        (
            "playground answer ID ok",
            "the playground does not run, or has no device with the id `ID`",
        ),
        ("polls get p", "no poll has the id `p`"),
        ("polls answer p ID", "no poll `p` has an answer with the id `ID`"),
        ("notifications deliveries n --all", "no notification has the id `n`"),
        ("webhooks update ID --disable", WEBHOOK),
        ("webhooks rotate ID", WEBHOOK),
        ("webhooks test ID", WEBHOOK),
        ("webhooks attempts ID", WEBHOOK),
        ("webhooks attempts ID --all", WEBHOOK),
        ("webhooks recover ID --since 1h", WEBHOOK),
        ("webhooks redeliver ID ID", "no webhook `ID` has a message with the id `ID`"),
        ("webhooks delete ID --yes", WEBHOOK),
        ("campaigns get ID", CAMPAIGN),
        ("campaigns enable ID", CAMPAIGN),
        ("campaigns delete ID --yes", CAMPAIGN),
        ("feeds delete ID --yes", "no feed has the id `ID`"),
        ("users get u", "no user has the id `u`"),
        ("users delete u --yes", "no user has the id `u`"),
        ("users delete u --keep-devices --yes", "no user has the id `u`"),
        ("segments get vip", "no segment has the name `vip`"),
        ("segments delete vip --yes", "no segment has the name `vip`"),
        ("devices login d u", "no device has the id `d`"),
        ("devices logout d", "no device has the id `d`"),
        ("devices attributes d plan=pro", "no device has the id `d`"),
        ("notifications users n", "no notification has the id `n`"),
        ("notifications users n --all", "no notification has the id `n`"),
    ] {
        let fixture =
            Fixture::with_responses(vec![response(404, &json!({ "errors": ["not found"] }))]).await;
        let line = line.replace("ID", ID);
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>());
        let text = format!("error: not found: {}\n", text.replace("ID", ID));
        assert_eq!((run.status, run.stderr), (5, text), "{line}");
    }
}

/// The client lists the same errors as the server.
#[tokio::test(flavor = "multi_thread")]
async fn all_errors_of_a_file_are_printed() {
    let template = r#"{"name": "", "layuot_id": "content_with_two", "features": [{"type": "x"}]}"#;
    let notification = r#"{"text": "", "platform": ["ios"], "ttl_seconds": 9999999, "url": "x"}"#;
    let id = ID;
    for (args, body, errors) in [
        (vec!["campaigns", "create"], template, ["layuot_id", "name", "layout_id"]),
        (vec!["campaigns", "replace", id], template, ["layuot_id", "name", "layout_id"]),
        (vec!["send", "--file"], notification, ["platform:", "ttl_seconds", "url"]),
    ] {
        let fixture = Fixture::with_body(created()).await;
        fixture.file("bad.json", body);
        let run = fixture.run(&[&args[..], &["bad.json"]].concat());
        assert_eq!(run.status, 3, "{run:?}");
        for error in errors {
            let is_printed =
                run.stderr.lines().any(|line| line.starts_with(&format!("error: {error}")));
            assert!(is_printed, "{error}: {run:?}");
        }
        assert!(fixture.requests().await.is_empty());
    }
}

/// A user can copy the example of the help text.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_campaign_is_valid() {
    let fixture = Fixture::with_body(created()).await;
    let help = fixture.run(&["campaigns", "create", "--help"]).assert_success().stdout;
    let (_, example) = help.split_once("Example of FILE:\n").unwrap();
    let (example, _) = example.split_once("\n\n").unwrap();
    fixture.file("example.json", example);
    fixture.run(&["campaigns", "create", "example.json"]).assert_success();
    let body: Value = serde_json::from_str(example).unwrap();
    assert_eq!(fixture.received().await, [("POST /v1/campaigns".to_owned(), Some(body))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_comes_from_standard_input() {
    let fixture = Fixture::with_body(done()).await;
    let mut command = fixture.command(&["providers", "put", "apns", "-", "--app", ID]);
    command.write_stdin(r#"{"team_id": "T", "topic": "com.example"}"#);
    common::finish(command).assert_success();
    let body = json!({ "team_id": "T", "topic": "com.example" });
    let line = format!("PUT /admin/v1/apps/{ID}/providers/apns");
    assert_eq!(fixture.received().await, [(line, Some(body))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_comes_from_a_file_or_standard_input() {
    let body = json!({ "platforms": ["ios"], "poll": {
        "text": "Tea?", "layout_id": "poll_text", "answers": [{"text": "Yes"}, {"text": "No"}],
    } });
    let fixture = Fixture::with_body(created()).await;
    fixture.file("body.json", body.to_string());
    fixture.run(&["send", "--file", "body.json", "--idempotency-key", "order-17"]).assert_success();
    let mut command = fixture.command(&["send", "--file", "-"]);
    command.write_stdin(body.to_string());
    common::finish(command).assert_success();
    let line = "POST /v1/notifications".to_owned();
    let mut calls = fixture.received().await;
    calls.retain(|(call, _)| !call.ends_with("/preview"));
    assert_eq!(calls, [(line.clone(), Some(body.clone())), (line, Some(body))]);
    assert_eq!(fixture.requests().await[0].headers["idempotency-key"], "order-17");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_subscription_is_sent_as_serialised() {
    let p256dh = format!("B{}", "A".repeat(86));
    let subscription = json!({
        "endpoint": "https://push.example/1", "expirationTime": null,
        "keys": {"p256dh": p256dh, "auth": "AAAAAAAAAAAAAAAAAAAAAA"},
    });
    let fixture = Fixture::with_body(created()).await;
    fixture.file("browser.json", subscription.to_string());
    let args = ["subscriptions", "create", "--platform", "web", "--subscription", "browser.json"];
    let run = fixture.run(&args);
    let request = fixture.received().await;
    if run.status == 3 {
        // The test's key is not a point on the curve. A version that checks this refuses the request.
        assert!(run.stderr.contains("p256dh"), "{run:?}");
        return;
    }
    let body = request[0].1.clone().unwrap();
    assert_eq!(body["platform"], "web");
    assert_eq!(body["subscription"]["endpoint"], "https://push.example/1");
}

/// The options are the fields of the provider's configuration. Secrets come from files.
#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_comes_from_options() {
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----\n";
    let account = json!({ "type": "service_account", "project_id": "shop" });
    for (line, body) in [
        (
            "apns --key AuthKey_KEY1234567.p8 --team-id T --topic com.example",
            json!({ "private_key": KEY.trim(), "key_id": "KEY1234567", "team_id": "T",
                "topic": "com.example" }),
        ),
        (
            "apns AuthKey_KEY1234567.p8 --key-id K --team-id T --topic com.example",
            json!({ "private_key": KEY, "key_id": "K", "team_id": "T", "topic": "com.example" }),
        ),
        (
            "apns apns.json --topic com.example.new",
            json!({ "team_id": "T", "topic": "com.example.new" }),
        ),
        (
            "fcm account.json --enriched-as-data",
            json!({ "service_account": account, "enriched_as_data": true }),
        ),
        ("webpush --subject mailto:a@b.example", json!({ "subject": "mailto:a@b.example" })),
        ("telegram --bot-token-file token.txt", json!({ "bot_token": "1:a" })),
        (
            "messenger --page-access-token-file token.txt --app-secret-file token.txt",
            json!({ "page_access_token": "1:a", "app_secret": "1:a" }),
        ),
    ] {
        let fixture = Fixture::with_body(done()).await;
        fixture.file("AuthKey_KEY1234567.p8", KEY);
        fixture.file("apns.json", r#"{"team_id": "T", "topic": "com.example"}"#);
        fixture.file("account.json", account.to_string());
        fixture.file("token.txt", "1:a\r\n");
        let line = format!("providers put {line} --app {ID}");
        fixture.run(&line.split_whitespace().collect::<Vec<_>>()).assert_success();
        assert_eq!(fixture.received().await[0].1, Some(body), "{line}");
    }
    for (line, error) in [
        ("apns", "no configuration: `notify providers put apns --key AuthKey_KEY1234567.p8"),
        ("telegram", "no configuration: `notify providers put telegram --bot-token-file FILE`"),
        ("fcm --topic t", "--topic is an option of apns"),
        ("apns --enriched-as-data", "--enriched-as-data is an option of fcm"),
    ] {
        let fixture = Fixture::new().await;
        let line = format!("providers put {line} --app {ID}");
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>());
        assert!(run.status == 2 && run.stderr.starts_with(&format!("error: {error}")), "{run:?}");
        assert!(fixture.received().await.is_empty());
    }
}

fn named_campaign(id: &str, name: &str) -> Value {
    json!({ "id": id, "name": name, "status": "active", "is_default": false, "created_at": 5 })
}

/// Campaigns, feeds and keys are found by their names, as applications are.
#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_found_by_its_name() {
    const OTHER: &str = "0190a3b2-7f00-7000-8000-000000000002";
    let campaigns = json!({ "campaigns": [named_campaign(OTHER, "spring sale"), named_campaign(ID, "spring")] });
    let feeds = json!({ "feeds": [feed("https://a.example/", "News", "ok", None)],
        "next_cursor": null });
    let key = |id: &str, name: &str| json!({ "id": id, "name": name, "hint": "nk_…abcd", "created_at": 1, "last_used_at": null });
    let keys = json!({ "keys": [key(OTHER, "cd"), key(ID, "ci")] });
    let rotated = json!({ "id": OTHER, "api_key": "nk_new" });
    let listing = "GET /v1/campaigns?offset=0&limit=500&name=spring&status=all";
    let keys_of_app = format!("GET /admin/v1/apps/{OTHER}/keys");
    for (line, listed, list, answer, request) in [
        ("campaigns enable spring", &campaigns, listing, done(), "PUT /v1/campaigns/ID/status"),
        ("campaigns delete spring --yes", &campaigns, listing, done(), "DELETE /v1/campaigns/ID"),
        (
            "feeds delete News --yes",
            &feeds,
            "GET /v1/feeds?limit=500",
            done(),
            "DELETE /v1/feeds/ID",
        ),
        (
            "keys rotate ci --app OTHER",
            &keys,
            &keys_of_app,
            rotated,
            "POST /admin/v1/apps/OTHER/keys/ID/rotate",
        ),
        (
            "keys revoke ci --app OTHER --yes",
            &keys,
            &keys_of_app,
            done(),
            "DELETE /admin/v1/apps/OTHER/keys/ID",
        ),
        (
            "admin-keys revoke ci --yes",
            &keys,
            "GET /admin/v1/keys",
            done(),
            "DELETE /admin/v1/keys/ID",
        ),
    ] {
        let with_ids = |text: &str| text.replace("OTHER", OTHER).replace("ID", ID);
        let responses = vec![response(200, listed), response(200, &answer)];
        let fixture = Fixture::with_responses(responses).await;
        fixture.run(&with_ids(line).split_whitespace().collect::<Vec<_>>()).assert_success();
        let received = fixture.received().await;
        let lines: Vec<&str> = received.iter().map(|(line, _)| line.as_str()).collect();
        assert_eq!(lines, [list, &with_ids(request)], "{line}");
    }
}

/// A campaign with another name is another campaign, and two with the same name are an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_is_found_by_its_whole_name() {
    const OTHER: &str = "0190a3b2-7f00-7000-8000-000000000002";
    let campaigns = json!({ "campaigns": [named_campaign(OTHER, "spring sale"), named_campaign(ID, "spring")] });
    let responses = vec![
        response(200, &campaigns),
        response(200, &created()),
        response(200, &json!({"platforms": []})),
    ];
    let fixture = Fixture::with_responses(responses).await;
    let line = ["send", "--text", "Hi", "--platform", "all", "--campaign", "spring"];
    fixture.run(&line).assert_success();
    let sent = fixture.received().await[1].1.clone().unwrap();
    assert_eq!(sent["campaign_id"], ID);
    let all = json!(["android", "ios", "web", "fb-messenger", "chatapp"]);
    assert_eq!(sent["platforms"], all);

    for (listed, status, text) in [
        (
            json!({ "campaigns": [named_campaign(OTHER, "spring sale")] }),
            5,
            "not found: no campaign has the name or id `spring`",
        ),
        (
            json!({ "campaigns": [named_campaign(OTHER, "spring"), named_campaign(ID, "spring")] }),
            2,
            "2 campaigns have the name `spring`: give the id (",
        ),
    ] {
        let fixture = Fixture::with_responses(vec![response(200, &listed)]).await;
        let run = fixture.run(&["campaigns", "get", "spring"]);
        assert_eq!(run.status, status, "{run:?}");
        assert!(run.stderr.starts_with(&format!("error: {text}")), "{run:?}");
    }
}

/// One word is the name of a segment; everything else is a condition.
#[tokio::test(flavor = "multi_thread")]
async fn a_segment_is_previewed_by_its_name() {
    for (audience, sent) in [
        ("customers", json!({ "segment": "customers" })),
        ("segment = customers", json!({ "segment": "customers" })),
        ("tag = vip", json!({ "tag": "vip" })),
        ("tag=vip", json!({ "tag": "vip" })),
    ] {
        let fixture = Fixture::with_body(json!({ "platforms": [] })).await;
        fixture.run(&["segments", "preview", audience]).assert_success();
        assert_eq!(fixture.received().await[0].1.clone().unwrap()["audience"], sent, "{audience}");
    }
    // What is no condition may be a name with blanks.
    let segment = json!({ "name": "active customers", "audience": {"tag": "vip"}, "created_at": 1,
        "updated_at": 1 });
    let none = response(200, &json!({ "platforms": [] }));
    let responses = vec![response(200, &segment), none.clone(), none];
    let fixture = Fixture::with_responses(responses).await;
    fixture.run(&["segments", "preview", "active customers"]).assert_success();
    let sent = json!({ "segment": "active customers" });
    assert_eq!(fixture.received().await[1].1.clone().unwrap()["audience"], sent);
    let fixture =
        Fixture::with_responses(vec![response(404, &json!({ "errors": ["not found"] }))]).await;
    let run = fixture.run(&["segments", "preview", "active customers"]);
    assert_eq!(run.status, 2, "{run:?}");
}

/// A script whose variable is empty must not read every device.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_filter_is_refused() {
    for line in [
        &["devices", "list", "--user"][..],
        &["devices", "list", "--tag"],
        &["devices", "list", "--token"],
        &["devices", "list", "--segment"],
        &["devices", "export", "--tag"],
        &["notifications", "deliveries", "n", "--reason"],
        &["send", "--text", "t", "--platform", "ios", "--tag"],
        &["send", "--text", "t", "--platform", "ios", "--segment"],
        &["send", "--text", "t", "--platform", "ios", "--audience"],
        &["send", "--text", "t", "--user"],
        &["send", "--text", "t", "--device"],
        &["explain", "n", "--user"],
        &["audit", "--app"],
        &["tail", "--type"],
    ] {
        let fixture = Fixture::new().await;
        let run = fixture.run(&[line, &[""]].concat());
        assert!(run.status != 0, "{line:?}: {run:?}");
        let is_read = |line: &str| line.contains("/v1/devices") || line.starts_with("POST");
        let received = fixture.received().await;
        assert!(!received.iter().any(|(line, _)| is_read(line)), "{line:?}: {received:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_comes_from_standard_input() {
    for (input, text) in [("Hi\n", "Hi"), ("Hi\r\n", "Hi"), ("a\nb\n\n", "a\nb\n"), ("Hi", "Hi")] {
        let fixture = Fixture::with_body(json!({ "id": ID, "platforms": [] })).await;
        let mut command = fixture.command(&["send", "--text", "-", "--platform", "ios"]);
        command.write_stdin(input);
        common::finish(command).assert_success();
        assert_eq!(fixture.received().await[0].1.clone().unwrap()["text"], text);
    }
    let fixture = Fixture::with_body(json!({ "id": ID, "platforms": [] })).await;
    fixture.run(&["send", "--text", "-5% today", "--platform", "ios"]).assert_success();
    assert_eq!(fixture.received().await[0].1.clone().unwrap()["text"], "-5% today");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_is_sent() {
    let fixture = Fixture::with_body(json!({ "id": ID, "platforms": [] })).await;
    let line = ["send", "--poll", "Pizza or pasta?", "--answer", "Pizza", "--answer", "-2 Pasta"];
    let image = ["--image-url", "https://e/a.png", "--platform", "ios"];
    fixture.run(&[&line[..], &image].concat()).assert_success();
    let poll = json!({ "text": "Pizza or pasta?", "layout_id": "poll_text",
        "image_url": "https://e/a.png", "answers": [{ "text": "Pizza" }, { "text": "-2 Pasta" }] });
    let body = json!({ "platforms": ["ios"], "poll": poll });
    assert_eq!(fixture.received().await[0].1, Some(body));
    for wrong in [&["send", "--poll", "a?"][..], &["send", "--text", "t", "--answer", "a"]] {
        assert_eq!(fixture.run(&[wrong, &["--platform", "ios"]].concat()).status, 2, "{wrong:?}");
    }
}

/// A variable without `--personalize`, of which people would read the braces, and a time in the past.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_sender_did_not_mean_is_a_warning() {
    let fixture = Fixture::with_body(json!({ "id": ID, "platforms": [] })).await;
    for (line, warning) in [
        (
            "--text {{first_name|you}}",
            "warning: people see `{{first_name|you}}` itself: --personalize (in a file, \
             `personalize`) replaces it with the attribute\n",
        ),
        ("--text {{first_name|you}} --personalize", ""),
        (
            "--text Hi --send-at 2020-01-01T00:00:00Z",
            "warning: send_at is in the past, so it is sent at once\n",
        ),
    ] {
        let line: Vec<_> =
            ["send", "--platform", "ios"].into_iter().chain(line.split(' ')).collect();
        let run = fixture.run(&line);
        assert_eq!((run.status, &*run.stderr), (0, warning), "{line:?}");
    }
}
