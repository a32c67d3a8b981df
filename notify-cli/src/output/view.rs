//! The columns of tables and CSV files for each response.

use crate::output::cell::CellKind;

/// The columns of a response.
#[derive(Debug)]
pub(crate) struct View {
    /// The field that contains the records; `None` if the response is one record.
    pub(crate) list: Option<&'static str>,
    /// Plural noun for an empty list: `No devices.`
    pub(crate) noun: &'static str,
    /// The columns of a table.
    pub(crate) columns: &'static [Column],
    /// The columns of a CSV file.
    pub(crate) export: &'static [Column],
    /// How many columns identify a record. If a table does not fit into the width, these columns are on the
    /// first line of a record. The other columns follow, each on a line with its name.
    pub(crate) heading_columns: usize,
}

impl View {
    const fn with_heading_columns(self, heading_columns: usize) -> Self {
        Self { heading_columns, ..self }
    }

    const fn with_noun(self, noun: &'static str) -> Self {
        Self { noun, ..self }
    }
}

/// A column: its name, and the JSON pointer of its value in a record (RFC 6901).
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) pointer: &'static str,
    pub(crate) kind: CellKind,
    /// Whether the column is omitted if the table does not fit into the width.
    pub(crate) is_optional: bool,
}

impl Column {
    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }
}

const fn column(name: &'static str, pointer: &'static str, kind: CellKind) -> Column {
    Column { name, pointer, kind, is_optional: false }
}

const fn plain(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Plain)
}

const fn text(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Text)
}

const fn count(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Count)
}

const fn time(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Time)
}

/// Declares columns as `name: Kind = "pointer"`. Without a kind, it is `Plain`. Without a pointer, it is that
/// of the field with the column's name.
macro_rules! columns {
    (@kind) => { CellKind::Plain };
    (@kind $kind:ident) => { CellKind::$kind };
    (@pointer $name:ident) => { concat!("/", stringify!($name)) };
    (@pointer $name:ident $pointer:literal) => { $pointer };
    ($($name:ident $(: $kind:ident)? $(= $pointer:literal)?),* $(,)?) => {
        &[$(column(
            stringify!($name),
            columns!(@pointer $name $($pointer)?),
            columns!(@kind $($kind)?),
        )),*]
    };
}

/// A record with the same columns in a table and in CSV.
const fn one_record(columns: &'static [Column]) -> View {
    record_with_export(columns, columns)
}

/// A record whose columns in CSV differ from those in a table.
const fn record_with_export(columns: &'static [Column], export: &'static [Column]) -> View {
    View { list: None, noun: "", columns, export, heading_columns: 1 }
}

/// A listing with the same columns in a table and in CSV.
const fn listing(list: &'static str, columns: &'static [Column]) -> View {
    listing_with_export(list, columns, columns)
}

/// A listing whose columns in CSV differ from those in a table.
const fn listing_with_export(
    list: &'static str,
    columns: &'static [Column],
    export: &'static [Column],
) -> View {
    View { list: Some(list), noun: list, columns, export, heading_columns: 1 }
}

pub(crate) const SUCCESS: View = one_record(columns! { success });

pub(crate) const CREATED: View = one_record(columns! { id });
pub(crate) const USER_TOKEN: View = one_record(columns! { user_token, expires_at: Time });
pub(crate) const DEVICE_SECRET: View = one_record(columns! { device_id, device_secret });
pub(crate) const KEY_CREATED: View = one_record(columns! { id, api_key });

const DEVICE_FIELDS: &[Column] = columns! {
    device_id, platform, sdk_type, push_token, push_disabled, ios_env, subscription,
    recipient_id, android_id, ad_id, imei, sdk_version, app_version, os_version,
    store_identifier, timezone, country, utc_offset, language, device_description, tags, user_id,
    attributes, enabled, disabled_reason, created_at: Time, updated_at: Time,
};
const DEVICE_RECORD: &[Column] = columns! {
    device_id, platform, sdk_type, push_token, push_disabled, ios_env, subscription,
    recipient_id, address_problem, android_id, ad_id, imei, sdk_version, app_version, os_version,
    store_identifier, timezone, country, utc_offset, language, device_description, tags: Tags,
    user_id, attributes: Attributes, created_at: Time, updated_at: Time, state: DeviceState = "",
};
const DEVICE_COLUMNS: &[Column] = columns! {
    device_id: Text, platform, state: DeviceState = "", tags: Tags, updated_at: Time,
};
pub(crate) const DEVICES: View =
    listing_with_export("devices", DEVICE_COLUMNS, DEVICE_FIELDS).with_heading_columns(3);
pub(crate) const DEVICE: View = record_with_export(DEVICE_RECORD, DEVICE_FIELDS);

const USER_COLUMNS: &[Column] = columns! {
    user_id: Text, attributes: Attributes, devices: UserDevices, updated_at: Time,
};
const USER_EXPORT: &[Column] = columns! {
    user_id, attributes, devices, created_at: Time, updated_at: Time,
};
pub(crate) const USERS: View = listing_with_export("users", USER_COLUMNS, USER_EXPORT);
pub(crate) const USER: View = record_with_export(
    columns! {
        user_id, attributes: Attributes, devices: UserDevices, created_at: Time, updated_at: Time,
    },
    USER_EXPORT,
);

const SEGMENT_EXPORT: &[Column] = columns! { name, audience, created_at: Time, updated_at: Time };
pub(crate) const SEGMENTS: View = listing_with_export(
    "segments",
    columns! { name: Text, audience: Audience, updated_at: Time },
    SEGMENT_EXPORT,
);
pub(crate) const SEGMENT: View = record_with_export(
    columns! { name, audience: Audience, created_at: Time, updated_at: Time },
    SEGMENT_EXPORT,
);
pub(crate) const SEGMENT_PREVIEW: View =
    listing("platforms", columns! { platform, devices, exact });

pub(crate) const TAGS: View =
    listing("tags", &[text("name", "/name"), plain("type", "/type"), plain("devices", "/devices")]);

const FEED_EXPORT: &[Column] = columns! {
    id, name, url, status, items, last_fetched_at: Time, last_error, created_at: Time,
};
pub(crate) const FEEDS: View = listing_with_export(
    "feeds",
    columns! {
        id, status, name: Text, last_error: Whole, url: Text, items, last_fetched_at: Time,
    },
    FEED_EXPORT,
)
.with_heading_columns(2);

/// The items of a feed.
pub(crate) const FEED_CHECK: View =
    listing("items", columns! { title: Text, url: Text, image_url: Text, published_at: Time });

pub(crate) const POLL_ANSWERS: View =
    listing("answers", columns! { id, text: Text, image_url: Text, clicks, percentage });

pub(crate) const EVENTS_ACCEPTED: View = one_record(columns! { accepted, ignored: Ignored });

pub(crate) const ENRICHMENT: View = one_record(columns! {
    campaign_id, layout_id, settings: Nested, strings: Nested, features: Nested,
});

pub(crate) const DEVICE_STATISTICS: View = listing_with_export(
    "platforms",
    &[
        plain("platform", "/platform"),
        plain("enabled", "/enabled_count"),
        plain("disabled", "/disabled_count"),
        plain("total", "/total_count"),
        plain("enabled %", "/enabled_percentage"),
        plain("disabled %", "/disabled_percentage"),
    ],
    columns! {
        platform, enabled_count, disabled_count, total_count, enabled_percentage,
        disabled_percentage, total_enabled_percentage, total_disabled_percentage,
    },
);

pub(crate) const NOTIFICATION_STATISTICS: View = listing(
    "days",
    columns! {
        date: Day, sent, failed, unregistered, expired, received, opened, clicked, dismissed,
    },
)
.with_noun("days with counts");

const APP_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("language", "/language"),
    plain("status", "/status"),
    time("created_at", "/created_at").optional(),
];
pub(crate) const APPS: View = listing("apps", APP_COLUMNS).with_noun("applications");
pub(crate) const APP: View = one_record(&[
    plain("id", "/id"),
    text("name", "/name"),
    plain("language", "/language"),
    plain("status", "/status"),
    time("created_at", "/created_at"),
    plain("on_crash", "/on_crash"),
]);

pub(crate) const KEYS: View = listing_with_export(
    "keys",
    columns! {
        id, name: Text, hint, kind, scopes, expires_at: Time, created_at: Day, last_used_at: Day,
    },
    columns! {
        id, name, hint, last_used_at: Time, created_at: Time, scopes, expires_at: Time, kind,
        allowed_tags, allowed_attributes,
    },
)
.with_heading_columns(3)
.with_noun("API keys");

pub(crate) const ADMIN_KEY_CREATED: View = one_record(columns! { id, admin_key });
pub(crate) const ADMIN_KEYS: View = listing_with_export(
    "keys",
    columns! { id, name: Text, hint, created_at: Day, last_used_at: Day },
    columns! { id, name, hint, last_used_at: Time, created_at: Time },
)
.with_heading_columns(3)
.with_noun("admin keys");

pub(crate) const SESSIONS: View = listing_with_export(
    "sessions",
    columns! { id, key_id, address, created_at: Time, last_used_at: Time },
    columns! { id, key_id, address, created_at: Time, last_used_at: Time },
)
.with_noun("sessions");

pub(crate) const AUDIT: View = listing_with_export(
    "entries",
    columns! { at: Time, action, object: Text, app_id, key_name: Text, source, address },
    columns! { at: Time, action, app_id, object, key_id, key_name, address, source, request_id },
)
.with_noun("changes");

const PROVIDER_EXPORT: &[Column] = columns! { provider, config, updated_at: Time };
pub(crate) const PROVIDERS: View = listing_with_export(
    "providers",
    &[
        plain("provider", "/provider"),
        column("config", "/config", CellKind::Provider),
        column("deliveries", "/channel", CellKind::Channel),
        time("updated_at", "/updated_at").optional(),
    ],
    PROVIDER_EXPORT,
);
/// A provider and the fields of its configuration; only `-o json` contains a certificate.
pub(crate) const PROVIDER: View = record_with_export(
    columns! {
        provider, config: MissingConfig, team_id = "/config/team_id", key_id = "/config/key_id",
        topic = "/config/topic", subject = "/config/subject",
        vapid_public_key = "/config/vapid_public_key",
        project_id = "/config/service_account/project_id",
        client_email = "/config/service_account/client_email",
        token_uri = "/config/service_account/token_uri", endpoint = "/config/endpoint",
        sandbox_endpoint = "/config/sandbox_endpoint",
        enriched_as_data = "/config/enriched_as_data",
        rate_per_second = "/config/rate_per_second", deliveries: Channel = "/channel",
        updated_at: Time,
    },
    PROVIDER_EXPORT,
);

pub(crate) const PROVIDER_CHECKED: View =
    one_record(columns! { ok, detail: Text, deliveries: Channel = "/channel" });

/// In a table, [`PLAYGROUND_DEVICES`] follows.
pub(crate) const PLAYGROUND: View = record_with_export(
    columns! { app_id, api_key, started_at: Time },
    columns! { app_id, api_key, started_at: Time, devices },
);
pub(crate) const PLAYGROUND_DEVICES: View =
    listing("devices", columns! { device_id, platform, description: Whole });
pub(crate) const PLAYGROUND_MESSAGES: View = listing_with_export(
    "messages",
    columns! {
        at: Time, device_id: Text, platform, status = "/answer/status",
        reason: Text = "/answer/reason", payload: Payload,
    },
    columns! {
        at: Time, device_id, platform, is_credential_check, status = "/answer/status",
        reason = "/answer/reason", headers, payload,
    },
)
.with_heading_columns(5);

pub(crate) const DOCTOR: View =
    listing("checks", columns! { check, about: Text, ok, detail: Whole, hint: Whole, status });

pub(crate) const PROFILES: View =
    listing("profiles", columns! { name: Text, url: Text, api_key, admin_key, current });

// Campaigns, and their files.

const CAMPAIGN_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("status", "/status"),
    plain("is_default", "/is_default"),
    time("created_at", "/created_at").optional(),
];
pub(crate) const CAMPAIGNS: View = listing("campaigns", CAMPAIGN_COLUMNS);
pub(crate) const CAMPAIGN: View = one_record(columns! {
    id, name: Text, status, is_default, created_at: Time, layout_id = "/template/layout_id",
    settings: Nested = "/template/settings", strings: Nested = "/template/strings",
    features: Nested = "/template/features",
});

pub(crate) const CAMPAIGN_STEPS: View =
    listing("campaigns", columns! { name: Text, action, file: Text, changes: Lines });
pub(crate) const CAMPAIGN_FILES: View =
    listing("campaigns", columns! { name: Text, file: Text, written });

// Results of imports.

const IMPORTED_EXPORT: &[Column] = columns! {
    rows, registered, refused, refused_file, duplicates, left_out, devices, replaced,
    without_address, left_out_reasons: Nested,
};
/// In a table, the counts of devices and rows add up to `rows`.
pub(crate) const IMPORTED: View = record_with_export(
    &[
        plain("rows", "/rows"),
        plain("devices registered", "/devices"),
        plain("rows replaced by later ones", "/replaced"),
        plain("rows refused", "/refused"),
        plain("refused_file", "/refused_file"),
        plain("rows left out", "/left_out"),
        count("registered without an address", "/without_address"),
    ],
    IMPORTED_EXPORT,
);
pub(crate) const TAGGED: View = one_record(columns! { rows, tagged, refused, refused_file });
pub(crate) const IMPORTED_USERS: View =
    one_record(columns! { rows, imported, refused, refused_file });

// Notifications, deliveries, previews and explanations.

const NOTIFICATION_COLUMNS: &[Column] = columns! {
    id, status, created_at: Time, text: Message = "/request", devices: Counts = "",
};
const NOTIFICATION_EXPORT: &[Column] = columns! {
    id, status, origin, text = "/request/text", poll = "/request/poll/text",
    created_at: Time, send_at: Time,
    targeted = "/counts/targeted", sent = "/counts/sent", failed = "/counts/failed",
    unregistered = "/counts/unregistered", expired = "/counts/expired",
    canceled = "/counts/canceled", pending = "/counts/pending",
};
pub(crate) const NOTIFICATIONS: View =
    listing_with_export("notifications", NOTIFICATION_COLUMNS, NOTIFICATION_EXPORT)
        .with_heading_columns(3);
pub(crate) const NOTIFICATION: View = one_record(columns! {
    id, status, origin, created_at: Time, send_at: Time, started_at: Time, completed_at: Time,
    paused_at: Time = "/paused/at", paused_reason: Text = "/paused/reason", request: Nested, audience: Audience, targeted: Count = "/counts/targeted", sent: Count = "/counts/sent",
    failed: Count = "/counts/failed", unregistered: Count = "/counts/unregistered",
    expired: Count = "/counts/expired", canceled: Count = "/counts/canceled",
    pending: Count = "/counts/pending", unknown: Count = "/counts/unknown",
    excluded: Count = "/counts/excluded", users_named: Count = "/users/named",
    users_reached: Count = "/users/reached", users_unreached: Count = "/users/unreached",
    users_pending: Count = "/users/pending", users_unknown: Count = "/users/unknown",
    failures: Failures,
    received: Count = "/engagement/received", opened: Count = "/engagement/opened",
    clicked: Count = "/engagement/clicked", dismissed: Count = "/engagement/dismissed",
});

const DELIVERY_EXPORT: &[Column] = columns! {
    device_id, platform, outcome, reason, attempts, provider_message_id, at: Time,
    next_attempt_at: Time,
};
pub(crate) const DELIVERIES: View = listing_with_export(
    "deliveries",
    columns! {
        device_id: Text, platform, outcome, at: Time, attempts, reason: Text,
        next_attempt_at: Time,
    },
    DELIVERY_EXPORT,
)
.with_heading_columns(4);

pub(crate) const NOTIFICATION_USERS: View =
    listing("users", columns! { user_id: Text, state, devices });

pub(crate) const PREVIEW: View = listing_with_export(
    "platforms",
    columns! {
        platform, devices, bytes, limit, payload: Payload, languages: Languages, problems: Lines,
    },
    columns! { platform, devices, bytes, limit, payload, headers, problems },
);

/// The explanations of several devices in CSV, a step a row. In a table, each has an [`EXPLANATION`].
pub(crate) const EXPLANATIONS: View =
    listing("steps", columns! { device_id: Text, at: Step, what, detail: Whole });
pub(crate) const EXPLANATION: View = listing_with_export(
    "steps",
    columns! { at: Step, what, detail: Whole },
    columns! { at: Time, what, detail },
)
.with_heading_columns(2);

// Web access.

pub(crate) const WEB_ACCESS: View =
    one_record(columns! { allowed_origins, allowed_tags, push_services });

// Webhooks and their messages.

pub(crate) const WEBHOOK_CREATED: View = one_record(columns! { id, secret });
pub(crate) const WEBHOOK_RECOVERED: View = one_record(columns! { recovered, more });
pub(crate) const WEBHOOKS: View = listing_with_export(
    "webhooks",
    columns! {
        id, state: Webhook = "", url: Text, pending: Count, dropped: Count,
    },
    columns! { id, url, enabled, disabled_reason, pending, dropped },
)
.with_heading_columns(2);
pub(crate) const EVENT_TYPES: View = listing("types", columns! { type, how: Whole });
const ATTEMPT_EXPORT: &[Column] = columns! {
    id, event, outcome, attempts, status, reason, latency_ms, next_attempt_at: Time,
};
const ATTEMPT_COLUMNS: &[Column] = columns! {
    id, event, outcome, last_attempt_at: Time, failure: Attempt = "", attempts, latency_ms,
    next_attempt_at: Time,
};
pub(crate) const WEBHOOK_ATTEMPT: View = record_with_export(ATTEMPT_COLUMNS, ATTEMPT_EXPORT);
pub(crate) const WEBHOOK_ATTEMPTS: View =
    listing_with_export("attempts", ATTEMPT_COLUMNS, ATTEMPT_EXPORT).with_heading_columns(3);

#[cfg(test)]
mod tests {
    use super::*;

    /// The views with columns of their own for CSV.
    const EXPORTS: [&View; 17] = [
        &DEVICES,
        &USERS,
        &SEGMENTS,
        &FEEDS,
        &FEED_CHECK,
        &NOTIFICATION_STATISTICS,
        &APPS,
        &KEYS,
        &ADMIN_KEYS,
        &SESSIONS,
        &AUDIT,
        &PROVIDERS,
        &PLAYGROUND_MESSAGES,
        &NOTIFICATIONS,
        &DELIVERIES,
        &EXPLANATION,
        &WEBHOOK_ATTEMPTS,
    ];

    /// A spreadsheet shows unix milliseconds as a number that nobody can read.
    #[test]
    fn times_are_times_in_csv() {
        let is_time = |name: &str| name.ends_with("_at") || ["at", "date"].contains(&name);
        for column in EXPORTS.iter().flat_map(|view| view.export) {
            let is_of_kind = matches!(column.kind, CellKind::Time | CellKind::Day | CellKind::Step);
            assert_eq!(is_of_kind, is_time(column.name), "{}", column.name);
        }
    }
}
