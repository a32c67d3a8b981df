//! One token for all servers with the same store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::providers::{SignedToken, StoredToken, TokenName, TokenStore, TokenStoreError};

/// A store in memory that can fail and corrupt its tokens.
#[derive(Default)]
struct Memory {
    kept: Mutex<HashMap<TokenName, (SignedToken, Option<Timestamp>)>>,
    fails: AtomicBool,
    breaks: AtomicBool,
    looks: AtomicUsize,
}

impl Memory {
    fn answer<T>(&self, value: T) -> Result<T, TokenStoreError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        match self.fails.load(Ordering::SeqCst) {
            true => Err(TokenStoreError::Storage("gone".into())),
            false => Ok(value),
        }
    }

    fn read(&self, name: &TokenName) -> Option<StoredToken> {
        let (token, frozen_until) = self.kept.lock().unwrap().get(name)?.clone();
        let at = token.at;
        let token = (!self.breaks.load(Ordering::SeqCst)).then_some(token);
        Some(StoredToken { token, at, frozen_until })
    }
}

#[async_trait::async_trait]
impl TokenStore for Memory {
    async fn get(&self, name: &TokenName) -> Result<Option<StoredToken>, TokenStoreError> {
        let read = self.read(name);
        // Other servers may read in between and see the same token.
        tokio::task::yield_now().await;
        self.answer(read)
    }

    async fn put(
        &self,
        name: &TokenName,
        token: &SignedToken,
        replaces: Option<Timestamp>,
    ) -> Result<StoredToken, TokenStoreError> {
        self.answer(())?;
        {
            let mut kept = self.kept.lock().unwrap();
            let (seen, frozen_until) = kept
                .get(name)
                .map_or((None, None), |(token, frozen_until)| (Some(token.at), *frozen_until));
            if seen == replaces {
                kept.insert(*name, (token.clone(), frozen_until));
            }
        }
        Ok(self.read(name).expect("it was kept just now, or before"))
    }

    async fn freeze(&self, name: &TokenName, until: Timestamp) -> Result<(), TokenStoreError> {
        self.answer(())?;
        if let Some((_, frozen_until)) = self.kept.lock().unwrap().get_mut(name) {
            *frozen_until = Some(until);
        }
        Ok(())
    }
}

/// Servers with the same store and the same key.
struct Servers {
    memory: Arc<Memory>,
    key: rcgen::KeyPair,
}

impl Servers {
    fn new() -> Self {
        Self { memory: Arc::default(), key: key() }
    }

    /// Starts a server.
    fn start(&self) -> Arc<ProviderToken> {
        ProviderTokens::with_token_store(self.memory.clone()).get(&apns_config(&self.key))
    }

    fn looks(&self) -> usize {
        self.memory.looks.load(Ordering::SeqCst)
    }
}

fn minutes(count: i64) -> Reading {
    at(NOW.plus_ms(count * MINUTE_MS))
}

#[tokio::test]
async fn servers_share_a_signed_token() {
    let servers = Servers::new();
    let (first_server, second_server) = (servers.start(), servers.start());
    let first = first_server.current(minutes(0)).await.unwrap();
    assert_eq!(second_server.current(minutes(49)).await.unwrap(), first);
    let second = second_server.current(minutes(50)).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(first_server.current(minutes(50)).await.unwrap(), second, "signed once for both");
    assert_eq!(servers.start().current(minutes(60)).await.unwrap(), second, "a restart signs none");
    let looks = servers.looks();
    for minute in 60..100 {
        assert_eq!(first_server.current(minutes(minute)).await.unwrap(), second);
    }
    assert_eq!(servers.looks(), looks, "storage is not asked while a token lasts");
    assert!(first_server.current(minutes(60)).await.unwrap().is_sensitive());
}

/// Both servers see the same old token and sign a new one. `first_server` stores its token first.
#[tokio::test]
async fn concurrent_signatures_end_with_one_token() {
    let servers = Servers::new();
    let all: Vec<_> = (0..4).map(|_| servers.start()).collect();
    for minute in [0, 50, 100] {
        let sent = all.iter().map(|server| server.current(minutes(minute)));
        let sent = futures_util::future::join_all(sent).await;
        assert!(sent.iter().all(|bearer| bearer == &sent[0]), "after {minute} minutes");
    }
}

/// Apple counts the token changes of each connection, so a token that expires soon is not installed.
#[tokio::test]
async fn stored_token_is_installed_depending_on_the_own_one() {
    let servers = Servers::new();
    // Age of the stored token, whether the server has a token already, whether the stored one is installed.
    let rows = [
        (0, false, true),
        (49, false, true),
        (50, false, false),
        (0, true, true),
        (29, true, true),
        (30, true, false),
        (-1, false, true),
        (-2, false, false),
    ];
    for (age, has_own, is_installed) in rows {
        let server = servers.start();
        servers.memory.kept.lock().unwrap().clear();
        if has_own {
            server.current(minutes(1_000 - 55)).await.unwrap();
            servers.memory.kept.lock().unwrap().clear();
        }
        let kept = servers.start().current(minutes(1_000 - age)).await.unwrap();
        let sent = server.current(minutes(1_000)).await.unwrap();
        assert_eq!(sent == kept, is_installed, "{age} minutes old, {has_own}");
    }
}

#[tokio::test]
async fn token_of_a_different_clock_is_not_installed() {
    let servers = Servers::new();
    let ahead = |ms: i64| Reading { now: NOW, wall: NOW.plus_ms(ms) };
    let first = servers.start().current(ahead(0)).await.unwrap();
    assert_eq!(servers.start().current(ahead(MINUTE_MS)).await.unwrap(), first);
    assert_ne!(servers.start().current(ahead(MINUTE_MS + 1)).await.unwrap(), first);
}

#[tokio::test]
async fn undecryptable_token_is_signed_again() {
    let servers = Servers::new();
    let first = servers.start().current(minutes(0)).await.unwrap();
    servers.memory.breaks.store(true, Ordering::SeqCst);
    let second = servers.start().current(minutes(1)).await.unwrap();
    assert_ne!(second, first);
    servers.memory.breaks.store(false, Ordering::SeqCst);
    assert_eq!(servers.start().current(minutes(2)).await.unwrap(), second, "and kept");
}

#[tokio::test]
async fn server_signs_its_own_token_without_storage() {
    let servers = Servers::new();
    let (first_server, second_server) = (servers.start(), servers.start());
    let first = first_server.current(minutes(0)).await.unwrap();
    second_server.current(minutes(0)).await.unwrap();
    servers.memory.fails.store(true, Ordering::SeqCst);
    let own = first_server.current(minutes(50)).await.unwrap();
    assert_ne!(own, first);
    assert_ne!(second_server.current(minutes(50)).await.unwrap(), own);
    let looks = servers.looks();
    assert_eq!(first_server.current(minutes(70)).await.unwrap(), own);
    assert_eq!(servers.looks(), looks, "it is not asked again for each message");
    servers.memory.fails.store(false, Ordering::SeqCst);
    let both = first_server.current(minutes(100)).await.unwrap();
    assert_eq!(second_server.current(minutes(100)).await.unwrap(), both, "together again");
}

#[tokio::test]
async fn freeze_applies_to_all_servers() {
    let servers = Servers::new();
    let (first_server, second_server) = (servers.start(), servers.start());
    let first = first_server.current(minutes(0)).await.unwrap();
    second_server.current(minutes(0)).await.unwrap();
    first_server.freeze(minutes(45).now).await;
    let looks = servers.looks();
    first_server.freeze(minutes(45).now).await;
    assert_eq!(servers.looks(), looks, "written once");
    for server in [&first_server, &second_server, &servers.start()] {
        assert_eq!(server.current(minutes(55)).await.unwrap(), first);
        assert!(!server.renew(&first, minutes(55)).await);
    }
    let second = second_server.current(minutes(59)).await.unwrap();
    assert_ne!(second, first, "Apple would refuse it at sixty");
    assert_eq!(first_server.current(minutes(59)).await.unwrap(), second);
}

#[tokio::test]
async fn expired_token_is_replaced_for_all_servers() {
    let servers = Servers::new();
    let (first_server, second_server) = (servers.start(), servers.start());
    let first = first_server.current(minutes(0)).await.unwrap();
    second_server.current(minutes(0)).await.unwrap();
    assert!(!first_server.renew(&first, minutes(19)).await);
    assert!(first_server.renew(&first, minutes(25)).await);
    let second = first_server.current(minutes(25)).await.unwrap();
    assert_ne!(second, first);
    assert!(second_server.renew(&first, minutes(26)).await);
    assert_eq!(second_server.current(minutes(26)).await.unwrap(), second);
}
