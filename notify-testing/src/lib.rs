//! A Notify server inside the tests of a backend.
//!
//! [`TestServer::start`] starts the real server in the process of the test, on a free port, with its data in a
//! temporary folder. The sandbox is its APNs, FCM, Web Push, Messenger and Telegram, so no message leaves the
//! machine. A test points its backend at the server, and asserts what reached which device:
//!
//! ```
//! use notify_core::CreateNotification;
//! use notify_testing::{TestServer, assert_delivered, assert_not_delivered};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), notify_client::Error> {
//! let notify = TestServer::start().await;
//! notify.register_android("phone-1").await;
//! notify.register_ios("phone-2").await;
//!
//! // The backend under test does this with the url `notify.url()` and the key `notify.api_key()`.
//! let shipped = CreateNotification::to_any_devices(["phone-1"], "Your order has shipped").unwrap();
//! notify.client().notifications().create(&shipped).await?;
//!
//! assert_delivered!(notify, to: "phone-1", text: "Your order has shipped");
//! assert_not_delivered!(notify, to: "phone-2");
//! # notify.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//!
//! The clock of the server runs. [`TestServer::advance`] moves it forward at once; scheduled notifications,
//! retries and expiries on the way happen at their time and in their order:
//!
//! ```
//! # use std::time::Duration;
//! # use notify_core::CreateNotification;
//! # use notify_testing::{TestServer, assert_delivered, assert_not_delivered};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), notify_client::Error> {
//! let notify = TestServer::start().await;
//! notify.register_android("phone-1").await;
//! let in_two_hours = notify.now().plus_ms(2 * 3_600_000);
//! let reminder = CreateNotification::to_any_devices(["phone-1"], "Your table is ready").unwrap();
//! notify.client().notifications().create(&reminder.send_at(in_two_hours)).await?;
//!
//! assert_not_delivered!(notify, to: "phone-1");
//! notify.advance(Duration::from_hours(2)).await;
//! assert_delivered!(notify, to: "phone-1", text: "Your table is ready");
//! # notify.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The test and `notify_client` keep the real time. After `advance`, check webhook messages with
//! `Verifier::check_at` and the time [`TestServer::now`].
//!
//! # Failures
//!
//! [`TestServer::fail_next`] makes the provider of one device fail, and [`TestServer::fail`] the provider of a
//! platform:
//!
//! ```
//! # use std::time::Duration;
//! # use notify_core::CreateNotification;
//! # use notify_testing::{Failure, TestServer, assert_delivered, assert_not_delivered};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), notify_client::Error> {
//! let notify = TestServer::start().await;
//! notify.register_ios("phone-2").await;
//! notify.fail_next("phone-2", Failure::Unavailable, 2).await;
//! let hello = CreateNotification::to_any_devices(["phone-2"], "Hello").unwrap();
//! notify.client().notifications().create(&hello).await?;
//!
//! assert_not_delivered!(notify, to: "phone-2");
//! // The server tries again with growing delays.
//! notify.advance(Duration::from_mins(5)).await;
//! assert_delivered!(notify, to: "phone-2", text: "Hello");
//! assert_eq!(notify.attempts_to("phone-2").await.len(), 3);
//! # notify.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The methods of [`TestServer`] panic when a step fails, so a test needs no error handling. The message names the
//! step and the cause.
#![deny(missing_docs)]

mod expectation;
mod server;

pub use expectation::{DeliveryMismatch, Expectation};
pub use notify_client;
pub use notify_core;
pub use notify_sandbox;
pub use notify_server::test_server::{ADVANCE_MAX, Failure, Message, SETTLE_MAX, STOPS_MAX};
pub use server::TestServer;

/// Compiles the example of the README of the crate.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
