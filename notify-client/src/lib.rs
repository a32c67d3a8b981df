//! The typed SDK of the Notify server.
//!
//! One [`Client`], a handle per resource, the models of [`notify_core`] in and out:
//!
//! ```no_run
//! use notify_client::{Client, notify_core::{CreateNotification, Platform}};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let notify = Client::builder("https://notify.example.com").api_key("nk_…").build()?;
//! let hello = CreateNotification::to_platforms([Platform::Android, Platform::Ios], "Hello")
//!     .url("https://shop.example.com/sale");
//! let created = notify.notifications().create(&hello).await?;
//! println!("{}", notify.notifications().get(&created.id).await?.status.as_str());
//! # Ok(())
//! # }
//! ```
//!
//! # What a call does
//!
//! 1. The request is checked with the server's own rules. What breaks one is [`Error::Invalid`],
//!    with the server's own messages, and nothing is sent.
//! 2. It is sent, and sent again with growing delays when the network fails or the server asks for
//!    it (429, 502, 503, 504, and 409 with `Retry-After`). Every `POST` under `/v1` carries an
//!    `Idempotency-Key` that stays the same, so that a retry cannot do a thing twice. What the
//!    admin API creates is not sent again once the server may have done it.
//! 3. The answer is a model of [`notify_core`], or an [`Error`] that tells caller, network and
//!    server apart.
//!
//! `docs/rust.md` in the repository is a guide: errors, retries, streaming, webhooks, and how to test code
//! that uses this crate.
//!
//! # Features
//!
//! `rustls` (default) or `native-tls` for `https`; `blocking` for the same handles without `async`
//! in the module `blocking`.
#![deny(missing_docs)]

mod attempts;
#[cfg(feature = "blocking")]
pub mod blocking;
mod builder;
mod call;
mod client;
mod error;
mod handle;
mod page;
mod parameters;
mod resources;
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
pub use resources::{
    Admin, Campaigns, Devices, EnrichmentAnswer, Enrichments, Events, Feeds, Notifications, Polls,
    Readiness, Server, Statistics, Subscriptions, Tags, Webhooks,
};
pub use stream::{EventStream, Streamed};

/// The README's example is compiled like those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// So are those of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct Guide;
