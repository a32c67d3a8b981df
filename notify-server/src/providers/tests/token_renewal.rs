//! Provider tokens over a day with changing connections: Apple responds 429 when tokens change too often,
//! and refuses those that are older than an hour.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use notify_core::ProviderKind;

use super::{Fixture, attempt, describe, fixture};
use crate::outbound::Outbound;
use crate::provider_config::ProviderConfig;
use crate::provider_source::DatabaseTokenStore;
use crate::providers::{Providers, SharedProvider};
use crate::secrets::MasterKey;
use crate::store::SharedStore;
use crate::store::postgres::testing::TestCluster;
use crate::store::postgres::{self, PostgresOptions};
use notify_sandbox::{ApnsReason, Provider, Rule, ScriptedResponse};

/// Connections in a day.
const RECONNECTS: u64 = 1_000;
/// A day, in seconds.
const DAY_S: u64 = 86_400;
/// Highest age of a token, and shortest time between two tokens, in milliseconds (Apple).
const AGE_MS_MAX: i64 = 60 * 60_000;
const CHANGE_MS_MIN: i64 = 20 * 60_000;
/// Most checks until the sender has noticed that a connection was cut.
const LOOKS_MAX: usize = 100_000;

impl Fixture {
    /// Age of APNs' token, in milliseconds.
    fn token_age_ms(&self) -> i64 {
        let ages = self.providers.token_ages_ms();
        ages.iter().find(|(kind, _)| *kind == ProviderKind::Apns).expect("it was signed").1
    }

    /// Cuts all connections and returns once the sender knows.
    async fn reconnect(&self) {
        self.sandbox.drop_connections();
        for _ in 0..LOOKS_MAX {
            if self.providers.connections().iter().all(|(_, [busy, idle])| busy + idle == 0) {
                return;
            }
            // The sender reads the end of a connection when the time for the next read has come.
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        panic!("a connection outlived its cut");
    }
}

/// Three applications of one team share a token, even if their connections change.
#[tokio::test(start_paused = true)]
async fn token_count_stays_minimal_over_a_day_of_connections() {
    let fixture = fixture().await;
    let apps: Vec<SharedProvider> = (0..3).map(|_| fixture.apns()).collect();
    let step = Duration::from_millis(DAY_S * 1_000 / RECONNECTS);
    let (mut changes, mut since_change_ms) = (0_u32, 0);
    let mut age_ms = 0;
    for number in 0..RECONNECTS {
        let app = &apps[usize::try_from(number).unwrap() % apps.len()];
        let answer = attempt(app, ProviderKind::Apns, &ScriptedResponse::ok()).await;
        assert_eq!(describe(&answer), "delivered", "the {number}th");
        let now_ms = fixture.token_age_ms();
        if number > 0 && now_ms < age_ms {
            changes += 1;
            assert!(since_change_ms >= CHANGE_MS_MIN, "changed after {since_change_ms} ms");
            since_change_ms = 0;
        }
        age_ms = now_ms;
        assert!(age_ms <= AGE_MS_MAX, "{age_ms} ms old");
        fixture.advance(step);
        since_change_ms += i64::try_from(step.as_millis()).unwrap();
        age_ms += i64::try_from(step.as_millis()).unwrap();
        fixture.reconnect().await;
    }
    let counts = fixture.sandbox.counts();
    assert_eq!((counts.received, counts.accepted), (RECONNECTS, RECONNECTS));
    assert_eq!(counts.connections, RECONNECTS, "each went over a connection of its own");
    assert!((24..=29).contains(&changes), "{changes} changes: one in 50 minutes");
}

/// A token that Apple demands to keep is kept, but is replaced before Apple would refuse it.
#[tokio::test]
async fn frozen_token_is_replaced_before_it_expires() {
    let fixture = fixture().await;
    let apns = fixture.apns();
    let send =
        async || describe(&attempt(&apns, ProviderKind::Apns, &ScriptedResponse::ok()).await);
    assert_eq!(send().await, "delivered");
    fixture.advance(Duration::from_secs(45 * 60));
    let too_many =
        ScriptedResponse::reason(ApnsReason::TOO_MANY_PROVIDER_TOKEN_UPDATES.name).first(1);
    fixture.sandbox.add_rule(Rule::on(Provider::Apns, too_many)).unwrap();
    assert_eq!(send().await, "throttle TooManyProviderTokenUpdates Provider");
    for (minutes, age_minutes) in [(0, 45), (10, 55), (3, 58), (2, 0), (30, 30)] {
        fixture.advance(Duration::from_secs(minutes * 60));
        assert_eq!(send().await, "delivered", "{age_minutes}");
        assert_eq!(fixture.token_age_ms(), age_minutes * 60_000);
    }
}

/// Number of messages of three servers in a day. Each server restarts after every seventh message.
const SENDS: u64 = 1_000;
const SENDS_PER_START: usize = 7;

/// Three servers of one database share one signed token, even if they are often restarted.
#[tokio::test]
async fn three_servers_of_one_database_sign_once_in_fifty_minutes() {
    let fixture = fixture().await;
    let database = TestCluster::shared().database();
    let options = PostgresOptions { readers: 1, ..PostgresOptions::default() };
    let stores: [SharedStore; 3] = std::array::from_fn(|_| {
        let store: SharedStore = postgres::open(&database.url().parse().unwrap(), options).unwrap();
        store
    });
    let key = MasterKey::from_base64(&BASE64.encode([7; 32]).into()).unwrap();
    let master_key = Arc::new(key);
    let start = |store: &SharedStore| {
        let tokens = DatabaseTokenStore { store: store.clone(), master_key: master_key.clone() };
        Providers::new(fixture.clock.clone(), Outbound::new(true))
            .with_token_store(Arc::new(tokens))
    };
    let config = ProviderConfig::parse(ProviderKind::Apns, &fixture.sandbox.apns_config()).unwrap();
    let started = |store| {
        let providers = start(store);
        (providers.build(&config), providers)
    };
    let mut servers: Vec<_> = stores.iter().map(started).collect();
    let mut sent = [0; 3];
    let mut ages_ms = Vec::new();
    for number in 0..SENDS {
        let turn = usize::try_from(number).unwrap() % servers.len();
        let (apns, providers) = &servers[turn];
        let answer = attempt(apns, ProviderKind::Apns, &ScriptedResponse::ok()).await;
        assert_eq!(describe(&answer), "delivered", "the {number}th");
        ages_ms.push(providers.token_ages_ms()[0].1);
        sent[turn] += 1;
        if sent[turn] % SENDS_PER_START == 0 {
            servers[turn] = started(&stores[turn]);
        }
        fixture.advance(Duration::from_millis(DAY_S * 1_000 / SENDS));
    }
    let counts = fixture.sandbox.counts();
    assert_eq!((counts.received, counts.accepted), (SENDS, SENDS));
    let oldest_ms = ages_ms.iter().max().unwrap();
    assert!(*oldest_ms <= AGE_MS_MAX, "{oldest_ms} ms old");
    // A token was just signed if its age is zero.
    let signed = ages_ms.iter().filter(|age_ms| **age_ms == 0).count();
    assert!((24..=29).contains(&signed), "{signed} signed: one in 50 minutes for all");
    for store in stores {
        store.close().await;
    }
}
