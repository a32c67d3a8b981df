//! The handlers: one file per resource.

pub(super) mod admin;
pub(super) mod app_devices;
pub(super) mod campaigns;
pub(super) mod devices;
pub(super) mod docs_page;
pub(super) mod enrichments;
pub(super) mod event_stream;
pub(super) mod explain;
pub(super) mod feeds;
pub(super) mod notifications;
pub(super) mod own_device;
pub(super) mod poll_page;
pub(super) mod polls;
pub(super) mod preview;
pub(super) mod probes;
pub(super) mod sdk;
pub(super) mod segments;
pub(super) mod statistics;
pub(super) mod users;
pub(super) mod web;
pub(super) mod webhooks;
