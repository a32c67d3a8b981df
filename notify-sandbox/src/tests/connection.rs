//! Connections and their faults: the stream limit, GOAWAY, resets, silence, overridden responses, wrong
//! certificates, dropped connections and closed windows.

use std::time::Duration;

use futures_util::FutureExt as _;
use h2::Reason;
use serde_json::json;

use super::client::{
    ACK, END, GET_TOKEN, GOAWAY, HEADERS, REFUSED_STREAM, RST_STREAM, Raw, SETTINGS,
};
use super::client::{Client, Request, begin_tls, read};
use super::{WITHIN, access_token, fcm_send, push, push_to, start, start_with};
use crate::{
    Certificate, Clock, Fault, Provider, Rule, RuleError, Sandbox, SandboxConfig, ScriptedResponse,
    Settings, apns_token, fcm_token,
};

#[tokio::test]
async fn one_stream_is_allowed_until_a_push_was_accepted() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let refused = client.send(push(&sandbox).without("authorization")).await.unwrap();
    assert_eq!(refused.status, 403);
    assert_eq!(client.requests.current_max_send_streams(), 1);
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    assert_eq!(client.requests.current_max_send_streams(), 1_000);
}

#[tokio::test]
async fn a_changed_limit_reaches_open_connections() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    client.send(push(&sandbox)).await.unwrap();
    for limit in [7, 3, 2_000] {
        let settings = Settings { max_concurrent_streams: limit, ..Settings::default() };
        sandbox.set(settings);
        // The server sends the new limit before the response to a later request.
        client.send(push(&sandbox)).await.unwrap();
        assert_eq!(client.requests.current_max_send_streams(), limit as usize);
    }
}

#[tokio::test]
async fn the_limit_can_drop_with_each_rejection() {
    let settings = Settings { drop_streams_on_rejection: true, ..Settings::default() };
    let sandbox = start_with(SandboxConfig { settings, ..SandboxConfig::default() }).await;
    let mut client = Client::connect(&sandbox).await;
    let authorization = format!("bearer {}", now_jwt(&sandbox));
    let dead = apns_token(1, &ScriptedResponse::reason("Unregistered"));
    let rows = [(super::DEVICE, 200, 1_000), (dead.as_str(), 410, 1), (super::DEVICE, 200, 1_000)];
    for (token, status, limit) in rows {
        let request = push_to(&sandbox, token).header("authorization", &authorization);
        assert_eq!(client.send(request).await.unwrap().status, status);
        assert_eq!(client.requests.current_max_send_streams(), limit);
    }
}

/// A provider token that is issued by the machine's clock, which a sandbox uses by default.
fn now_jwt(sandbox: &Sandbox) -> String {
    let now_s = Clock::default().now().as_seconds();
    super::apns_jwt(&sandbox.apns_config(), now_s - super::NOW_S)
}

#[tokio::test]
async fn streams_past_the_limit_are_refused_once_the_client_has_acknowledged_it() {
    for (acknowledges, expected) in [(true, (3, 3, REFUSED_STREAM)), (false, (1, 3, 0))] {
        let settings = Settings { max_concurrent_streams: 1, ..Settings::default() };
        let sandbox = start_with(SandboxConfig { settings, ..SandboxConfig::default() }).await;
        let silent = ScriptedResponse::fault(Fault::Silence).first(1);
        sandbox.add_rule(Rule::on(Provider::Oauth, silent)).unwrap();
        let mut raw = Raw::connect(&sandbox).await;
        if acknowledges {
            // The stream limit, and the settings of the `h2` crate.
            raw.write(SETTINGS, ACK, 0, b"").await;
            raw.write(SETTINGS, ACK, 0, b"").await;
        }
        raw.write(HEADERS, END, 1, GET_TOKEN).await;
        raw.write(HEADERS, END, 3, GET_TOKEN).await;
        let frame = raw.read_until(|frame| frame.stream == 3).await;
        let code = if frame.kind == RST_STREAM { frame.payload[3] } else { 0 };
        assert_eq!((frame.kind, frame.stream, code), expected);
        assert_eq!(sandbox.counts().refused_streams, u64::from(acknowledges));
    }
}

#[tokio::test]
async fn a_stream_that_is_given_up_leaves_its_room_to_the_next() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    sandbox
        .add_rule(Rule::on(Provider::Apns, ScriptedResponse::fault(Fault::Silence).first(1)))
        .unwrap();
    let silent = client.begin(push(&sandbox)).await.unwrap();
    sandbox.wait_for(1, WITHIN).await;
    assert_eq!(client.requests.current_max_send_streams(), 1);
    drop(silent);
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    assert_eq!(sandbox.counts().refused_streams, 0);
}

#[tokio::test]
async fn a_refused_stream_was_not_processed_and_others_go_on() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    client.send(push(&sandbox)).await.unwrap();
    let rows = [(Fault::Refuse, Reason::REFUSED_STREAM), (Fault::Reset, Reason::INTERNAL_ERROR)];
    for (action, reason) in rows {
        let token = apns_token(1, &ScriptedResponse::fault(action).first(1));
        let error = client.send(push_to(&sandbox, &token)).await.unwrap_err();
        assert!(error.is_reset() && error.is_remote(), "{error:?}");
        assert_eq!(error.reason(), Some(reason));
        let again = client.send(push_to(&sandbox, &token)).await.unwrap();
        assert_eq!(again.status, 200);
        sandbox.clear();
    }
}

#[tokio::test]
async fn goaway_lets_earlier_streams_finish_and_drops_later_ones() {
    let (sandbox, clock) = start().await;
    let mut client = Client::connect(&sandbox).await;
    client.send(push(&sandbox)).await.unwrap();
    sandbox
        .add_rule(Rule::on(Provider::Apns, ScriptedResponse::ok()).token("00aa").delay_ms(1_000))
        .unwrap();
    sandbox
        .add_rule(Rule::on(Provider::Apns, ScriptedResponse::fault(Fault::Goaway)).token("00bb"))
        .unwrap();

    let before = client.begin(push_to(&sandbox, "00aa")).await.unwrap();
    sandbox.wait_for(2, WITHIN).await;
    let after = client.begin(push_to(&sandbox, "00bb")).await.unwrap();
    let error = read(after).await.unwrap_err();
    assert!(error.is_go_away() && error.is_remote(), "{error:?}");
    assert_eq!(error.reason(), Some(Reason::NO_ERROR));

    clock.advance(Duration::from_secs(1));
    assert_eq!(read(before).await.unwrap().status, 200);
    // The client closes the connection after its last stream.
    tokio::time::timeout(WITHIN, client.ended).await.unwrap().unwrap().unwrap();
    let streams: Vec<_> =
        sandbox.received().iter().map(|entry| (entry.stream, entry.status)).collect();
    assert_eq!(streams, [(1, 200), (3, 200), (5, 0)]);
}

#[tokio::test]
async fn goaway_names_the_last_stream_that_a_rule_chose_and_apple_s_reason() {
    let (sandbox, _) = start().await;
    let goaway =
        ScriptedResponse { last_stream_id: Some(41), ..ScriptedResponse::fault(Fault::Goaway) };
    let goaway = ScriptedResponse { reason: Some("IdleTimeout".to_owned()), ..goaway };
    sandbox.add_rule(Rule::on(Provider::Oauth, goaway)).unwrap();
    let mut raw = Raw::connect(&sandbox).await;
    raw.write(HEADERS, END, 1, GET_TOKEN).await;
    let limit = raw.read_until(|_| true).await;
    assert_eq!((limit.kind, &limit.payload[..]), (SETTINGS, &[0, 3, 0, 0, 0, 1][..]));
    let goaway = raw.read_until(|frame| frame.kind == GOAWAY).await;
    let (numbers, debug) = goaway.payload.split_at(8);
    assert_eq!(numbers, [0, 0, 0, 41, 0, 0, 0, 0]);
    assert_eq!(debug, json!({ "reason": "IdleTimeout" }).to_string().as_bytes());
}

#[tokio::test]
async fn a_cut_ends_the_connection_without_notice() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = apns_token(1, &ScriptedResponse::fault(Fault::Cut));
    let error = client.send(push_to(&sandbox, &token)).await.unwrap_err();
    assert!(!error.is_go_away() && !error.is_reset(), "{error:?}");
    assert_eq!(sandbox.received()[0].reason.as_deref(), Some("cut"));
}

#[tokio::test]
async fn silence_answers_never_but_other_streams_are_answered() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    client.send(push(&sandbox)).await.unwrap();
    let token = apns_token(1, &ScriptedResponse::fault(Fault::Silence));
    let mut silent = client.begin(push_to(&sandbox, &token)).await.unwrap();
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    assert!((&mut silent).now_or_never().is_none());
    assert_eq!(sandbox.counts().answers.len(), 2);
}

#[tokio::test]
async fn fcm_is_not_held_to_the_limit_of_apns_start() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = access_token(&sandbox, &mut client).await;
    assert_eq!(client.requests.current_max_send_streams(), 1_000);
    let cut = json!({ "token": fcm_token(1, &ScriptedResponse::fault(Fault::Cut)) });
    client.send(fcm_send(&token, &cut)).await.unwrap_err();
}

#[tokio::test]
async fn http_2_with_prior_knowledge_works_without_tls() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect_plainly(&sandbox).await;
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
}

#[tokio::test]
async fn thousands_of_pushes_share_one_connection() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    client.send(push(&sandbox)).await.unwrap();
    let mut answers = Vec::new();
    for seed in 0..3_000 {
        let token = apns_token(seed, &ScriptedResponse::ok());
        let answer = client.begin(push_to(&sandbox, &token).header("apns-priority", "5"));
        answers.push(tokio::spawn(read(answer.await.unwrap())));
    }
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().status, 200);
    }
    let counts = sandbox.counts();
    assert_eq!((counts.accepted, counts.accepted_tokens, counts.connections), (3_001, 3_001, 1));
}

#[tokio::test]
async fn a_stopped_sandbox_closes_its_connections() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    client.send(push(&sandbox)).await.unwrap();
    let address = sandbox.addr();
    tokio::time::timeout(WITHIN, sandbox.stop()).await.unwrap();
    let ended = tokio::time::timeout(WITHIN, client.ended).await.unwrap().unwrap();
    assert!(ended.is_ok() || ended.is_err_and(|error| error.is_io()));
    tokio::net::TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn an_unfinished_request_is_no_message() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let head = http::Request::post("https://127.0.0.1/apns/3/device/00aa").body(()).unwrap();
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (answer, mut body) = requests.send_request(head, false).unwrap();
    body.send_reset(Reason::CANCEL);
    drop(answer);
    client.send(Request::get("/sandbox/counts")).await.unwrap();
    assert_eq!(sandbox.counts().received, 0);
}

#[tokio::test]
async fn the_client_that_the_product_sends_with_gets_all_of_a_cold_burst_through() {
    let (sandbox, _) = start().await;
    let authority = reqwest::Certificate::from_pem(sandbox.ca_certificate().as_bytes()).unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([authority])
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let mut answers = Vec::new();
    for seed in 0..500 {
        let request = push_to(&sandbox, &apns_token(seed, &ScriptedResponse::ok()));
        let mut sent = client.post(format!("{}{}", sandbox.origin(), request.path));
        for (name, value) in &request.headers {
            sent = sent.header(name, value);
        }
        answers.push(tokio::spawn(sent.body(request.body).send()));
    }
    for answer in answers {
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    }
    let counts = sandbox.counts();
    assert_eq!((counts.accepted, counts.accepted_tokens, counts.connections), (500, 500, 1));
    assert_eq!(counts.refused_streams, 0);
}

/// The time for which a test checks that an event does not happen.
const A_MOMENT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn an_answer_can_have_header_fields_and_a_body_of_its_own() {
    let (sandbox, _) = start().await;
    let rule = Rule::on(Provider::Apns, ScriptedResponse::status(429))
        .header("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")
        .body("{\"reason\":");
    sandbox.add_rule(rule).unwrap();
    let mut client = Client::connect(&sandbox).await;
    let response = client.send(push(&sandbox)).await.unwrap();
    assert_eq!(response.status, 429);
    assert_eq!(response.header("retry-after"), Some("Fri, 31 Dec 9999 23:59:59 GMT"));
    assert_eq!(response.body, json!("{\"reason\":"));
    let broken = Rule::on(Provider::Fcm, ScriptedResponse::ok()).header("not a name", "x");
    assert_eq!(sandbox.add_rule(broken), Err(RuleError::Headers));
    let endless = Rule::on(Provider::Fcm, ScriptedResponse::ok()).more_bytes(u64::MAX, 0);
    assert_eq!(sandbox.add_rule(endless), Err(RuleError::MoreBytes));
}

#[tokio::test]
async fn trailing_bytes_come_as_fast_as_the_client_reads_over_both_protocols() {
    const MORE: usize = 1_000_000;
    let (sandbox, _) = start().await;
    for provider in [Provider::Apns, Provider::Oauth] {
        let more =
            Rule::on(provider, ScriptedResponse::status(500)).body("!").more_bytes(MORE as u64, 0);
        sandbox.add_rule(more).unwrap();
    }
    let mut client = Client::connect(&sandbox).await;
    let response = client.send(push(&sandbox)).await.unwrap();
    assert_eq!(response.body.as_str().map(str::len), Some(1 + MORE));
    let url = format!("http://{}/token", sandbox.addr());
    let body = reqwest::Client::new().post(url).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(body.len(), 1 + MORE);
}

#[tokio::test]
async fn bytes_can_trickle_by_the_sandbox_s_clock() {
    let (sandbox, clock) = start().await;
    let slow =
        Rule::on(Provider::Apns, ScriptedResponse::status(503)).body("").more_bytes(2, 10_000);
    sandbox.add_rule(slow).unwrap();
    let mut client = Client::connect(&sandbox).await;
    let answer = client.begin(push(&sandbox)).await.unwrap();
    let mut reading = tokio::spawn(read(answer));
    for _ in 0..2 {
        let early = tokio::time::timeout(A_MOMENT, &mut reading).await;
        assert!(early.is_err(), "it is not over: {early:?}");
        clock.advance(Duration::from_secs(10));
    }
    let response = tokio::time::timeout(WITHIN, reading).await.unwrap().unwrap().unwrap();
    assert_eq!((response.status, response.body), (503, json!("xx")));
}

#[tokio::test]
async fn a_closed_window_lets_no_body_through() {
    let settings = Settings { stream_window_bytes: 0, ..Settings::default() };
    let sandbox = start_with(SandboxConfig { settings, ..SandboxConfig::default() }).await;
    let mut client = Client::connect(&sandbox).await;
    // A request without a body arrives. After its response, the client has the window of the server.
    let answer = client.send(Request::get("/sandbox/counts")).await.unwrap();
    assert_eq!(answer.status, 200);
    let answer = client.begin(push_to(&sandbox, "00aa")).await.unwrap();
    assert!(tokio::time::timeout(A_MOMENT, read(answer)).await.is_err());
    assert_eq!(sandbox.counts().received, 0);
}

#[tokio::test]
async fn clients_reject_wrong_certificates() {
    let (sandbox, _) = start().await;
    for certificate in [Certificate::Expired, Certificate::Elsewhere, Certificate::Stranger] {
        sandbox.set(Settings { certificate, ..Settings::default() });
        assert!(begin_tls(&sandbox, b"h2").await.is_err(), "{certificate:?}");
    }
    sandbox.set(Settings::default());
    let mut client = Client::connect(&sandbox).await;
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    let counts = sandbox.counts();
    assert_eq!((counts.failed_handshakes, counts.connections), (3, 1));
}

#[tokio::test]
async fn all_connections_can_be_cut_at_once() {
    let (sandbox, _) = start().await;
    let (mut first, mut second) =
        (Client::connect(&sandbox).await, Client::connect(&sandbox).await);
    for client in [&mut first, &mut second] {
        assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    }
    sandbox.drop_connections();
    for client in [first, second] {
        tokio::time::timeout(WITHIN, client.ended).await.unwrap().unwrap().ok();
    }
    let mut third = Client::connect(&sandbox).await;
    assert_eq!(third.send(push(&sandbox)).await.unwrap().status, 200);
}

#[tokio::test]
async fn connections_above_the_limit_wait() {
    let sandbox =
        start_with(SandboxConfig { connections_max: 1, ..SandboxConfig::default() }).await;
    let first = Client::connect(&sandbox).await;
    // The kernel completes the connection, but the sandbox does not accept it.
    let mut second = Box::pin(Client::connect(&sandbox));
    assert!((&mut second).now_or_never().is_none());
    let waits = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
    assert!(waits.is_err(), "it was accepted");
    drop(first);
    tokio::time::timeout(WITHIN, second).await.unwrap();
}
