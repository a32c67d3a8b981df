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
    /// How many columns identify a record. If a table does not fit, they are on the first line of a
    /// record, and the others follow with their names.
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
    /// Whether a table omits the column if it does not fit.
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

const fn whole(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Whole)
}

const fn nested(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Nested)
}

const fn count(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Count)
}

const fn tags(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Tags)
}

const fn time(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Time)
}

const fn day(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, CellKind::Day)
}

const fn one(columns: &'static [Column]) -> View {
    record(columns, columns)
}

/// A record with other columns in CSV than in a table.
const fn record(columns: &'static [Column], export: &'static [Column]) -> View {
    View { list: None, noun: "", columns, export, heading_columns: 1 }
}

const fn many(list: &'static str, columns: &'static [Column]) -> View {
    listed(list, columns, columns)
}

/// A listing with other columns in CSV than in a table.
const fn listed(list: &'static str, columns: &'static [Column], export: &'static [Column]) -> View {
    View { list: Some(list), noun: list, columns, export, heading_columns: 1 }
}

pub(crate) const SUCCESS: View = one(&[plain("success", "/success")]);

pub(crate) const CREATED: View = one(&[plain("id", "/id")]);
pub(crate) const KEY_CREATED: View = one(&[plain("id", "/id"), plain("api_key", "/api_key")]);

/// The fields of a device as columns, followed by others.
macro_rules! device_fields {
    ($($other:expr,)*) => {
        &[
            plain("device_id", "/device_id"),
            plain("platform", "/platform"),
            plain("sdk_type", "/sdk_type"),
            plain("push_token", "/push_token"),
            plain("push_disabled", "/push_disabled"),
            plain("ios_env", "/ios_env"),
            plain("subscription", "/subscription"),
            plain("recipient_id", "/recipient_id"),
            plain("android_id", "/android_id"),
            plain("ad_id", "/ad_id"),
            plain("imei", "/imei"),
            plain("sdk_version", "/sdk_version"),
            plain("app_version", "/app_version"),
            plain("os_version", "/os_version"),
            plain("store_identifier", "/store_identifier"),
            plain("timezone", "/timezone"),
            plain("country", "/country"),
            plain("utc_offset", "/utc_offset"),
            plain("language", "/language"),
            plain("device_description", "/device_description"),
            tags("tags", "/tags"),
            plain("enabled", "/enabled"),
            plain("disabled_reason", "/disabled_reason"),
            time("created_at", "/created_at"),
            time("updated_at", "/updated_at"),
            $($other,)*
        ]
    };
}

const DEVICE_COLUMNS: &[Column] = &[
    text("device_id", "/device_id"),
    plain("platform", "/platform"),
    column("state", "", CellKind::DeviceState),
    tags("tags", "/tags"),
    time("updated_at", "/updated_at"),
];
pub(crate) const DEVICES: View =
    listed("devices", DEVICE_COLUMNS, DEVICE_FIELDS).with_heading_columns(3);
pub(crate) const DEVICE: View =
    record(device_fields!(column("state", "", CellKind::DeviceState),), DEVICE_FIELDS);
const DEVICE_FIELDS: &[Column] = device_fields!();

pub(crate) const TAGS: View =
    many("tags", &[text("name", "/name"), plain("type", "/type"), plain("devices", "/devices")]);

const FEED_EXPORT: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    text("url", "/url"),
    plain("status", "/status"),
    plain("items", "/items"),
    time("last_fetched_at", "/last_fetched_at"),
    text("last_error", "/last_error"),
    time("created_at", "/created_at"),
];
pub(crate) const FEEDS: View = listed(
    "feeds",
    &[
        plain("id", "/id"),
        plain("status", "/status"),
        text("name", "/name"),
        whole("last_error", "/last_error"),
        text("url", "/url"),
        plain("items", "/items"),
        time("last_fetched_at", "/last_fetched_at"),
    ],
    FEED_EXPORT,
)
.with_heading_columns(2);

/// The items of a feed.
pub(crate) const FEED_CHECK: View = many(
    "items",
    &[
        text("title", "/title"),
        text("url", "/url"),
        text("image_url", "/image_url"),
        time("published_at", "/published_at"),
    ],
);

pub(crate) const POLL_ANSWERS: View = many(
    "answers",
    &[
        plain("id", "/id"),
        text("text", "/text"),
        text("image_url", "/image_url"),
        plain("clicks", "/clicks"),
        plain("percentage", "/percentage"),
    ],
);

pub(crate) const EVENTS_ACCEPTED: View =
    one(&[plain("accepted", "/accepted"), column("ignored", "/ignored", CellKind::Ignored)]);

pub(crate) const ENRICHMENT: View = one(&[
    plain("campaign_id", "/campaign_id"),
    plain("layout_id", "/layout_id"),
    nested("settings", "/settings"),
    nested("strings", "/strings"),
    nested("features", "/features"),
]);

pub(crate) const DEVICE_STATISTICS: View = listed(
    "platforms",
    &[
        plain("platform", "/platform"),
        plain("enabled", "/enabled_count"),
        plain("disabled", "/disabled_count"),
        plain("total", "/total_count"),
        plain("enabled %", "/enabled_percentage"),
        plain("disabled %", "/disabled_percentage"),
    ],
    &[
        plain("platform", "/platform"),
        plain("enabled_count", "/enabled_count"),
        plain("disabled_count", "/disabled_count"),
        plain("total_count", "/total_count"),
        plain("enabled_percentage", "/enabled_percentage"),
        plain("disabled_percentage", "/disabled_percentage"),
        plain("total_enabled_percentage", "/total_enabled_percentage"),
        plain("total_disabled_percentage", "/total_disabled_percentage"),
    ],
);

pub(crate) const NOTIFICATION_STATISTICS: View = many(
    "days",
    &[
        day("date", "/date"),
        plain("sent", "/sent"),
        plain("received", "/received"),
        plain("opened", "/opened"),
        plain("clicked", "/clicked"),
        plain("dismissed", "/dismissed"),
    ],
)
.with_noun("days with counts");

const APP_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("language", "/language"),
    plain("status", "/status"),
    time("created_at", "/created_at").optional(),
];
pub(crate) const APPS: View = many("apps", APP_COLUMNS).with_noun("applications");
pub(crate) const APP: View = one(APP_COLUMNS);

pub(crate) const KEYS: View = listed(
    "keys",
    &[
        plain("id", "/id"),
        text("name", "/name"),
        plain("hint", "/hint"),
        day("created_at", "/created_at"),
        day("last_used_at", "/last_used_at"),
    ],
    &[
        plain("id", "/id"),
        text("name", "/name"),
        plain("hint", "/hint"),
        day("last_used_at", "/last_used_at"),
        time("created_at", "/created_at"),
    ],
)
.with_heading_columns(3)
.with_noun("API keys");

const PROVIDER_EXPORT: &[Column] = &[
    plain("provider", "/provider"),
    plain("config", "/config"),
    time("updated_at", "/updated_at"),
];
pub(crate) const PROVIDERS: View = listed(
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
pub(crate) const PROVIDER: View = record(
    &[
        plain("provider", "/provider"),
        column("config", "/config", CellKind::MissingConfig),
        plain("team_id", "/config/team_id"),
        plain("key_id", "/config/key_id"),
        plain("topic", "/config/topic"),
        plain("subject", "/config/subject"),
        plain("vapid_public_key", "/config/vapid_public_key"),
        plain("project_id", "/config/service_account/project_id"),
        plain("client_email", "/config/service_account/client_email"),
        plain("token_uri", "/config/service_account/token_uri"),
        plain("endpoint", "/config/endpoint"),
        plain("sandbox_endpoint", "/config/sandbox_endpoint"),
        plain("enriched_as_data", "/config/enriched_as_data"),
        plain("rate_per_second", "/config/rate_per_second"),
        column("deliveries", "/channel", CellKind::Channel),
        time("updated_at", "/updated_at"),
    ],
    PROVIDER_EXPORT,
);

pub(crate) const PROVIDER_CHECKED: View = one(&[
    plain("ok", "/ok"),
    text("detail", "/detail"),
    column("deliveries", "/channel", CellKind::Channel),
]);

pub(crate) const DOCTOR: View = many(
    "checks",
    &[
        plain("check", "/check"),
        text("about", "/about"),
        plain("ok", "/ok"),
        whole("detail", "/detail"),
        whole("hint", "/hint"),
        plain("status", "/status"),
    ],
);

pub(crate) const PROFILES: View = many(
    "profiles",
    &[
        text("name", "/name"),
        text("url", "/url"),
        plain("api_key", "/api_key"),
        plain("admin_key", "/admin_key"),
        plain("current", "/current"),
    ],
);

// Campaigns, and their files.

const CAMPAIGN_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("status", "/status"),
    plain("is_default", "/is_default"),
    time("created_at", "/created_at").optional(),
];
pub(crate) const CAMPAIGNS: View = many("campaigns", CAMPAIGN_COLUMNS);
pub(crate) const CAMPAIGN: View = one(&[
    plain("id", "/id"),
    text("name", "/name"),
    plain("status", "/status"),
    plain("is_default", "/is_default"),
    time("created_at", "/created_at"),
    plain("layout_id", "/template/layout_id"),
    nested("settings", "/template/settings"),
    nested("strings", "/template/strings"),
    nested("features", "/template/features"),
]);

pub(crate) const CAMPAIGN_STEPS: View = many(
    "campaigns",
    &[
        text("name", "/name"),
        plain("action", "/action"),
        text("file", "/file"),
        column("changes", "/changes", CellKind::Lines),
    ],
);
pub(crate) const CAMPAIGN_FILES: View = many(
    "campaigns",
    &[text("name", "/name"), text("file", "/file"), plain("written", "/written")],
);

// Results of imports.

const IMPORTED_EXPORT: &[Column] = &[
    plain("rows", "/rows"),
    plain("registered", "/registered"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
    plain("duplicates", "/duplicates"),
    plain("left_out", "/left_out"),
    plain("devices", "/devices"),
    plain("replaced", "/replaced"),
    plain("without_address", "/without_address"),
];
/// The counts of a table add up to the rows.
pub(crate) const IMPORTED: View = record(
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
pub(crate) const TAGGED: View = one(&[
    plain("rows", "/rows"),
    plain("tagged", "/tagged"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
]);

// Notifications, deliveries, previews and explanations.

const NOTIFICATION_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    plain("status", "/status"),
    time("created_at", "/created_at"),
    column("text", "/request", CellKind::Message),
    column("devices", "", CellKind::Counts),
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
    listed("notifications", NOTIFICATION_COLUMNS, NOTIFICATION_EXPORT).with_heading_columns(3);
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
    column("failures", "/failures", CellKind::Failures),
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
.with_heading_columns(4);

pub(crate) const PREVIEW: View = listed(
    "platforms",
    &[
        plain("platform", "/platform"),
        plain("devices", "/devices"),
        plain("bytes", "/bytes"),
        plain("limit", "/limit"),
        column("payload", "/payload", CellKind::Payload),
        column("problems", "/problems", CellKind::Lines),
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
    &[column("at", "/at", CellKind::Step), plain("what", "/what"), whole("detail", "/detail")],
    &[time("at", "/at"), plain("what", "/what"), text("detail", "/detail")],
)
.with_heading_columns(2);

// Web access.

pub(crate) const WEB_ACCESS: View = one(&[
    plain("allowed_origins", "/allowed_origins"),
    plain("allowed_tags", "/allowed_tags"),
    plain("push_services", "/push_services"),
]);

// Webhooks and their messages.

pub(crate) const WEBHOOK_CREATED: View = one(&[plain("id", "/id"), plain("secret", "/secret")]);
pub(crate) const WEBHOOK_RECOVERED: View =
    one(&[plain("recovered", "/recovered"), plain("more", "/more")]);
pub(crate) const WEBHOOKS: View = listed(
    "webhooks",
    &[
        plain("id", "/id"),
        column("state", "", CellKind::Webhook),
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
.with_heading_columns(2);
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
    column("failure", "", CellKind::Attempt),
    plain("attempts", "/attempts"),
    plain("latency_ms", "/latency_ms"),
    time("next_attempt_at", "/next_attempt_at"),
];
pub(crate) const WEBHOOK_ATTEMPT: View = record(ATTEMPT_COLUMNS, ATTEMPT_EXPORT);
pub(crate) const WEBHOOK_ATTEMPTS: View =
    listed("attempts", ATTEMPT_COLUMNS, ATTEMPT_EXPORT).with_heading_columns(3);
