//! The lifetime of a provider token, on a single server and on several.

mod several_servers;

use jsonwebtoken::{Algorithm, DecodingKey, Validation};

use super::*;

async fn issued_at(token: &ProviderToken, at: Reading, public: &DecodingKey) -> i64 {
    let bearer = token.current(at).await.unwrap();
    let jwt = bearer.to_str().unwrap().strip_prefix("bearer ").unwrap();
    let mut rules = Validation::new(Algorithm::ES256);
    rules.set_required_spec_claims(&["iss"]);
    rules.set_issuer(&["TEAM123456"]);
    rules.validate_exp = false;
    let decoded = jsonwebtoken::decode::<serde_json::Value>(jwt, public, &rules).unwrap();
    assert_eq!(decoded.header.kid.as_deref(), Some("KEY1234567"));
    assert!(bearer.is_sensitive());
    decoded.claims["iat"].as_i64().unwrap()
}

#[tokio::test]
async fn a_provider_token_is_signed_once_in_fifty_minutes() {
    use rcgen::PublicKeyData as _;
    let key = key();
    let public = DecodingKey::from_ec_der(key.der_bytes());
    let token = ProviderTokens::default().get(&apns_config(&key));
    for (minutes, issued_minutes) in [(0, 0), (1, 0), (49, 0), (50, 50), (99, 50), (100, 100)] {
        let issued = issued_at(&token, at(NOW.plus_ms(minutes * MINUTE_MS)), &public).await;
        assert_eq!(issued, NOW.as_seconds() + issued_minutes * 60, "after {minutes} minutes");
    }
}

/// T14: a token contains the time of the wall clock, which Apple compares with its own. Once the clock is
/// corrected, a token that was signed with the wrong time is not used any more.
#[tokio::test]
async fn token_signed_by_a_wrong_clock_is_replaced_when_it_is_corrected() {
    use rcgen::PublicKeyData as _;
    let key = key();
    let public = DecodingKey::from_ec_der(key.der_bytes());
    let token = ProviderTokens::default().get(&apns_config(&key));
    for (minutes, ahead_minutes, issued_minutes) in
        [(0, 70, 70), (1, 70, 70), (2, 0, 2), (3, 1, 2), (4, -25 * 60, 4 - 25 * 60), (5, 0, 5)]
    {
        let now = NOW.plus_ms(minutes * MINUTE_MS);
        let at = Reading { now, wall: now.plus_ms(ahead_minutes * MINUTE_MS) };
        let issued = issued_at(&token, at, &public).await;
        assert_eq!(issued, NOW.as_seconds() + issued_minutes * 60, "after {minutes} minutes");
    }
}

#[tokio::test]
async fn an_expired_token_is_renewed_once_and_only_when_it_is_twenty_minutes_old() {
    let token = ProviderTokens::default().get(&apns_config(&key()));
    let first = token.current(at(NOW)).await.unwrap();
    assert!(
        !token.renew(&first, at(NOW.plus_ms(20 * MINUTE_MS - 1))).await,
        "a wrong clock, not an old token"
    );
    let later = at(NOW.plus_ms(20 * MINUTE_MS));
    assert!(token.renew(&first, later).await);
    let second = token.current(later).await.unwrap();
    assert_ne!(first, second);
    assert!(token.renew(&first, later).await, "another request was refused with the old one");
    assert_eq!(token.current(later).await.unwrap(), second, "and does not make a third");
    assert!(!token.renew(&second, at(NOW.plus_ms(21 * MINUTE_MS))).await);
}

#[tokio::test]
async fn too_many_updates_freeze_the_token_for_twenty_minutes() {
    let token = ProviderTokens::default().get(&apns_config(&key()));
    let first = token.current(at(NOW)).await.unwrap();
    let frozen = NOW.plus_ms(38 * MINUTE_MS);
    token.freeze(frozen).await;
    let after = |minutes: i64| at(frozen.plus_ms(minutes * MINUTE_MS));
    assert_eq!(
        token.current(after(14)).await.unwrap(),
        first,
        "older than fifty minutes, and kept"
    );
    assert!(!token.renew(&first, after(19)).await);
    let second = token.current(after(20)).await.unwrap();
    assert_ne!(second, first);
    token.freeze(after(20 + 49).now).await;
    assert_eq!(token.current(after(20 + 58)).await.unwrap(), second);
    assert_ne!(
        token.current(after(20 + 59)).await.unwrap(),
        second,
        "Apple would refuse it at sixty"
    );
}

#[test]
fn applications_share_a_keys_token_and_a_corrected_key_does_not() {
    let tokens = ProviderTokens::default();
    let (one, other) = (key(), key());
    let first = tokens.get(&apns_config(&one));
    assert!(std::sync::Arc::ptr_eq(&first, &tokens.get(&apns_config(&one))));
    assert!(!std::sync::Arc::ptr_eq(&first, &tokens.get(&apns_config(&other))));
}
