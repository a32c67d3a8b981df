//! Provider tokens that servers share.

use macro_rules_attribute::apply;
use notify_core::Timestamp;

use super::fixtures::NOW;
use crate::store::{Store, TokenRow};

fn token(sealed: &[u8], issued_at: Timestamp) -> TokenRow {
    TokenRow { sealed: sealed.to_vec(), issued_at, wall_ahead_ms: -7, frozen_until: None }
}

#[apply(contract)]
async fn token_is_replaced_only_by_its_successor(store: &Store) {
    let (name, other) = ([1; 32], [2; 32]);
    assert_eq!(store.provider_token(name).await.unwrap(), None);
    let first = token(b"first", NOW);
    let kept = store.keep_provider_token(name, first.clone(), None).await.unwrap();
    assert_eq!(kept, first);
    // A server that has read no token, or an older one, is late and gets the stored token.
    let late = token(b"late", NOW.plus_ms(1));
    for replaces in [None, Some(NOW.plus_ms(-1)), Some(NOW.plus_ms(1))] {
        let kept = store.keep_provider_token(name, late.clone(), replaces).await.unwrap();
        assert_eq!(kept, first, "{replaces:?}");
    }
    let next = token(b"next", NOW.plus_ms(3_000_000));
    let kept = store.keep_provider_token(name, next.clone(), Some(NOW)).await.unwrap();
    assert_eq!(kept, next);
    assert_eq!(store.provider_token(name).await.unwrap(), Some(next));
    assert_eq!(store.provider_token(other).await.unwrap(), None);
}

#[apply(contract)]
async fn concurrent_token_updates_store_one(store: &Store) {
    let seen = token(b"seen", NOW);
    store.keep_provider_token([1; 32], seen, None).await.unwrap();
    let signed = (1..=8).map(|n| token(&[n], NOW.plus_ms(3_000_000 + i64::from(n))));
    let kept = signed.map(|token| store.keep_provider_token([1; 32], token, Some(NOW)));
    let kept = futures_util::future::join_all(kept).await;
    let kept: Vec<_> = kept.into_iter().map(Result::unwrap).collect();
    assert!(kept[0].issued_at > NOW && kept.iter().all(|token| *token == kept[0]), "{kept:?}");
}

#[apply(contract)]
async fn token_freeze_keeps_the_latest_end(store: &Store) {
    let name = [1; 32];
    store.freeze_provider_token(name, NOW).await.unwrap();
    assert_eq!(store.provider_token(name).await.unwrap(), None, "none is kept");
    store.keep_provider_token(name, token(b"first", NOW), None).await.unwrap();
    for (until_ms, expected_ms) in [(10, 10), (5, 10), (20, 20)] {
        store.freeze_provider_token(name, NOW.plus_ms(until_ms)).await.unwrap();
        let kept = store.provider_token(name).await.unwrap().unwrap();
        assert_eq!(kept.frozen_until, Some(NOW.plus_ms(expected_ms)), "{until_ms}");
    }
    let next = store.keep_provider_token(name, token(b"next", NOW), Some(NOW)).await.unwrap();
    assert_eq!((next.sealed.as_slice(), next.frozen_until), (&b"next"[..], Some(NOW.plus_ms(20))));
}

#[apply(contract)]
async fn tokens_of_unused_keys_are_deleted(store: &Store) {
    store.keep_provider_token([1; 32], token(b"old", NOW), None).await.unwrap();
    let hours = |count: i64| NOW.plus_ms(count * 3_600_000);
    for (name, at, is_there) in [([2; 32], hours(2), true), ([3; 32], hours(3), false)] {
        store.keep_provider_token(name, token(b"new", at), None).await.unwrap();
        assert_eq!(store.provider_token([1; 32]).await.unwrap().is_some(), is_there, "{at:?}");
    }
}
