//! The messages that the fake Send API refuses, and the selection of each error of the table.

use std::time::Duration;

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use super::client::{Client, Request};
use super::start;
use crate::{Fault, Provider, Rule, Sandbox, ScriptedResponse, Settings, messenger_recipient};

const PATH: &str = "/messenger/v25.0/me/messages";

fn send_body(sandbox: &Sandbox, body: &Value) -> Request {
    let token = sandbox.messenger_config()["page_access_token"].as_str().unwrap().to_owned();
    Request::post(PATH)
        .header("authorization", &format!("Bearer {token}"))
        .header("content-type", "application/json")
        .json(body)
}

fn body(recipient: &str, message: &Value) -> Value {
    json!({"recipient": {"id": recipient}, "messaging_type": "UPDATE", "message": message})
}

fn send(sandbox: &Sandbox, recipient: &str) -> Request {
    send_body(sandbox, &body(recipient, &json!({"text": "hello"})))
}

fn generic(element: &Value) -> Value {
    let payload = json!({"template_type": "generic", "elements": [element]});
    json!({"attachment": {"type": "template", "payload": payload}})
}

fn buttons(buttons: &Value) -> Value {
    let payload = json!({"template_type": "button", "text": "t", "buttons": buttons});
    json!({"attachment": {"type": "template", "payload": payload}})
}

#[tokio::test]
async fn each_form_of_a_message_is_accepted_and_shown() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let postback = json!({"type": "postback", "title": "Tea", "payload": "poll:1:2"});
    let view = json!({"type": "web_url", "title": "View", "url": "https://example.com"});
    let forms = [
        json!({"text": "x".repeat(2_000)}),
        json!({"text": "t", "quick_replies": [
            {"content_type": "text", "title": "Tea", "payload": "p"},
        ]}),
        json!({"attachment": {"type": "image", "payload": {"url": "https://example.com/i.png"}}}),
        buttons(&json!([postback, view])),
        generic(&json!({"title": "x".repeat(80), "image_url": "https://example.com/i.png"})),
        generic(&json!({
            "title": "t",
            "subtitle": "s",
            "default_action": {"type": "web_url", "url": "https://example.com"},
            "buttons": [view, postback, view],
        })),
    ];
    for message in &forms {
        let response = client.send(send_body(&sandbox, &body("4711", message))).await.unwrap();
        assert_eq!(response.status, 200, "{message}: {}", response.body);
        assert_eq!(response.body["recipient_id"], "4711");
        let id = response.body["message_id"].as_str().unwrap();
        assert!(id.starts_with("m_"), "{id}");
        assert_eq!(response.header("x-app-usage"), None);
    }
    let log = sandbox.received();
    for (received, message) in log.iter().zip(&forms) {
        assert_eq!(received.provider, Provider::Messenger);
        assert_eq!(received.token.as_deref(), Some("4711"));
        assert_eq!(received.payload, body("4711", message));
        assert_eq!(received.headers["authorization"], "Bearer ***");
    }
    assert_eq!(log.len(), forms.len());
}

#[tokio::test]
async fn each_broken_rule_is_named() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let long = |chars: usize| "x".repeat(chars);
    let at = "message[attachment][payload]";
    let at_button = format!("{at}[buttons][0]");
    let at_element = format!("{at}[elements][0]");
    let too_long =
        |what: &str, max| format!("Length of param {what} must be less than or equal to {max}");
    let postback = |title: &str, payload: &str| {
        buttons(&json!([{"type": "postback", "title": title, "payload": payload}]))
    };
    let rows = [
        (json!({"text": long(2_001)}), too_long("message[text]", 2_000)),
        (json!({"text": 7}), "Param message[text] must be a string".to_owned()),
        (
            json!({"text": "t", "attachment": {}}),
            "Only one of text and attachment may be set".to_owned(),
        ),
        (
            json!({"text": "t", "url": "x"}),
            "Invalid keys \"url\" were found in param \"message\".".to_owned(),
        ),
        (postback("", "p"), format!("Param {at_button}[title] must be a non-empty string")),
        (postback(&long(21), "p"), too_long(&format!("{at_button}[title]"), 20)),
        (postback("t", &long(1_001)), too_long(&format!("{at_button}[payload]"), 1_000)),
        (buttons(&json!([])), format!("Param {at}[buttons] must be an array of 1 to 3")),
        (
            buttons(&json!([{"type": "web_url", "title": "t", "url": "shop://x"}])),
            format!("Param {at_button}[url] should represent a valid URL"),
        ),
        (
            generic(&json!({"title": "t"})),
            format!("Param {at_element} must have more than a title"),
        ),
        (
            generic(&json!({"title": long(81), "subtitle": "s"})),
            too_long(&format!("{at_element}[title]"), 80),
        ),
        (
            generic(&json!({"title": "t", "subtitle": long(81)})),
            too_long(&format!("{at_element}[subtitle]"), 80),
        ),
        (
            generic(&json!({"title": "t", "default_action":
                {"type": "web_url", "url": "https://e.example", "title": "x"}})),
            format!("Invalid keys \"title\" were found in param \"{at_element}[default_action]\"."),
        ),
        (
            json!({"text": "t", "quick_replies": vec![json!({}); 14]}),
            "Param message[quick_replies] must be an array of 1 to 13".to_owned(),
        ),
    ];
    for (message, rule) in rows {
        let response = client.send(send_body(&sandbox, &body("4711", &message))).await.unwrap();
        let error = json!({
            "message": format!("(#100) {rule}"), "type": "OAuthException", "code": 100,
            "fbtrace_id": "ASandboxTrace",
        });
        assert_eq!((response.status, response.body), (400, json!({"error": error})), "{message}");
    }
}

#[tokio::test]
async fn what_is_missing_or_not_allowed_any_more_is_refused() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let rows = [
        (json!({"recipient": {"id": "1"}, "message": {"text": "t"}}), 100, None),
        (json!({"recipient": {"id": "1"}, "messaging_type": "NEWS", "message": {}}), 100, None),
        // Meta has removed the tags that allowed messages at any time.
        (
            json!({"recipient": {"id": "1"}, "messaging_type": "MESSAGE_TAG",
                "tag": "ACCOUNT_UPDATE", "message": {"text": "t"}}),
            100,
            None,
        ),
        (body("1", &json!({})), 100, Some(2_018_034)),
        (body("1", &json!({"text": ""})), 100, Some(2_018_034)),
        (body("name", &json!({"text": "t"})), 100, Some(2_018_001)),
    ];
    for (body, code, subcode) in rows {
        let response = client.send(send_body(&sandbox, &body)).await.unwrap();
        let error = &response.body["error"];
        let codes = (error["code"].as_u64(), error.get("error_subcode").and_then(Value::as_u64));
        assert_eq!(codes, (Some(code), subcode), "{body}: {}", response.body);
    }
}

#[tokio::test]
async fn a_call_needs_the_page_s_token_and_a_right_proof() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let config = sandbox.messenger_config();
    let [token, secret] =
        ["page_access_token", "app_secret"].map(|name| config[name].as_str().unwrap().to_owned());
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let proof = hmac::sign(&key, token.as_bytes());
    let proof: String = proof.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let send = || send(&sandbox, "4711");
    let with_proof = |proof: &str| send().path(&format!("{PATH}?appsecret_proof={proof}"));
    let in_query = format!("{PATH}?access_token={token}");
    let rows = [
        ("no token", send().without("authorization"), 401, Some(190)),
        ("another token", send().header("authorization", "Bearer x"), 401, Some(190)),
        ("in the query", send().without("authorization").path(&in_query), 200, None),
        ("a wrong proof", with_proof("00"), 400, Some(100)),
        ("the right proof", with_proof(&proof), 200, None),
        ("another page", send().path("/messenger/v25.0/1/messages"), 400, Some(2500)),
        ("no version", send().path("/messenger/me/messages"), 400, Some(2500)),
        ("another version", send().path("/messenger/v26.1/me/messages"), 200, None),
        ("no post", send().method(http::Method::PUT), 400, Some(2500)),
    ];
    for (name, request, status, code) in rows {
        let response = client.send(request).await.unwrap();
        let found = response.body["error"]["code"].as_u64();
        assert_eq!((response.status, found), (status, code), "{name}: {}", response.body);
    }
    sandbox.set(Settings { messenger_requires_proof: true, ..Settings::default() });
    assert_eq!(client.send(send()).await.unwrap().status, 400);
    assert_eq!(client.send(with_proof(&proof)).await.unwrap().status, 200);
    let page = Request::get("/messenger/v25.0/me")
        .path(&format!("/messenger/v25.0/me?appsecret_proof={proof}"))
        .header("authorization", &format!("Bearer {token}"));
    let page = client.send(page).await.unwrap();
    assert_eq!((page.status, &page.body["name"]), (200, &json!("Notify sandbox")));
    let shown = format!("{:?}", sandbox.received());
    assert!(!shown.contains(&token) && !shown.contains(&proof), "no credential is kept");
}

#[tokio::test]
async fn a_recipient_can_script_every_error_of_meta() {
    let rows = [
        ("temporary", 500, 1200, 0),
        ("service", 500, 2, 0),
        ("unknown", 500, 1, 0),
        ("permission", 400, 1, 99),
        ("applimit", 400, 4, 0),
        ("phonelimit", 400, 4, 2_018_022),
        ("userlimit", 400, 17, 0),
        ("pagelimit", 400, 32, 0),
        ("customlimit", 400, 613, 0),
        ("messengerlimit", 400, 80_006, 0),
        ("bothersome", 400, 613, 1_893_016),
        ("window", 403, 10, 2_018_278),
        ("policy", 403, 10, 2_018_065),
        ("cannot", 403, 10, 2_018_108),
        ("unavailable", 400, 551, 1_545_041),
        ("blocked", 403, 200, 1_545_041),
        ("nouser", 400, 100, 2_018_001),
        ("empty", 400, 100, 2_018_034),
        ("invalid", 400, 100, 0),
        ("token", 401, 190, 0),
        ("uninstalled", 401, 190, 458),
        ("password", 401, 190, 460),
        ("expired", 401, 190, 463),
        ("revoked", 401, 190, 467),
        ("notlive", 403, 200, 2_018_028),
        ("noadvanced", 403, 200, 2_018_027),
        ("nophone", 403, 200, 2_018_021),
        ("nopermission", 403, 200, 0),
        ("denied", 403, 10, 0),
        ("subscription", 403, 230, 0),
        ("suspended", 400, 368, 0),
        ("400", 400, 100, 0),
        ("401", 401, 190, 463),
        ("403", 403, 10, 0),
        ("500", 500, 1200, 0),
    ];
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    for (word, status, code, subcode) in rows {
        let response = client.send(send(&sandbox, &format!("24~{word}"))).await.unwrap();
        let error = &response.body["error"];
        assert_eq!((response.status, &error["code"]), (status, &json!(code)), "{word}");
        assert_eq!(error["error_subcode"].as_u64().unwrap_or(0), subcode, "{word}");
    }
    for status in [429, 502, 503, 504] {
        let response = client.send(send(&sandbox, &format!("24-{status}:9x1"))).await.unwrap();
        let page = response.header("content-type");
        assert_eq!((response.status, page), (status, Some("text/html; charset=utf-8")));
        assert_eq!(response.header("retry-after"), Some("9"));
        let again = client.send(send(&sandbox, &format!("24-{status}:9x1"))).await.unwrap();
        assert_eq!(again.status, 200);
    }
    let reasons: Vec<_> =
        sandbox.received().into_iter().filter_map(|message| message.reason).collect();
    assert_eq!((&reasons[3], &reasons[0]), (&"1/99".to_owned(), &"1200".to_owned()));
}

#[tokio::test]
async fn a_part_of_a_message_is_refused_where_a_text_passes() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let reply = json!({"content_type": "text", "title": "t", "payload": "p"});
    let replies = json!({"text": "x", "quick_replies": [reply]});
    for (word, subcode) in [("toolarge", Some(2_018_109)), ("button", None), ("template", None)] {
        let person = format!("24~{word}");
        for message in [&generic(&json!({"title": "t", "subtitle": "s"})), &replies] {
            let response = client.send(send_body(&sandbox, &body(&person, message))).await.unwrap();
            let error = &response.body["error"];
            assert_eq!((response.status, &error["code"]), (400, &json!(100)), "{word}");
            assert_eq!(error.get("error_subcode").and_then(Value::as_u64), subcode, "{word}");
        }
        assert_eq!(client.send(send(&sandbox, &person)).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn a_rule_names_a_keyword_or_a_code() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let by =
        |reason: &str| Rule::on(Provider::Messenger, ScriptedResponse::reason(reason).first(1));
    let own = ScriptedResponse { status: Some(400), ..ScriptedResponse::reason("803/7") };
    for (rule, expected) in [
        (by("551/1545041"), (400, 551, 1_545_041)),
        (by("blocked"), (403, 200, 1_545_041)),
        (Rule::on(Provider::Messenger, own.first(1)), (400, 803, 7)),
    ] {
        sandbox.add_rule(rule.token("24")).unwrap();
        assert_eq!(client.send(send(&sandbox, "25")).await.unwrap().status, 200);
        let response = client.send(send(&sandbox, "24")).await.unwrap();
        let error = &response.body["error"];
        let number = |name: &str| error[name].as_u64().unwrap();
        assert_eq!((response.status, number("code"), number("error_subcode")), expected);
        assert_eq!(client.send(send(&sandbox, "24")).await.unwrap().status, 200);
    }
    let unknown = Rule::on(Provider::Messenger, ScriptedResponse::reason("nonsense"));
    assert!(sandbox.add_rule(unknown).is_err());
}

#[tokio::test]
async fn recipients_are_built_for_a_response() {
    let rows = [
        (ScriptedResponse::ok(), "2400000000000007"),
        (ScriptedResponse::reason("blocked"), "2400000000000007~blocked"),
        (ScriptedResponse::reason("10/2018278").first(2), "2400000000000007~windowx2"),
        (ScriptedResponse::status(502).retry_after(3), "2400000000000007~502:3"),
        (ScriptedResponse::fault(Fault::Cut), "2400000000000007~cut"),
    ];
    for (answer, expected) in rows {
        assert_eq!(messenger_recipient(7, &answer), expected);
    }
}

#[tokio::test]
async fn settings_add_usage_headers_and_limit_the_rate_of_the_page() {
    let (sandbox, clock) = start().await;
    let mut client = Client::connect(&sandbox).await;
    sandbox.set(Settings {
        messenger_usage_percent: 85,
        messenger_regain_minutes: 7,
        messenger_per_second: 2,
        ..Settings::default()
    });
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let response = client.send(send(&sandbox, "24")).await.unwrap();
        let app: Value = serde_json::from_str(response.header("x-app-usage").unwrap()).unwrap();
        assert_eq!(app["call_count"], 85);
        let cases = response.header("x-business-use-case-usage").unwrap();
        let cases: Value = serde_json::from_str(cases).unwrap();
        let case = &cases.as_object().unwrap().values().next().unwrap()[0];
        assert_eq!(case["estimated_time_to_regain_access"], 7);
        statuses.push((response.status, response.body["error"]["code"].as_u64()));
    }
    assert_eq!(statuses, [(200, None), (200, None), (400, Some(80_006))]);
    clock.advance(Duration::from_secs(1));
    assert_eq!(client.send(send(&sandbox, "24")).await.unwrap().status, 200);
}
