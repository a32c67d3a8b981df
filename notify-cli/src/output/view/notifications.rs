//! Columns of notifications, of what became of them, and of previews.

use super::super::cell::Kind;
use super::{Column, View, column, count, listed, nested, one, plain, text, time, whole};

const NOTIFICATION_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    plain("status", "/status"),
    time("created_at", "/created_at"),
    column("text", "/request", Kind::Message),
    column("devices", "", Kind::Counts),
];
const NOTIFICATION_EXPORT: &[Column] = &[
    plain("id", "/id"),
    plain("status", "/status"),
    plain("origin", "/origin"),
    plain("text", "/request/text"),
    plain("poll", "/request/poll/text"),
    time("created_at", "/created_at"),
    time("send_at", "/send_at"),
    plain("targeted", "/counts/targeted"),
    plain("sent", "/counts/sent"),
    plain("failed", "/counts/failed"),
    plain("unregistered", "/counts/unregistered"),
    plain("expired", "/counts/expired"),
    plain("canceled", "/counts/canceled"),
    plain("pending", "/counts/pending"),
];
pub(crate) const NOTIFICATIONS: View =
    listed("notifications", NOTIFICATION_COLUMNS, NOTIFICATION_EXPORT).headed(3);
pub(crate) const NOTIFICATION: View = one(&[
    plain("id", "/id"),
    plain("status", "/status"),
    plain("origin", "/origin"),
    time("created_at", "/created_at"),
    time("send_at", "/send_at"),
    time("started_at", "/started_at"),
    time("completed_at", "/completed_at"),
    nested("request", "/request"),
    count("targeted", "/counts/targeted"),
    count("sent", "/counts/sent"),
    count("failed", "/counts/failed"),
    count("unregistered", "/counts/unregistered"),
    count("expired", "/counts/expired"),
    count("canceled", "/counts/canceled"),
    count("pending", "/counts/pending"),
    count("unknown", "/counts/unknown"),
    count("excluded", "/counts/excluded"),
    column("failures", "/failures", Kind::Failures),
    count("received", "/engagement/received"),
    count("opened", "/engagement/opened"),
    count("clicked", "/engagement/clicked"),
    count("dismissed", "/engagement/dismissed"),
]);

const DELIVERY_EXPORT: &[Column] = &[
    text("device_id", "/device_id"),
    plain("platform", "/platform"),
    plain("outcome", "/outcome"),
    text("reason", "/reason"),
    plain("attempts", "/attempts"),
    text("provider_message_id", "/provider_message_id"),
    time("at", "/at"),
    time("next_attempt_at", "/next_attempt_at"),
];
pub(crate) const DELIVERIES: View = listed(
    "deliveries",
    &[
        text("device_id", "/device_id"),
        plain("platform", "/platform"),
        plain("outcome", "/outcome"),
        time("at", "/at"),
        plain("attempts", "/attempts"),
        text("reason", "/reason"),
        time("next_attempt_at", "/next_attempt_at"),
    ],
    DELIVERY_EXPORT,
)
.headed(4);

pub(crate) const PREVIEW: View = listed(
    "platforms",
    &[
        plain("platform", "/platform"),
        plain("devices", "/devices"),
        plain("bytes", "/bytes"),
        plain("limit", "/limit"),
        column("payload", "/payload", Kind::Payload),
        column("problems", "/problems", Kind::Lines),
    ],
    &[
        plain("platform", "/platform"),
        plain("devices", "/devices"),
        plain("bytes", "/bytes"),
        plain("limit", "/limit"),
        plain("payload", "/payload"),
        plain("headers", "/headers"),
        plain("problems", "/problems"),
    ],
);

pub(crate) const EXPLANATION: View = listed(
    "steps",
    &[column("at", "/at", Kind::Step), plain("what", "/what"), whole("detail", "/detail")],
    &[time("at", "/at"), plain("what", "/what"), text("detail", "/detail")],
)
.headed(2);
