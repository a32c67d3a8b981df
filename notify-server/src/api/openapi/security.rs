//! How each endpoint is authenticated.

use http::Method;

use crate::api::path::segments;
use crate::api::router::Endpoint;

pub(super) const API_KEY: &str = "api_key";
pub(super) const ADMIN_KEY: &str = "admin_key";
pub(super) const ADMIN_KEY_HEADER: &str = "admin_key_header";
pub(super) const PUBLISHABLE_KEY: &str = "publishable_key";
pub(super) const DEVICE_SECRET: &str = "device_secret";

/// The credentials that a request needs: one of the lists, and everything in it.
pub(super) fn security_schemes(template: &str) -> &'static [&'static [&'static str]] {
    let has_device = template.contains("{device_id}");
    match segments(template).next() {
        Some("v1") => &[&[API_KEY]],
        Some("admin") => &[&[ADMIN_KEY], &[ADMIN_KEY_HEADER]],
        Some("device") if has_device => &[&[PUBLISHABLE_KEY, DEVICE_SECRET]],
        Some("device") => &[&[PUBLISHABLE_KEY]],
        Some("web") if has_device => &[&[DEVICE_SECRET]],
        _ => &[],
    }
}

/// Whether the request accepts an `Idempotency-Key`.
pub(super) fn takes_idempotency_key(route: &Endpoint) -> bool {
    route.method == Method::POST && security_schemes(route.path) == [[API_KEY]]
}
