//! Rows of every kind that an application can have, made by the operations: for what has to hold for
//! all tables.

use notify_core::ProviderKind;

use super::given::{self, NOW, android};
use super::{breakers, dead, feeds, polls, upkeep, web, webhooks};
use crate::store::{AppNo, Store};

/// Gives a new application one row at least in every table that can have rows of one, once the store is
/// closed. `nth` tells it from others.
pub async fn of_an_app(store: &Store, nth: u8) -> AppNo {
    let (id, app) = given::named_app(store, &format!("App {nth}")).await;
    store.add_key(id, given::key(nth)).await.unwrap();
    given::provider(store, id, ProviderKind::Fcm).await;
    upkeep::ended(store, app).await;
    dead::one_of_each(store, app).await;
    let once = Some(given::once("/v1/devices", "k", nth));
    store.register_device(app, android("d001"), NOW.plus_ms(5_000), once).await.unwrap();
    given::tagged(store, app, "d001", "news", true).await;
    feeds::one_of_each(store, app).await;
    polls::one_of_each(store, app, "d001").await;
    webhooks::one_of_each(store, app, "d001").await;
    web::one_of_each(store, (id, app)).await;
    breakers::one_of_each(store, app).await;
    app
}
