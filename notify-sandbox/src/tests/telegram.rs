//! The messages that the fake Bot API refuses, the selection of each error of the table, and the rate limits.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, Request};
use super::{NOW_S, start};
use crate::{Fault, Provider, Rule, Sandbox, ScriptedResponse, Settings, telegram_chat};

fn call(sandbox: &Sandbox, method: &str, parameters: &Value) -> Request {
    let config = sandbox.telegram_config();
    let token = config["bot_token"].as_str().unwrap();
    Request::post(&format!("/telegram/bot{token}/{method}"))
        .header("content-type", "application/json")
        .json(parameters)
}

fn send(sandbox: &Sandbox, chat: &str) -> Request {
    call(sandbox, "sendMessage", &json!({"chat_id": chat, "text": "hello"}))
}

fn failed(code: u16, description: &str) -> Value {
    json!({"ok": false, "error_code": code, "description": description})
}

fn keyboard(button: &Value) -> Value {
    json!({"inline_keyboard": [[button]]})
}

#[tokio::test]
async fn each_form_of_a_message_is_accepted_and_shown() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let open = keyboard(&json!({"text": "View", "url": "https://example.com"}));
    let vote = keyboard(&json!({"text": "Tea", "callback_data": "x".repeat(64)}));
    let photo = "https://example.com/i.png";
    let calls = [
        ("sendMessage", json!({"chat_id": "123", "text": "ü".repeat(4_096)})),
        ("sendmessage", json!({"chat_id": 123, "text": "t", "reply_markup": open})),
        ("sendMessage", json!({"chat_id": "@channel", "text": "t", "reply_markup": vote})),
        ("sendPhoto", json!({"chat_id": "-100123", "photo": photo, "caption": "x".repeat(1_024)})),
    ];
    for (method, parameters) in &calls {
        let response = client.send(call(&sandbox, method, parameters)).await.unwrap();
        assert_eq!((response.status, &response.body["ok"]), (200, &json!(true)), "{parameters}");
        assert!(response.body["result"]["message_id"].is_u64(), "{}", response.body);
        assert_eq!(response.body["result"]["date"], NOW_S);
    }
    let log = sandbox.received();
    let chats: Vec<_> = log.iter().map(|message| message.token.as_deref().unwrap()).collect();
    assert_eq!(chats, ["123", "123", "@channel", "-100123"]);
    for (received, (_, parameters)) in log.iter().zip(&calls) {
        assert_eq!((received.provider, &received.payload), (Provider::Telegram, parameters));
    }
    let me = client.send(call(&sandbox, "getMe", &json!({}))).await.unwrap();
    assert_eq!((me.status, &me.body["result"]["is_bot"]), (200, &json!(true)));
    let token = sandbox.telegram_config()["bot_token"].as_str().unwrap().to_owned();
    assert!(!format!("{log:?}").contains(&token), "no credential is kept");
}

#[tokio::test]
async fn each_broken_rule_is_named() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let message = |name: &str, value: Value| {
        let mut parameters = json!({"chat_id": "1", "text": "t"});
        parameters[name] = value;
        ("sendMessage", parameters)
    };
    let photo = |name: &str, value: Value| {
        let mut parameters = json!({"chat_id": "1", "photo": "https://example.com/i.png"});
        parameters[name] = value;
        ("sendPhoto", parameters)
    };
    let button = |button: Value| message("reply_markup", keyboard(&button));
    let many = vec![json!([{"text": "t", "callback_data": "d"}]); 101];
    let rows = [
        (message("chat_id", json!(null)), "chat_id is empty"),
        (message("chat_id", json!("name")), "chat not found"),
        (message("message_thread_id", json!("x")), "message thread not found"),
        (message("message_thread_id", json!(1)), "message thread not found"),
        (message("text", json!(" ")), "message text is empty"),
        (message("text", json!("x".repeat(4_097))), "message is too long"),
        (message("text", json!(7)), "can't parse field \"text\": it must be a String"),
        (message("parse_mode", json!("XML")), "unsupported parse_mode"),
        (photo("photo", json!("file.png")), "wrong file identifier/HTTP URL specified"),
        (photo("caption", json!("x".repeat(1_025))), "message caption is too long"),
        (message("reply_markup", json!({})), "can't parse reply keyboard markup JSON object"),
        (message("reply_markup", json!({"inline_keyboard": many})), "reply markup is too long"),
        (button(json!({"text": "t", "url": "shop://x"})), "BUTTON_URL_INVALID"),
        (button(json!({"text": "t", "callback_data": "x".repeat(65)})), "BUTTON_DATA_INVALID"),
        (
            button(json!({"text": "", "callback_data": "x"})),
            "can't parse inline keyboard button: Text buttons must have non-empty text",
        ),
        (
            button(json!({"text": "t"})),
            "can't parse inline keyboard button: exactly one of the optional fields must be used",
        ),
    ];
    for ((method, parameters), rule) in rows {
        let response = client.send(call(&sandbox, method, &parameters)).await.unwrap();
        let expected = (400, failed(400, &format!("Bad Request: {rule}")));
        assert_eq!((response.status, response.body), expected, "{parameters}");
    }
}

#[tokio::test]
async fn a_call_needs_the_bot_s_token_and_a_method() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let send = send(&sandbox, "1");
    let rows = [
        ("/telegram/bot1:wrong/sendMessage", 401, "Unauthorized"),
        ("/telegram/botwrong/sendMessage", 404, "Not Found"),
        ("/telegram/sendMessage", 404, "Not Found"),
    ];
    for (path, status, description) in rows {
        let response = client.send(send.clone().path(path)).await.unwrap();
        assert_eq!(
            (response.status, response.body),
            (status, failed(status, description)),
            "{path}"
        );
    }
    let response = client.send(call(&sandbox, "sendDice", &json!({}))).await.unwrap();
    assert_eq!(response.body, failed(404, "Not Found: method not found"));
}

#[tokio::test]
async fn a_chat_can_script_every_error_of_telegram() {
    let rows = [
        ("blocked", 403, "Forbidden: bot was blocked by the user"),
        ("deactivated", 403, "Forbidden: user is deactivated"),
        ("kicked", 403, "Forbidden: bot was kicked from the supergroup chat"),
        ("notmember", 403, "Forbidden: bot is not a member of the channel chat"),
        ("deleted", 403, "Forbidden: the group chat was deleted"),
        ("neverstarted", 403, "Forbidden: bot can't initiate conversation with a user"),
        ("notfound", 400, "Bad Request: chat not found"),
        ("notopic", 400, "Bad Request: message thread not found"),
        ("topicclosed", 400, "Bad Request: TOPIC_CLOSED"),
        ("empty", 400, "Bad Request: message text is empty"),
        ("toolong", 400, "Bad Request: message is too long"),
        ("unauthorized", 401, "Unauthorized"),
        ("badtoken", 401, "Unauthorized: invalid token specified"),
        ("notthere", 404, "Not Found"),
        ("nomethod", 404, "Not Found: method not found"),
        ("conflict", 409, "Conflict: terminated by other getUpdates request"),
        ("internal", 500, "Internal Server Error"),
        ("timeout", 504, "Gateway Timeout"),
        ("400", 400, "Bad Request: message text is empty"),
        ("403", 403, "Forbidden: bot was blocked by the user"),
        ("500", 500, "Internal Server Error"),
    ];
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    for (word, status, description) in rows {
        let response = client.send(send(&sandbox, &format!("7~{word}"))).await.unwrap();
        assert_eq!(
            (response.status, response.body),
            (status, failed(status, description)),
            "{word}"
        );
    }
    for (chat, seconds) in [("7-flood", 5), ("7-429:60", 60), ("-7-429:1", 1)] {
        let response = client.send(send(&sandbox, chat)).await.unwrap();
        let mut expected = failed(429, &format!("Too Many Requests: retry after {seconds}"));
        expected["parameters"] = json!({"retry_after": seconds});
        assert_eq!(response.header("retry-after"), Some(seconds.to_string().as_str()));
        assert_eq!((response.status, response.body), (429, expected), "{chat}");
    }
    let moved = client.send(send(&sandbox, "-77-migrated")).await.unwrap();
    let mut expected = failed(400, "Bad Request: group chat was upgraded to a supergroup chat");
    expected["parameters"] = json!({"migrate_to_chat_id": -10_077});
    assert_eq!(moved.body, expected);
    assert_eq!(client.send(send(&sandbox, "-10077")).await.unwrap().status, 200);
    // The id of a group starts with `-` but is not a script.
    assert_eq!(client.send(send(&sandbox, "-403")).await.unwrap().status, 200);
    let page = client.send(send(&sandbox, "7-502")).await.unwrap();
    assert_eq!((page.status, page.header("content-type")), (502, Some("text/html")));
}

#[tokio::test]
async fn a_photo_is_refused_where_a_text_passes() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let rows = [
        ("photo", "wrong type of the web page content"),
        ("fetch", "failed to get HTTP URL content"),
        ("dimensions", "PHOTO_INVALID_DIMENSIONS"),
        ("parse", "can't parse entities: Unexpected end of text"),
    ];
    for (word, rule) in rows {
        let chat = format!("7~{word}");
        let photo = json!({"chat_id": chat, "photo": "https://example.com/i.png"});
        let response = client.send(call(&sandbox, "sendPhoto", &photo)).await.unwrap();
        assert_eq!(response.body, failed(400, &format!("Bad Request: {rule}")));
        assert_eq!(client.send(send(&sandbox, &chat)).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn buttons_are_refused_where_a_text_passes() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    for (word, rule) in [("button", "BUTTON_URL_INVALID"), ("markup", "reply markup is too long")] {
        let chat = format!("7-{word}");
        let button = json!({"text": "t", "url": "https://example.com"});
        let message = json!({"chat_id": chat, "text": "x", "reply_markup": keyboard(&button)});
        let response = client.send(call(&sandbox, "sendMessage", &message)).await.unwrap();
        assert_eq!(response.body, failed(400, &format!("Bad Request: {rule}")));
        assert_eq!(client.send(send(&sandbox, &chat)).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn limits_hold_for_the_bot_for_a_chat_and_for_a_group() {
    let (sandbox, clock) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let mut send_many = async |chat: &str, count: usize| {
        let mut waits = Vec::new();
        for _ in 0..count {
            let response = client.send(send(&sandbox, chat)).await.unwrap();
            waits.push(response.body["parameters"]["retry_after"].as_u64());
        }
        (waits.iter().filter(|wait| wait.is_none()).count(), waits.pop().unwrap())
    };
    sandbox.set(Settings { telegram_per_second: 0, telegram_chat_burst: 3, ..Settings::default() });
    assert_eq!(send_many("1", 4).await, (3, Some(1)));
    assert_eq!(send_many("2", 1).await, (1, None), "another chat");
    clock.advance(Duration::from_secs(2));
    assert_eq!(send_many("1", 3).await, (2, Some(1)));
    assert_eq!(send_many("-1", 21).await, (20, Some(3)), "20 a minute");
    sandbox.set(Settings { telegram_per_second: 4, telegram_chat_burst: 0, ..Settings::default() });
    assert_eq!(send_many("3", 5).await, (4, Some(1)), "of the bot");
    sandbox.set(Settings { telegram_per_second: 0, telegram_chat_burst: 0, ..Settings::default() });
    assert_eq!(send_many("3", 100).await, (100, None), "none");
}

#[tokio::test]
async fn a_rule_names_a_keyword_or_its_own_description() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let blocked = Rule::on(Provider::Telegram, ScriptedResponse::reason("blocked").first(1));
    sandbox.add_rule(blocked.token("24")).unwrap();
    let own = ScriptedResponse {
        status: Some(403),
        ..ScriptedResponse::reason("Forbidden: something new")
    };
    sandbox.add_rule(Rule::on(Provider::Telegram, own.first(1)).token("24")).unwrap();
    assert_eq!(client.send(send(&sandbox, "25")).await.unwrap().status, 200);
    for description in ["Forbidden: bot was blocked by the user", "Forbidden: something new"] {
        let response = client.send(send(&sandbox, "24")).await.unwrap();
        assert_eq!((response.status, response.body), (403, failed(403, description)));
    }
    assert_eq!(client.send(send(&sandbox, "24")).await.unwrap().status, 200);
    let unknown = Rule::on(Provider::Telegram, ScriptedResponse::reason("nonsense"));
    assert!(sandbox.add_rule(unknown).is_err());
}

#[tokio::test]
async fn chats_are_built_for_a_response() {
    let rows = [
        (ScriptedResponse::ok(), "5000000007"),
        (ScriptedResponse::reason("blocked"), "5000000007~blocked"),
        (ScriptedResponse::reason("migrated"), "5000000007~migrated"),
        (ScriptedResponse::status(429).retry_after(3).first(1), "5000000007~429:3x1"),
        (ScriptedResponse::fault(Fault::Reset), "5000000007~reset"),
    ];
    for (answer, expected) in rows {
        assert_eq!(telegram_chat(7, &answer), expected);
    }
}
