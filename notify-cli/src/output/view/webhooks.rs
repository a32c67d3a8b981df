//! Columns of webhooks and of what was sent to them.

use super::super::cell::Kind;
use super::{Column, View, column, count, listed, one, plain, record, text, time};

pub(crate) const WEBHOOK_CREATED: View = one(&[plain("id", "/id"), plain("secret", "/secret")]);
pub(crate) const WEBHOOK_RECOVERED: View =
    one(&[plain("recovered", "/recovered"), plain("more", "/more")]);
pub(crate) const WEBHOOKS: View = listed(
    "webhooks",
    &[
        plain("id", "/id"),
        column("state", "", Kind::Webhook),
        text("url", "/url"),
        count("pending", "/pending"),
        count("dropped", "/dropped"),
    ],
    &[
        plain("id", "/id"),
        text("url", "/url"),
        plain("enabled", "/enabled"),
        plain("disabled_reason", "/disabled_reason"),
        plain("pending", "/pending"),
        plain("dropped", "/dropped"),
    ],
)
.headed(2);
const ATTEMPT_EXPORT: &[Column] = &[
    plain("id", "/id"),
    plain("event", "/event"),
    plain("outcome", "/outcome"),
    plain("attempts", "/attempts"),
    plain("status", "/status"),
    plain("reason", "/reason"),
    plain("latency_ms", "/latency_ms"),
    time("next_attempt_at", "/next_attempt_at"),
];
const ATTEMPT_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    plain("event", "/event"),
    plain("outcome", "/outcome"),
    time("last_attempt_at", "/last_attempt_at"),
    column("failure", "", Kind::Attempt),
    plain("attempts", "/attempts"),
    plain("latency_ms", "/latency_ms"),
    time("next_attempt_at", "/next_attempt_at"),
];
pub(crate) const WEBHOOK_ATTEMPT: View = record(ATTEMPT_COLUMNS, ATTEMPT_EXPORT);
pub(crate) const WEBHOOK_ATTEMPTS: View =
    listed("attempts", ATTEMPT_COLUMNS, ATTEMPT_EXPORT).headed(3);
