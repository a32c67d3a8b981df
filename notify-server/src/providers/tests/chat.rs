//! Messenger and Telegram against the sandbox: the requests that they get, and their answers.

use std::time::Duration;

use notify_core::{Message, ProviderKind, Timestamp};
use serde_json::{Value, json};

use super::{NOW, describe, fixture, prepare_message};
use crate::providers::{Address, ProviderLimit, RenderedMessage, SendResult, SharedProvider};
use notify_sandbox::{
    Fault, Provider, ScriptedResponse, Settings, messenger_recipient, telegram_chat,
};

const URL: &str = "https://n.example/o";
const IMAGE: &str = "https://i.example/1.png";

fn text(provider: &SharedProvider) -> RenderedMessage {
    prepare_message(provider, Message { text: "Hello".to_owned(), ..Message::default() })
}

fn with_photo(provider: &SharedProvider) -> RenderedMessage {
    let message = Message {
        text: "Hello".to_owned(),
        url: Some(URL.to_owned()),
        image_url: Some(IMAGE.to_owned()),
        ..Message::default()
    };
    prepare_message(provider, message)
}

fn person(recipient: &str) -> Address {
    Address::Messenger { recipient: recipient.into(), last_inbound_at: None }
}

fn chat(chat: &str) -> Address {
    Address::Telegram { chat: chat.into() }
}

/// A configuration whose endpoint speaks plain HTTP/1.1.
fn plainly(mut config: Value) -> Value {
    let endpoint = config["endpoint"].as_str().unwrap().replace("https://", "http://");
    config["endpoint"] = json!(endpoint);
    config
}

#[tokio::test]
async fn messenger_requests_are_valid_over_http2_and_http1() {
    let fixture = fixture().await;
    fixture.sandbox.set(Settings { messenger_requires_proof: true, ..Settings::default() });
    let config = fixture.sandbox.messenger_config();
    for config in [config.clone(), plainly(config.clone())] {
        let messenger = fixture.build(ProviderKind::Messenger, &config);
        let answer = messenger.attempt(&with_photo(&messenger), &person("4711")).await;
        let SendResult::Delivered { message_id: Some(id) } = answer else {
            panic!("not delivered: {answer:?}");
        };
        assert!(id.starts_with("m_"), "{id}");
    }
    let journal = fixture.sandbox.received();
    assert_eq!(journal.len(), 2);
    for received in journal {
        assert_eq!(received.token.as_deref(), Some("4711"));
        assert_eq!(received.headers["content-type"], "application/json");
        let element = &received.payload["message"]["attachment"]["payload"]["elements"][0];
        assert_eq!((&element["title"], &element["image_url"]), (&json!("Hello"), &json!(IMAGE)));
    }
    let mut without = config;
    without.as_object_mut().unwrap().remove("app_secret");
    let messenger = fixture.build(ProviderKind::Messenger, &without);
    let answer = messenger.attempt(&text(&messenger), &person("4711")).await;
    assert_eq!(describe(&answer), "bad invalid_parameter (100)", "the proof is missed");
}

#[tokio::test]
async fn every_error_of_messenger_is_classified() {
    let fixture = fixture().await;
    let messenger = fixture.build(ProviderKind::Messenger, &fixture.sandbox.messenger_config());
    let prepared = text(&messenger);
    let rows = [
        ("temporary", "retry temporarily_unavailable (1200) Failed"),
        ("service", "retry service_unavailable (2) Failed"),
        ("unknown", "retry unknown_error (1) Failed"),
        ("permission", "config permission_missing (1/99)"),
        ("applimit", "throttle app_limit (4) Provider"),
        ("phonelimit", "throttle phone_number_limit (4/2018022) Provider"),
        ("userlimit", "throttle user_limit (17) Provider"),
        ("pagelimit", "throttle page_limit (32) Provider"),
        ("customlimit", "throttle custom_limit (613) Provider"),
        ("messengerlimit", "throttle messenger_limit (80006) Provider"),
        ("bothersome", "policy abuse_warning (613/1893016)"),
        ("window", "policy outside_messaging_window (10/2018278)"),
        ("policy", "policy outside_messaging_window (10/2018065)"),
        ("cannot", "policy person_cannot_receive (10/2018108)"),
        ("unavailable", "policy person_not_available (551/1545041)"),
        ("blocked", "policy person_not_available (200/1545041)"),
        ("nouser", "dead no_such_user (100/2018001) ambiguous"),
        ("empty", "bad message_empty (100/2018034)"),
        ("invalid", "bad invalid_parameter (100)"),
        ("token", "config access_token_refused (190)"),
        ("uninstalled", "config access_token_refused (190/458)"),
        ("password", "config access_token_refused (190/460)"),
        ("expired", "config access_token_refused (190/463)"),
        ("revoked", "config access_token_refused (190/467)"),
        ("notlive", "config app_not_live (200/2018028)"),
        ("noadvanced", "config permission_missing (200/2018027)"),
        ("nophone", "config permission_missing (200/2018021)"),
        ("nopermission", "config permission_missing (200)"),
        ("denied", "config permission_missing (10)"),
        ("subscription", "config permission_missing (230)"),
        ("suspended", "config blocked_for_policy (368)"),
        ("429", "throttle http_429 Provider"),
        ("502", "retry http_502 Failed"),
        ("504", "retry http_504 Failed"),
    ];
    for (word, expected) in rows {
        let answer = messenger.attempt(&prepared, &person(&format!("24-{word}"))).await;
        assert_eq!(describe(&answer), expected, "{word}");
    }
    let mut unauthorized = fixture.sandbox.messenger_config();
    unauthorized["page_access_token"] = json!("EAAunauthorized");
    let unauthorized = fixture.build(ProviderKind::Messenger, &unauthorized);
    let answer = unauthorized.attempt(&prepared, &person("24")).await;
    assert_eq!(describe(&answer), "config access_token_refused (190)");
}

/// A refused button or image costs the button or the image, and not the message.
#[tokio::test]
async fn messenger_gets_the_text_alone_if_it_refuses_a_part() {
    let fixture = fixture().await;
    let messenger = fixture.build(ProviderKind::Messenger, &fixture.sandbox.messenger_config());
    for word in ["toolarge", "button", "template"] {
        let person = person(&format!("24-{word}"));
        let answer = messenger.attempt(&with_photo(&messenger), &person).await;
        assert_eq!(describe(&answer), "delivered", "{word}");
        let received = fixture.sandbox.received();
        let [.., card, plain] = &received[..] else { panic!("two messages: {received:?}") };
        assert!(card.payload["message"]["attachment"].is_object(), "{word}: {card:?}");
        let text = format!("Hello\n{URL}\n{IMAGE}");
        assert_eq!(plain.payload["message"], json!({"text": text}), "{word}");
    }
    // The cause was not a part.
    let answer = messenger.attempt(&with_photo(&messenger), &person("24-invalid")).await;
    assert_eq!(describe(&answer), "bad invalid_parameter (100)");
    let before = fixture.sandbox.received().len();
    messenger.attempt(&text(&messenger), &person("24-invalid")).await;
    assert_eq!(fixture.sandbox.received().len(), before + 1, "a text has no plainer form");
}

#[tokio::test]
async fn message_outside_the_24_hour_window_is_not_sent() {
    let fixture = fixture().await;
    let messenger = fixture.build(ProviderKind::Messenger, &fixture.sandbox.messenger_config());
    let prepared = text(&messenger);
    let day = 24 * 60 * 60 * 1_000;
    let at = |ms: i64| Some(Timestamp(ms));
    let rows = [
        (None, "delivered"),
        (at(NOW.as_ms()), "delivered"),
        (at(NOW.as_ms() - day), "delivered"),
        (at(NOW.as_ms() - day - 1), "policy outside_messaging_window"),
        (at(0), "policy outside_messaging_window"),
    ];
    let mut asked = 0;
    for (last_inbound_at, expected) in rows {
        let address = Address::Messenger { recipient: "4711".into(), last_inbound_at };
        let answer = messenger.attempt(&prepared, &address).await;
        assert_eq!(describe(&answer), expected, "{last_inbound_at:?}");
        asked += usize::from(expected == "delivered");
        assert_eq!(fixture.sandbox.received().len(), asked, "{last_inbound_at:?}");
    }
}

#[tokio::test]
async fn page_respects_its_quota() {
    let fixture = fixture().await;
    let config = fixture.sandbox.messenger_config();
    let messenger = fixture.build(ProviderKind::Messenger, &config);
    let again = fixture.build(ProviderKind::Messenger, &config);
    let prepared = text(&messenger);
    assert_eq!(messenger.limit(NOW), ProviderLimit::PerSecond(30));
    let until = |minutes: i64| ProviderLimit::Exhausted { until: NOW.plus_ms(minutes * 60_000) };
    let rows = [
        (10, 0, ProviderLimit::PerSecond(30)),
        (90, 0, ProviderLimit::PerSecond(14)),
        (100, 12, until(12)),
    ];
    for (percent, minutes, expected) in rows {
        fixture.sandbox.set(Settings {
            messenger_usage_percent: percent,
            messenger_regain_minutes: minutes,
            ..Settings::default()
        });
        let answer = messenger.attempt(&prepared, &person("4711")).await;
        assert_eq!(describe(&answer), "delivered");
        for provider in [&messenger, &again] {
            assert_eq!(provider.limit(NOW), expected, "{percent}: one page, one quota");
        }
    }
    let answer = messenger.attempt(&prepared, &person("24~messengerlimit")).await;
    let SendResult::Throttle { after, .. } = answer else { panic!("not throttled: {answer:?}") };
    assert_eq!(after, Some(Duration::from_secs(12 * 60)), "as long as the header says");
    fixture.sandbox.set(Settings::default());
    let other = fixture.build(
        ProviderKind::Messenger,
        &json!({"page_access_token": "another", "endpoint": config["endpoint"],
            "ca_certificate": config["ca_certificate"]}),
    );
    assert_eq!(other.limit(NOW), ProviderLimit::PerSecond(30));
}

#[tokio::test]
async fn exhausted_page_without_a_time_backs_off() {
    let fixture = fixture().await;
    let messenger = fixture.build(ProviderKind::Messenger, &fixture.sandbox.messenger_config());
    let prepared = text(&messenger);
    fixture.sandbox.set(Settings { messenger_usage_percent: 100, ..Settings::default() });
    for minutes in [1, 2, 4, 8] {
        let answer = messenger.attempt(&prepared, &person("24~messengerlimit")).await;
        let SendResult::Throttle { after: Some(after), .. } = answer else {
            panic!("not throttled: {answer:?}")
        };
        assert_eq!(after, Duration::from_secs(60 * minutes));
        fixture.advance(after);
    }
}

#[tokio::test]
async fn configured_rate_replaces_the_default() {
    let fixture = fixture().await;
    let rows = [
        (ProviderKind::Messenger, fixture.sandbox.messenger_config(), 30),
        (ProviderKind::Telegram, fixture.sandbox.telegram_config(), 25),
    ];
    for (kind, mut config, pace) in rows {
        assert_eq!(fixture.build(kind, &config).limit(NOW), ProviderLimit::PerSecond(pace));
        config["rate_per_second"] = json!(200);
        assert_eq!(
            fixture.build(kind, &config).limit(NOW),
            ProviderLimit::PerSecond(200),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn telegram_requests_are_valid_over_http2_and_http1() {
    let fixture = fixture().await;
    let config = fixture.sandbox.telegram_config();
    for config in [config.clone(), plainly(config)] {
        let telegram = fixture.build(ProviderKind::Telegram, &config);
        assert_eq!(telegram.limit(NOW), ProviderLimit::PerSecond(25));
        let answer = telegram.attempt(&with_photo(&telegram), &chat("-100123")).await;
        let SendResult::Delivered { message_id: Some(id) } = answer else {
            panic!("not delivered: {answer:?}");
        };
        assert!(id.parse::<u32>().is_ok(), "{id}");
    }
    let journal = fixture.sandbox.received();
    assert_eq!(journal.len(), 2);
    for received in journal {
        let button = json!({"text": "View", "url": URL});
        let expected = json!({
            "chat_id": "-100123",
            "photo": IMAGE,
            "caption": "Hello",
            "reply_markup": {"inline_keyboard": [[button]]},
        });
        assert_eq!(received.payload, expected);
    }
}

#[tokio::test]
async fn a_topic_of_a_group_gets_its_message() {
    let fixture = fixture().await;
    let telegram = fixture.build(ProviderKind::Telegram, &fixture.sandbox.telegram_config());
    let answer = telegram.attempt(&text(&telegram), &chat("-100123/42")).await;
    assert!(matches!(answer, SendResult::Delivered { .. }), "{answer:?}");
    let journal = fixture.sandbox.received();
    let expected = json!({"chat_id": "-100123", "message_thread_id": 42, "text": "Hello"});
    assert_eq!(journal[0].payload, expected);
    assert_eq!(journal[0].token.as_deref(), Some("-100123/42"));
    let answer = telegram.attempt(&text(&telegram), &chat("-24-migrated/42")).await;
    assert_eq!(describe(&answer), "moved to -10024/42");
}

#[tokio::test]
async fn every_error_of_telegram_is_classified() {
    let fixture = fixture().await;
    let telegram = fixture.build(ProviderKind::Telegram, &fixture.sandbox.telegram_config());
    let prepared = text(&telegram);
    let rows = [
        ("blocked", "dead bot_was_blocked"),
        ("deactivated", "dead user_is_deactivated"),
        ("kicked", "dead bot_was_kicked"),
        ("notmember", "dead bot_is_not_a_member"),
        ("deleted", "dead chat_was_deleted"),
        ("neverstarted", "dead chat_was_never_started ambiguous"),
        ("notfound", "dead chat_not_found ambiguous"),
        ("notopic", "dead topic_not_found"),
        ("topicclosed", "bad topic_is_closed"),
        ("migrated", "moved to -10024"),
        ("empty", "bad text_is_empty"),
        ("toolong", "bad text_is_too_long"),
        ("unauthorized", "config http_401"),
        ("badtoken", "config http_401"),
        ("notthere", "config http_404"),
        ("nomethod", "config http_404"),
        ("conflict", "retry http_409 Failed"),
        ("internal", "retry http_500 Failed"),
        ("timeout", "retry http_504 Failed"),
        ("502", "retry http_502 Failed"),
    ];
    for (word, expected) in rows {
        let answer = telegram.attempt(&prepared, &chat(&format!("24-{word}"))).await;
        assert_eq!(describe(&answer), expected, "{word}");
    }
    let mut unauthorized = fixture.sandbox.telegram_config();
    for (token, expected) in [("1:unauthorized", "config http_401"), ("none", "config http_404")] {
        unauthorized["bot_token"] = json!(token);
        let unauthorized = fixture.build(ProviderKind::Telegram, &unauthorized);
        assert_eq!(describe(&unauthorized.attempt(&prepared, &chat("24")).await), expected);
    }
}

#[tokio::test]
async fn refused_photo_is_sent_as_a_link_within_the_attempt() {
    let fixture = fixture().await;
    let telegram = fixture.build(ProviderKind::Telegram, &fixture.sandbox.telegram_config());
    let prepared = with_photo(&telegram);
    for word in ["photo", "fetch", "dimensions", "parse"] {
        let to = format!("24-{word}");
        assert_eq!(describe(&telegram.attempt(&prepared, &chat(&to)).await), "delivered", "{word}");
        let journal = fixture.sandbox.received();
        let [.., photo, plain] = &journal[..] else { panic!("two calls") };
        assert_eq!((photo.status, &photo.payload["photo"]), (400, &json!(IMAGE)));
        let button = json!({"text": "View", "url": URL});
        let expected = json!({
            "chat_id": to,
            "text": format!("Hello\n{IMAGE}"),
            "reply_markup": {"inline_keyboard": [[button]]},
        });
        assert_eq!((plain.status, &plain.payload), (200, &expected), "{word}");
    }
    // The plain text is refused as well, so there is no further try.
    let rule =
        notify_sandbox::Rule::on(Provider::Telegram, ScriptedResponse::reason("fetch")).token("25");
    fixture.sandbox.add_rule(rule).unwrap();
    let before = fixture.sandbox.received().len();
    let answer = telegram.attempt(&prepared, &chat("25")).await;
    assert_eq!(describe(&answer), "bad photo_cannot_be_fetched");
    assert_eq!(fixture.sandbox.received().len(), before + 2);
}

#[tokio::test]
async fn refused_buttons_are_left_out_within_the_attempt() {
    let fixture = fixture().await;
    let telegram = fixture.build(ProviderKind::Telegram, &fixture.sandbox.telegram_config());
    let prepared = with_photo(&telegram);
    for word in ["button", "markup"] {
        let to = format!("24-{word}");
        assert_eq!(describe(&telegram.attempt(&prepared, &chat(&to)).await), "delivered", "{word}");
        let journal = fixture.sandbox.received();
        let [.., refused, accepted] = &journal[..] else { panic!("two calls") };
        assert_eq!(refused.status, 400);
        assert!(refused.payload.get("reply_markup").is_some());
        let expected = json!({"chat_id": to, "photo": IMAGE, "caption": "Hello"});
        assert_eq!((accepted.status, &accepted.payload), (200, &expected), "{word}");
    }
    // Photo and buttons are refused, one after the other. Without both there is nothing left to leave out.
    let once = ScriptedResponse::reason("fetch").first(1);
    let rule = notify_sandbox::Rule::on(Provider::Telegram, once).token("26-button");
    fixture.sandbox.add_rule(rule).unwrap();
    let before = fixture.sandbox.received().len();
    assert_eq!(describe(&telegram.attempt(&prepared, &chat("26-button")).await), "delivered");
    let journal = fixture.sandbox.received();
    assert_eq!(journal.len(), before + 3);
    let expected = json!({"chat_id": "26-button", "text": format!("Hello\n{IMAGE}")});
    assert_eq!(journal.last().unwrap().payload, expected);
    let rule = notify_sandbox::Rule::on(Provider::Telegram, ScriptedResponse::reason("button"));
    fixture.sandbox.add_rule(rule.token("27")).unwrap();
    let answer = telegram.attempt(&prepared, &chat("27")).await;
    assert_eq!(describe(&answer), "bad button_url_is_invalid");
    assert_eq!(fixture.sandbox.received().len(), before + 5);
}

#[tokio::test]
async fn throttle_is_per_chat_until_three_chats_get_it() {
    let fixture = fixture().await;
    let telegram = fixture.build(ProviderKind::Telegram, &fixture.sandbox.telegram_config());
    let prepared = text(&telegram);
    let send = async |seed: u64| {
        let to = telegram_chat(seed, &ScriptedResponse::reason("flood").retry_after(7));
        let answer = telegram.attempt(&prepared, &chat(&to)).await;
        let SendResult::Throttle { after, .. } = answer else {
            panic!("not throttled: {answer:?}")
        };
        assert_eq!(after, Some(Duration::from_secs(8)), "a second more than asked for");
        describe(&answer)
    };
    let rows = [
        (1, "throttle http_429 Address"),
        (1, "throttle http_429 Address"),
        (2, "throttle http_429 Address"),
        (3, "throttle http_429 Provider"),
    ];
    for (seed, expected) in rows {
        assert_eq!(send(seed).await, expected, "{seed}");
    }
    fixture.advance(Duration::from_secs(1));
    assert_eq!(send(4).await, "throttle http_429 Address");
}

#[tokio::test(start_paused = true)]
async fn cut_after_sending_is_an_unknown_outcome() {
    let fixture = fixture().await;
    let messenger = fixture.sandbox.messenger_config();
    let telegram = fixture.sandbox.telegram_config();
    let fault = ScriptedResponse::fault;
    let rows = [
        (fault(Fault::Reset), "retry reset: INTERNAL_ERROR Unknown"),
        (fault(Fault::Cut), "retry connection_cut Unknown"),
        (fault(Fault::Refuse), "retry refused_stream NotProcessed"),
        (fault(Fault::Refuse).first(1), "delivered"),
    ];
    for (wanted, expected) in &rows {
        let provider = fixture.build(ProviderKind::Messenger, &messenger);
        let to = person(&messenger_recipient(1, wanted));
        let answer = provider.attempt(&text(&provider), &to).await;
        assert_eq!(describe(&answer), *expected, "messenger {wanted:?}");
        let provider = fixture.build(ProviderKind::Telegram, &telegram);
        let to = chat(&telegram_chat(1, wanted));
        let answer = provider.attempt(&text(&provider), &to).await;
        assert_eq!(describe(&answer), *expected, "telegram {wanted:?}");
    }
    let provider = fixture.build(ProviderKind::Telegram, &plainly(telegram));
    let to = chat(&telegram_chat(2, &fault(Fault::Cut)));
    let answer = provider.attempt(&text(&provider), &to).await;
    assert_eq!(describe(&answer), "retry connection_cut Unknown", "over HTTP/1.1");
}

#[tokio::test]
async fn responses_never_contain_a_token() {
    let fixture = fixture().await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "https"] {
        let endpoint = format!("{scheme}://{closed}");
        let rows = [
            (
                ProviderKind::Messenger,
                json!({"page_access_token": "EAA0secret", "app_secret": "s3cret",
                    "endpoint": endpoint}),
                person("1"),
            ),
            (
                ProviderKind::Telegram,
                json!({"bot_token": "1:secret", "endpoint": endpoint}),
                chat("1"),
            ),
        ];
        for (kind, config, address) in rows {
            let provider = fixture.build(kind, &config);
            let prepared = text(&provider);
            let answer = provider.attempt(&prepared, &address).await;
            let shown = format!("{answer:?} {prepared:?}");
            assert!(describe(&answer).ends_with("NotProcessed"), "{kind} {scheme}: {shown}");
            assert!(!shown.contains("secret") && !shown.contains("bot1"), "{kind}: {shown}");
        }
    }
}
