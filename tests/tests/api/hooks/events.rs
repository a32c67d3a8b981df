//! Inbound events: people become devices, leave and return, and answer polls.

use futures_util::future::join_all;
use notify_tests::{TestServer, logged, until};
use serde_json::{Value, json};

use super::{call, devices, event, from_meta, from_telegram, hooked, member, message, press};

const BROUGHT: &str = "n1fQFbYcbTUuBk7u3xC4_A-phone";

/// A poll of the first application, to people of these platforms.
async fn poll(server: &TestServer) -> String {
    let body = json!({"platforms": ["fb-messenger", "chatapp"], "send_at": notify_tests::NOW.0 + 1_000_000,
        "poll": {"text": "Tea?", "layout_id": "poll_text",
            "answers": [{"text": "yes"}, {"text": "no"}]}});
    server.caller().post("/v1/notifications", &body).await.id()
}

/// What the button of each answer carries, as `POST /v1/notifications` sends it.
async fn buttons(server: &TestServer, poll: &str) -> [String; 2] {
    let read = server.caller().get(&format!("/v1/polls/{poll}")).await.ok();
    [0, 1].map(|place| format!("poll:{poll}:{}", read["answers"][place]["id"].as_str().unwrap()))
}

async fn clicks(server: &TestServer, poll: &str) -> Vec<u64> {
    let poll = server.caller().get(&format!("/v1/polls/{poll}")).await.ok();
    let answers = poll["answers"].as_array().unwrap().iter();
    answers.map(|answer| answer["clicks"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_message_to_the_page_registers_its_sender_as_a_device() {
    let (server, app) = hooked().await;
    let body = call(&[event("7", &json!({"message": {"mid": "m1", "text": "hi"}}))]);
    for _ in 0..3 {
        assert_eq!(from_meta(&server, &app, body.clone()).await.ok(), json!({"success": true}));
    }
    let listed = devices(&server).await;
    assert_eq!(listed.len(), 1, "a replay is harmless");
    assert_eq!(
        (&listed[0]["platform"], &listed[0]["recipient_id"]),
        (&json!("fb-messenger"), &json!("7"))
    );
    assert_eq!((&listed[0]["enabled"], &listed[0]["tags"]), (&json!(true), &json!([])));
    let subscribe = json!({"platform": "fb-messenger", "recipient_id": "7"});
    let id = server.caller().post("/v1/subscriptions", &subscribe).await.id();
    assert_eq!(listed[0]["device_id"], id, "the same address is the same device");
}

#[tokio::test]
async fn a_start_link_gives_a_new_chat_an_unused_device_id() {
    let (server, app) = hooked().await;
    let start = format!("/start {BROUGHT}");
    from_telegram(&server, &app, message(42, &start, 9)).await.ok();
    let device = server.caller().get(&format!("/v1/devices/{BROUGHT}")).await.ok();
    assert_eq!((&device["platform"], &device["recipient_id"]), (&json!("chatapp"), &json!("42")));
    assert_eq!(device["language"], "de");
    // Another person with the same link, and the first one with another link.
    from_telegram(&server, &app, message(43, &start, 8)).await.ok();
    let other = "0190a7c0-0000-4000-8000-00000000ffff";
    from_telegram(&server, &app, message(42, &format!("/start {other}"), 7)).await.ok();
    let device = server.caller().get(&format!("/v1/devices/{BROUGHT}")).await.ok();
    assert_eq!(device["recipient_id"], "42", "a link takes no id from another chat");
    server.caller().get(&format!("/v1/devices/{other}")).await.is(404);
    let listed = devices(&server).await;
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[1]["recipient_id"], "43");

    let body = call(&[event(
        "7",
        &json!({"postback": {"payload": "GET_STARTED",
        "referral": {"ref": "my-own-page-id-of-22-letters"}}}),
    )]);
    from_meta(&server, &app, body).await.ok();
    let device = server.caller().get("/v1/devices/my-own-page-id-of-22-letters").await.ok();
    assert_eq!(device["recipient_id"], "7");
}

#[tokio::test]
async fn a_chat_that_blocks_the_bot_is_disabled_until_it_starts_it_again() {
    let (server, app) = hooked().await;
    let is_enabled = async || {
        let device = devices(&server).await.remove(0);
        let reason = &device["disabled_reason"];
        assert_eq!(reason.is_null(), device["enabled"] == true, "{device}");
        assert!(reason.is_null() || reason == "unregistered", "{device}");
        device["enabled"] == true
    };
    for (update, enabled) in [
        (message(42, "/start", 90), true),
        (member(42, "kicked", 80), false),
        (message(42, "/start", 90), false),
        (message(42, "/start", 70), true),
        (member(42, "kicked", 80), true),
        (member(42, "kicked", 60), false),
        (member(42, "member", 50), true),
    ] {
        from_telegram(&server, &app, update.clone()).await.ok();
        assert_eq!(is_enabled().await, enabled, "{update}");
    }
    assert_eq!(devices(&server).await.len(), 1);
}

#[tokio::test]
async fn a_button_press_is_counted_and_acknowledged() {
    let (server, app) = hooked().await;
    let poll = poll(&server).await;
    let [yes, no] = buttons(&server, &poll).await;
    let yes = press(42, &yes);
    let answered = json!({"method": "answerCallbackQuery", "callback_query_id": "q-1"});
    for _ in 0..2 {
        assert_eq!(from_telegram(&server, &app, yes.clone()).await.ok(), answered);
    }
    for data in [no.clone(), format!("poll:{poll}:{poll}"), "more".to_owned()] {
        assert_eq!(from_telegram(&server, &app, press(42, &data)).await.ok(), answered, "{data}");
    }
    assert_eq!(clicks(&server, &poll).await, [1, 0], "one answer a device");
    let no = event("7", &json!({"postback": {"payload": no}}));
    from_meta(&server, &app, call(&[no.clone(), no])).await.ok();
    assert_eq!(clicks(&server, &poll).await, [1, 1]);
    // The same device through the API has answered already.
    let read = server.caller().get(&format!("/v1/polls/{poll}")).await.ok();
    let answer = read["answers"][0]["id"].as_str().unwrap();
    let vote = json!({"device_id": devices(&server).await[0]["device_id"]});
    server.caller().post(&format!("/v1/polls/{poll}/answers/{answer}"), &vote).await.ok();
    assert_eq!(clicks(&server, &poll).await, [1, 1]);
}

#[tokio::test]
async fn concurrent_presses_count_once_per_device() {
    const PEOPLE: i64 = 6;
    let (server, app) = hooked().await;
    let poll = poll(&server).await;
    let buttons = buttons(&server, &poll).await;
    let presses = (0..6 * PEOPLE).map(|nth| {
        let (server, app, buttons) = (&server, &app, &buttons);
        async move {
            let person = nth % PEOPLE;
            let data = if nth / PEOPLE % 2 == 0 { &buttons[0] } else { &buttons[1] };
            if person % 2 == 0 {
                from_telegram(server, app, press(person, data)).await.ok();
            } else {
                let press = json!({"postback": {"payload": data}});
                from_meta(server, app, call(&[event(&person.to_string(), &press)])).await.ok();
            }
        }
    });
    join_all(presses).await;
    assert_eq!(clicks(&server, &poll).await.iter().sum::<u64>(), PEOPLE.unsigned_abs());
    assert_eq!(i64::try_from(devices(&server).await.len()), Ok(PEOPLE));
}

#[tokio::test]
async fn a_large_batch_is_stored_completely() {
    const PEOPLE: usize = 200;
    let (server, app) = hooked().await;
    let events: Vec<Value> = (0..PEOPLE)
        .map(|nth| event(&nth.to_string(), &json!({"message": {"mid": "m"}})))
        .chain([json!({"sender": 7}), json!("something else")])
        .collect();
    let body = call(&events);
    for _ in 0..2 {
        // Slow storage answers 503. The platform then calls again, and what was stored stays.
        let answer = until("the batch is stored", async || {
            let answer = from_meta(&server, &app, body.clone()).await;
            Ok((answer.status != 503).then_some(answer))
        });
        answer.await.unwrap().ok();
    }
    let counted = server.caller().get("/v1/statistics/devices").await.ok();
    assert_eq!(counted["total_enabled"], PEOPLE);
}

#[tokio::test]
async fn signed_events_of_unknown_form_are_accepted_and_logged() {
    let (server, app) = hooked().await;
    let bodies = ["", "{", "\u{feff}{}", "[1,2", "{\"object\":\"page\"", "\u{1}"];
    let before = logged().matches("body of a webhook call is not JSON").count();
    for body in bodies {
        assert_eq!(from_meta(&server, &app, body).await.ok(), json!({"success": true}), "{body}");
        assert_eq!(
            from_telegram(&server, &app, body).await.ok(),
            json!({"success": true}),
            "{body}"
        );
    }
    from_meta(&server, &app, vec![0xff, 0xfe]).await.ok();
    let log = logged();
    let lines: Vec<_> =
        log.lines().filter(|line| line.contains("body of a webhook call is not JSON")).collect();
    assert!(lines.len() > before + 2 * bodies.len(), "a line each");
    assert!(lines.iter().any(|line| line.contains(&app) && line.contains("messenger")));
    for body in ["null", "[]", "{}", "7", "{\"update_id\": 1, \"poll\": {}}"] {
        from_meta(&server, &app, body).await.ok();
        from_telegram(&server, &app, body).await.ok();
    }
    assert_eq!(devices(&server).await, Vec::<Value>::new());
}

#[tokio::test]
async fn events_that_cannot_be_stored_are_503_and_accepted_later() {
    let (server, app) = hooked().await;
    server.store().close().await;
    let refused = from_telegram(&server, &app, message(42, "/start", 1)).await;
    refused.is(503);
    assert!(!refused.header("retry-after").is_empty());
}

#[tokio::test]
async fn events_change_only_their_own_application() {
    let (server, app) = hooked().await;
    let (other, caller) = server.create_app("other").await;
    super::configure(&server.admin(), &other, "telegram", &super::telegram_config()).await;
    let poll = poll(&server).await;
    let [yes, _] = buttons(&server, &poll).await;
    from_telegram(&server, &other, press(42, &yes)).await.ok();
    assert_eq!(clicks(&server, &poll).await, [0, 0]);
    assert_eq!(devices(&server).await, Vec::<Value>::new());
    let theirs = caller.get("/v1/devices").await.ok();
    assert_eq!(theirs["devices"].as_array().unwrap().len(), 1);
    from_telegram(&server, &app, press(42, &yes)).await.ok();
    assert_eq!(clicks(&server, &poll).await, [1, 0]);
}
