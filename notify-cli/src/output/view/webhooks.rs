//! Columns of webhooks and of what was sent to them.

use super::{Column, View, many, one, plain, text, time};

pub(crate) const WEBHOOK_CREATED: View = one(&[plain("id", "/id"), plain("secret", "/secret")]);
pub(crate) const WEBHOOK_RECOVERED: View =
    one(&[plain("recovered", "/recovered"), plain("more", "/more")]);
pub(crate) const WEBHOOKS: View = many(
    "webhooks",
    &[
        plain("id", "/id"),
        text("url", "/url"),
        plain("enabled", "/enabled"),
        plain("disabled_reason", "/disabled_reason"),
        plain("pending", "/pending"),
        plain("dropped", "/dropped"),
    ],
);
const ATTEMPT_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    plain("event", "/event"),
    plain("outcome", "/outcome"),
    plain("attempts", "/attempts"),
    plain("status", "/status"),
    plain("reason", "/reason"),
    plain("latency_ms", "/latency_ms"),
    time("next_attempt_at", "/next_attempt_at"),
];
pub(crate) const WEBHOOK_ATTEMPT: View = one(ATTEMPT_COLUMNS);
pub(crate) const WEBHOOK_ATTEMPTS: View = many("attempts", ATTEMPT_COLUMNS);
