//! Which fields of which answer make the columns of a table or a CSV file.

use crate::output::cell::Kind;

/// How an answer is shown in columns.
#[derive(Debug)]
pub(crate) struct View {
    /// The field that holds the records; `None` when the answer is one.
    pub(crate) list: Option<&'static str>,
    /// Plural noun for an empty list: `No devices.`
    pub(crate) noun: &'static str,
    /// What people see.
    pub(crate) columns: &'static [Column],
    /// What a CSV file holds.
    pub(crate) export: &'static [Column],
    /// How many columns tell a record where there is no room for a table; the others follow, each
    /// with its name.
    pub(crate) head: usize,
}

impl View {
    const fn headed(self, head: usize) -> Self {
        Self { head, ..self }
    }

    const fn called(self, noun: &'static str) -> Self {
        Self { noun, ..self }
    }
}

/// A column: its name, and where its value stands in the record (RFC 6901).
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) pointer: &'static str,
    pub(crate) kind: Kind,
    /// Whether a table leaves it out that has no room for it.
    pub(crate) is_optional: bool,
}

impl Column {
    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }
}

const fn column(name: &'static str, pointer: &'static str, kind: Kind) -> Column {
    Column { name, pointer, kind, is_optional: false }
}

const fn plain(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Plain)
}

const fn text(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Text)
}

const fn whole(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Whole)
}

const fn nested(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Nested)
}

const fn count(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Count)
}

const fn tags(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Tags)
}

const fn time(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Time)
}

const fn day(name: &'static str, pointer: &'static str) -> Column {
    column(name, pointer, Kind::Day)
}

const fn one(columns: &'static [Column]) -> View {
    record(columns, columns)
}

/// A record whose CSV has other columns than people see.
const fn record(columns: &'static [Column], export: &'static [Column]) -> View {
    View { list: None, noun: "", columns, export, head: 1 }
}

const fn many(list: &'static str, columns: &'static [Column]) -> View {
    listed(list, columns, columns)
}

/// A listing whose CSV has other columns than people see.
const fn listed(list: &'static str, columns: &'static [Column], export: &'static [Column]) -> View {
    View { list: Some(list), noun: list, columns, export, head: 1 }
}

pub(crate) const SUCCESS: View = one(&[plain("success", "/success")]);

pub(crate) const CREATED: View = one(&[plain("id", "/id")]);
pub(crate) const KEY_CREATED: View = one(&[plain("id", "/id"), plain("api_key", "/api_key")]);

/// The fields of a device as columns, with others behind them. Its state is not one that an import takes.
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
    column("state", "", Kind::State),
    tags("tags", "/tags"),
    time("updated_at", "/updated_at"),
];
pub(crate) const DEVICES: View = listed("devices", DEVICE_COLUMNS, DEVICE_FIELDS).headed(3);
pub(crate) const DEVICE: View =
    record(device_fields!(column("state", "", Kind::State),), DEVICE_FIELDS);
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
.headed(2);

/// What would be taken from a feed.
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
    one(&[plain("accepted", "/accepted"), column("ignored", "/ignored", Kind::Ignored)]);

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
.called("days with counts");

const APP_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("language", "/language"),
    plain("status", "/status"),
    time("created_at", "/created_at").optional(),
];
pub(crate) const APPS: View = many("apps", APP_COLUMNS).called("applications");
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
.headed(3)
.called("API keys");

const PROVIDER_EXPORT: &[Column] = &[
    plain("provider", "/provider"),
    plain("config", "/config"),
    time("updated_at", "/updated_at"),
];
pub(crate) const PROVIDERS: View = listed(
    "providers",
    &[
        plain("provider", "/provider"),
        column("config", "/config", Kind::Provider),
        column("deliveries", "/channel", Kind::Channel),
        time("updated_at", "/updated_at").optional(),
    ],
    PROVIDER_EXPORT,
);
/// A provider has the fields that its configuration has; a certificate is for `-o json`.
pub(crate) const PROVIDER: View = record(
    &[
        plain("provider", "/provider"),
        column("config", "/config", Kind::Forgotten),
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
        column("deliveries", "/channel", Kind::Channel),
        time("updated_at", "/updated_at"),
    ],
    PROVIDER_EXPORT,
);

pub(crate) const PROVIDER_CHECKED: View = one(&[
    plain("ok", "/ok"),
    text("detail", "/detail"),
    column("deliveries", "/channel", Kind::Channel),
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

// Campaigns in columns, and what becomes of them as files.

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
        column("changes", "/changes", Kind::Lines),
    ],
);
pub(crate) const CAMPAIGN_FILES: View = many(
    "campaigns",
    &[text("name", "/name"), text("file", "/file"), plain("written", "/written")],
);

// What became of the rows of a file.

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
/// People see numbers that add up to the rows, and what they count in each name.
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

// Columns of notifications, of what became of them, and of previews.

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

// What browsers may do, in columns.

pub(crate) const WEB_ACCESS: View = one(&[
    plain("allowed_origins", "/allowed_origins"),
    plain("allowed_tags", "/allowed_tags"),
    plain("push_services", "/push_services"),
]);

// Columns of webhooks and of what was sent to them.

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
