//! The browser SDK in real browsers. Chromium runs the example page and its service worker against a server.
//! Headless Chromium has no push service, so the sandbox's subscription replaces `pushManager.subscribe`, and
//! `DevTools` delivers the messages that the server sent to the sandbox. Firefox uses a push service that the
//! tests run, and gets its messages over the network.

mod coexistence;
mod firefox;
mod renewing;
mod reporting;
mod sandbox_page;
mod stage;
mod subscribing;
mod worker;
