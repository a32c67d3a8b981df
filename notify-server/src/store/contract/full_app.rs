//! An application with rows in every table, for checks of all tables.

use notify_core::{KeyTerms, ProviderKind};

use super::fixtures::{self, NOW, android};
use super::{breakers, erasures, feeds, maintenance, polls, unregistered, users, web, webhooks};
use crate::store::{AppNo, Store};

/// Creates an application with at least one row in every table that can have rows of one, once the
/// store is closed. `nth` distinguishes several.
pub(crate) async fn of_an_app(store: &Store, nth: u8) -> AppNo {
    let (id, app) = fixtures::named_app(store, &format!("App {nth}")).await;
    store.add_key(id, fixtures::key(nth), KeyTerms::default()).await.unwrap();
    fixtures::provider(store, id, ProviderKind::Fcm).await;
    maintenance::ended(store, app).await;
    unregistered::one_of_each(store, app).await;
    let once = Some(fixtures::once("/v1/devices", "k", nth));
    store.register_device(app, android("d001"), NOW.plus_ms(5_000), once).await.unwrap();
    fixtures::tagged(store, app, "d001", "news", true).await;
    feeds::one_of_each(store, app).await;
    polls::one_of_each(store, app, "d001").await;
    webhooks::one_of_each(store, app, "d001").await;
    web::one_of_each(store, id, app).await;
    breakers::one_of_each(store, app).await;
    users::one_of_each(store, app, "d001").await;
    erasures::one_of_each(store, app).await;
    app
}
