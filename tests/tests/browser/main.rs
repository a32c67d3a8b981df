//! The SDK for browsers in a real one: Chromium runs the example page and its service worker against
//! a server. Headless Chromium has no push service, so that the sandbox's subscription stands in for
//! `pushManager.subscribe`, and what the server really sent there is delivered by `DevTools`. Firefox
//! has one that the tests run, and gets its message the whole way.

mod coexistence;
mod firefox;
mod renewing;
mod reporting;
mod sandbox_page;
mod stage;
mod subscribing;
mod worker;
