//! The typed SDK of the Notify server.
//!
//! One [`Client`] with a handle for each resource, and the models of [`notify_core`] for requests and
//! responses:
//!
//! ```no_run
//! use notify_client::{Client, notify_core::CreateNotification};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let notify = Client::builder("https://notify.example.com").api_key("nk_…").build()?;
//! let shipped = CreateNotification::to_users(["user-7"], "Your order has shipped")?
//!     .url("https://shop.example.com/orders/4711");
//! let created = notify.notifications().create(&shipped).await?;
//! println!("{}", notify.notifications().get(&created.id).await?.status.as_str());
//! # Ok(())
//! # }
//! ```
//!
//! A notification begins with one of these constructors, which set the recipients. Its other methods add
//! the rest, such as [`title`], [`tag`], [`audience`] or [`send_at`].
//!
//! | constructor of [`CreateNotification`] | recipients |
//! |---|---|
//! | [`to_users`] | all devices of these users |
//! | [`to_any_devices`] | these devices, of any platform |
//! | [`to_platforms`] | every device of these platforms; with [`tag`] or [`audience`] fewer |
//! | [`to_devices`] | devices of one platform |
//! | [`silent_to_platforms`] | as `to_platforms`, and shows nothing: it wakes the app |
//! | [`poll`] | as `to_platforms`, with answers to choose from |
//!
//! [`CreateNotification`]: notify_core::CreateNotification
//! [`to_users`]: notify_core::CreateNotification::to_users
//! [`to_any_devices`]: notify_core::CreateNotification::to_any_devices
//! [`to_platforms`]: notify_core::CreateNotification::to_platforms
//! [`to_devices`]: notify_core::CreateNotification::to_devices
//! [`silent_to_platforms`]: notify_core::CreateNotification::silent_to_platforms
//! [`poll`]: notify_core::CreateNotification::poll
//! [`title`]: notify_core::CreateNotification::title
//! [`tag`]: notify_core::CreateNotification::tag
//! [`audience`]: notify_core::CreateNotification::audience
//! [`send_at`]: notify_core::CreateNotification::send_at
//!
//! # Steps of a call
//!
//! 1. The client validates the request with the server's own rules. It does not send an invalid request:
//!    the call ends with [`Error::Invalid`], which has the messages that the server would return.
//! 2. The client sends the request. It retries with growing delays when the network fails or the server
//!    asks for it (429, 502, 503, 504, and 409 with `Retry-After`). Every `POST` under `/v1` carries an
//!    `Idempotency-Key` that all attempts share, so that a retry cannot execute the call twice. The admin
//!    API takes no such key: a `POST` to it is not retried if the server may have executed the call.
//! 3. The call returns a model of [`notify_core`], or an [`Error`] that distinguishes the caller's
//!    mistakes, network failures and server failures.
//!
//! `docs/rust.md` in the repository is a guide to errors, retries, streaming, webhooks, and tests of code
//! that uses this crate.
//!
//! # Features
//!
//! - `rustls` (default) or `native-tls`: `https`. With both, clients use rustls.
//! - `http2`: HTTP/2 over TLS, with fewer connections when many calls run at once
//! - `blocking`: the same handles without `async`, in the module `blocking`
#![deny(missing_docs)]

#[cfg(feature = "blocking")]
pub mod blocking;
mod builder;
mod call;
mod client;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing {
    //! Properties of readers, which the targets in `fuzz/` check.
    pub use crate::stream::fuzzing::sse;
}
mod handle;
mod page;
mod proxy;
mod query;
mod request;
mod resources;
mod retry;
mod stream;
pub mod webhook;

pub use builder::{
    CONNECT_TIMEOUT_DEFAULT, ClientBuilder, DELAY_MAX_DEFAULT, DELAY_MIN_DEFAULT, RETRIES_DEFAULT,
    TIMEOUT_DEFAULT,
};
pub use client::Client;
pub use error::{Error, KeyKind, RETRY_AFTER_MAX};
pub use notify_core;
pub use page::{Page, Pages};
pub use proxy::proxy_of;
pub use resources::{
    Admin, Campaigns, Devices, EnrichmentResponse, Enrichments, Events, Feeds, Notifications,
    Polls, Readiness, Segments, Server, Statistics, Subscriptions, Tags, Users, Webhooks,
};
pub use stream::{EventStream, StreamItem};

fn now() -> notify_core::Timestamp {
    notify_core::Timestamp::from_ms(jiff::Timestamp::now().as_millisecond())
}

/// Compiles the example of the README of the crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
