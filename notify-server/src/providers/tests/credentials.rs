//! Provider tokens and access tokens against the sandbox: made, shared, renewed and refused.

use std::time::Duration;

use futures_util::future::join_all;
use notify_core::ProviderKind;
use serde_json::{Value, json};

use super::web_push::{browser, send};
use super::{Fixture, attempt, describe, fixture, prepare, to_fcm};
use crate::provider_config::test_keys;
use crate::providers::{Processing, SendResult};
use notify_sandbox::{ApnsReason, Provider, Rule, ScriptedResponse};

#[tokio::test]
async fn teams_do_not_share_a_connection_and_applications_of_one_team_do() {
    let fixture = fixture().await;
    let second = fixture.build(ProviderKind::Apns, &fixture.sandbox.second_apns_config());
    let again = fixture.apns();
    for apns in [fixture.apns(), second, again] {
        let answer = attempt(&apns, ProviderKind::Apns, &ScriptedResponse::ok()).await;
        assert_eq!(describe(&answer), "delivered");
    }
    let journal = fixture.sandbox.received();
    assert_ne!(journal[0].connection, journal[1].connection);
    assert_eq!(journal[0].connection, journal[2].connection);
    assert_eq!(journal[0].headers.get("authorization"), journal[2].headers.get("authorization"));
}

#[tokio::test]
async fn message_for_another_key_uses_a_new_connection_once() {
    let fixture = fixture().await;
    let apns = fixture.apns();
    let wanted = ScriptedResponse {
        attempts: Some(1),
        ..ScriptedResponse::reason(ApnsReason::UNRELATED_KEY_ID_IN_TOKEN.name)
    };
    assert_eq!(describe(&attempt(&apns, ProviderKind::Apns, &wanted).await), "delivered");
    let journal = fixture.sandbox.received();
    assert_eq!(journal.len(), 2);
    assert_ne!(journal[0].connection, journal[1].connection);
}

#[tokio::test]
async fn early_expired_apns_token_is_renewed_within_the_attempt() {
    let fixture = fixture().await;
    let apns = fixture.apns();
    let ok = ScriptedResponse::ok();
    let send = || attempt(&apns, ProviderKind::Apns, &ok);
    assert_eq!(describe(&send().await), "delivered");
    // Apple's clock is ahead of ours.
    fixture.sandbox_clock.advance(Duration::from_secs(61 * 60));
    assert_eq!(describe(&send().await), "config ExpiredProviderToken", "another would not help");
    fixture.clock.advance(Duration::from_secs(25 * 60));
    assert_eq!(describe(&send().await), "delivered");
    fixture.advance(Duration::from_secs(49 * 60));
    fixture.clock.advance(Duration::from_secs(60));
    assert_eq!(describe(&send().await), "delivered", "replaced before anybody complains");
}

#[tokio::test]
async fn revoked_access_token_is_fetched_again_once() {
    let fixture = fixture().await;
    let fcm = fixture.fcm();
    let once =
        ScriptedResponse { attempts: Some(1), ..ScriptedResponse::reason("UNAUTHENTICATED") };
    assert_eq!(describe(&attempt(&fcm, ProviderKind::Fcm, &once).await), "delivered");
    let always = ScriptedResponse::reason("UNAUTHENTICATED");
    for _ in 0..5 {
        let answer = attempt(&fcm, ProviderKind::Fcm, &always).await;
        assert_eq!(describe(&answer), "config UNAUTHENTICATED");
    }
    let counts = fixture.sandbox.counts();
    let exchanges = counts.answers.iter().filter(|count| count.provider == Provider::Oauth);
    assert_eq!(exchanges.map(|count| count.count).sum::<u64>(), 2, "no further token exchanges");
}

#[tokio::test]
async fn access_token_is_replaced_five_minutes_before_expiry() {
    let fixture = fixture().await;
    let fcm = fixture.fcm();
    let exchanges = || {
        let counts = fixture.sandbox.counts();
        let oauth = counts.answers.iter().filter(|count| count.provider == Provider::Oauth);
        oauth.map(|count| count.count).sum::<u64>()
    };
    let ok = ScriptedResponse::ok();
    let send = || attempt(&fcm, ProviderKind::Fcm, &ok);
    for (minutes, expected) in [(0, 1), (54, 1), (1, 2), (54, 2), (10, 3)] {
        fixture.advance(Duration::from_secs(minutes * 60));
        assert_eq!(describe(&send().await), "delivered");
        assert_eq!(exchanges(), expected, "{minutes} minutes later");
    }
}

#[tokio::test]
async fn failing_token_endpoint_is_retried_and_a_refusal_pauses_the_provider() {
    let fixture = fixture().await;
    let fcm = fixture.fcm();
    let rule = |status| {
        Rule::on(
            Provider::Oauth,
            ScriptedResponse { attempts: Some(1), ..ScriptedResponse::status(status) },
        )
    };
    fixture.sandbox.add_rule(rule(503)).unwrap();
    let prepared = prepare(&fcm);
    let address = to_fcm("a:1");
    for answer in join_all((0..50).map(|_| fcm.attempt(&prepared, &address))).await {
        assert!(
            matches!(&answer, SendResult::Retry { outcome: Processing::NotProcessed, .. }),
            "{answer:?}"
        );
    }
    let fcm = fixture.build(ProviderKind::Fcm, &wrong_key(&fixture));
    let answer = attempt(&fcm, ProviderKind::Fcm, &ScriptedResponse::ok()).await;
    assert_eq!(describe(&answer), "config oauth http_400 invalid_grant");
    assert_eq!(fixture.sandbox.received().len(), 0, "nothing was sent");
}

/// The sandbox's account with a key that Google does not know.
fn wrong_key(fixture: &Fixture) -> Value {
    let mut config = fixture.sandbox.fcm_config();
    config["service_account"]["private_key"] = json!(test_keys::rsa_pem());
    config
}

/// T14: while the wall clock is wrong, the tokens signed with it are refused. Afterwards new ones work.
#[tokio::test]
async fn credentials_work_again_when_the_wall_clock_is_corrected() {
    let fixture = fixture().await;
    let (apns, fcm, web_push) = (fixture.apns(), fixture.fcm(), fixture.web_push());
    let wanted = ScriptedResponse::ok();
    let to = browser(&fixture, &wanted);
    let (accepted, refused) = ("delivered", "service refused http_401 errno_109");
    // No provider accepts a clock that is this wrong.
    let day = 24 * 60;
    for (ahead_minutes, at_apple, at_mozilla, at_google) in [
        (0, accepted, accepted, accepted),
        // Google's access token is valid for an hour and does not depend on the wall clock.
        (day, "config InvalidProviderToken", refused, accepted),
        (0, accepted, accepted, accepted),
        (-day, "config ExpiredProviderToken", refused, "config oauth http_400 invalid_grant"),
    ] {
        fixture.clock.set_wall_ahead(ahead_minutes * 60_000);
        let apple = attempt(&apns, ProviderKind::Apns, &wanted).await;
        assert_eq!(describe(&apple), at_apple, "{ahead_minutes} minutes ahead");
        let mozilla = send(&web_push, &to).await;
        assert_eq!(describe(&mozilla), at_mozilla, "{ahead_minutes} minutes ahead");
        let google = attempt(&fcm, ProviderKind::Fcm, &wanted).await;
        assert_eq!(describe(&google), at_google, "{ahead_minutes} minutes ahead");
        // Apple accepts a new token every twenty minutes.
        fixture.advance(Duration::from_secs(20 * 60));
    }
}
