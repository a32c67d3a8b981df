//! Which fields of which answer make the columns of a table or a CSV file.

mod campaigns;
mod web;

pub(crate) use self::campaigns::*;
mod webhooks;

pub(crate) use self::web::WEB_ACCESS;
pub(crate) use self::webhooks::*;
use super::cell::Kind;

/// How an answer is shown in columns.
#[derive(Debug)]
pub(crate) struct View {
    /// The field that holds the records; `None` when the answer is one.
    pub(crate) list: Option<&'static str>,
    /// What people see.
    pub(crate) columns: &'static [Column],
    /// What a CSV file holds.
    pub(crate) export: &'static [Column],
}

/// A column: its name, and where its value stands in the record (RFC 6901).
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) pointer: &'static str,
    pub(crate) kind: Kind,
}

const fn plain(name: &'static str, pointer: &'static str) -> Column {
    Column { name, pointer, kind: Kind::Plain }
}

const fn text(name: &'static str, pointer: &'static str) -> Column {
    Column { name, pointer, kind: Kind::Text }
}

const fn whole(name: &'static str, pointer: &'static str) -> Column {
    Column { name, pointer, kind: Kind::Whole }
}

const fn tags(name: &'static str, pointer: &'static str) -> Column {
    Column { name, pointer, kind: Kind::Tags }
}

const fn time(name: &'static str, pointer: &'static str) -> Column {
    Column { name, pointer, kind: Kind::Time }
}

const fn one(columns: &'static [Column]) -> View {
    View { list: None, columns, export: columns }
}

const fn many(list: &'static str, columns: &'static [Column]) -> View {
    View { list: Some(list), columns, export: columns }
}

pub(crate) const SUCCESS: View = one(&[plain("success", "/success")]);
/// All but the last column, an instant that a table of 80 characters has no room for.
const fn short(columns: &'static [Column]) -> &'static [Column] {
    columns.split_at(columns.len() - 1).0
}

pub(crate) const CREATED: View = one(&[plain("id", "/id")]);
pub(crate) const KEY_CREATED: View = one(&[plain("id", "/id"), plain("api_key", "/api_key")]);

const NOTIFICATION_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    plain("status", "/status"),
    Column { name: "text", pointer: "/request", kind: Kind::Message },
    Column { name: "devices", pointer: "", kind: Kind::Counts },
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
pub(crate) const NOTIFICATIONS: View = View {
    list: Some("notifications"),
    columns: NOTIFICATION_COLUMNS,
    export: NOTIFICATION_EXPORT,
};
pub(crate) const NOTIFICATION: View = one(&[
    plain("id", "/id"),
    plain("status", "/status"),
    plain("origin", "/origin"),
    time("created_at", "/created_at"),
    time("send_at", "/send_at"),
    time("started_at", "/started_at"),
    time("completed_at", "/completed_at"),
    plain("request", "/request"),
    plain("targeted", "/counts/targeted"),
    plain("sent", "/counts/sent"),
    plain("failed", "/counts/failed"),
    plain("unregistered", "/counts/unregistered"),
    plain("expired", "/counts/expired"),
    plain("canceled", "/counts/canceled"),
    plain("pending", "/counts/pending"),
    plain("unknown", "/counts/unknown"),
    plain("excluded", "/counts/excluded"),
    Column { name: "failures", pointer: "/failures", kind: Kind::Failures },
    plain("received", "/engagement/received"),
    plain("opened", "/engagement/opened"),
    plain("clicked", "/engagement/clicked"),
    plain("dismissed", "/engagement/dismissed"),
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
pub(crate) const DELIVERIES: View = View {
    list: Some("deliveries"),
    columns: &[
        text("device_id", "/device_id"),
        plain("platform", "/platform"),
        plain("outcome", "/outcome"),
        text("reason", "/reason"),
        plain("attempts", "/attempts"),
        time("next_attempt_at", "/next_attempt_at"),
    ],
    export: DELIVERY_EXPORT,
};

pub(crate) const PREVIEW: View = View {
    list: Some("platforms"),
    columns: &[
        plain("platform", "/platform"),
        plain("devices", "/devices"),
        plain("bytes", "/bytes"),
        plain("limit", "/limit"),
        Column { name: "payload", pointer: "/payload", kind: Kind::Payload },
        Column { name: "problems", pointer: "/problems", kind: Kind::Lines },
    ],
    export: &[
        plain("platform", "/platform"),
        plain("devices", "/devices"),
        plain("bytes", "/bytes"),
        plain("limit", "/limit"),
        plain("payload", "/payload"),
        plain("headers", "/headers"),
        plain("problems", "/problems"),
    ],
};

pub(crate) const EXPLANATION: View = View {
    list: Some("steps"),
    columns: &[
        Column { name: "at", pointer: "/at", kind: Kind::Step },
        plain("what", "/what"),
        whole("detail", "/detail"),
    ],
    export: &[time("at", "/at"), plain("what", "/what"), text("detail", "/detail")],
};

const DEVICE_COLUMNS: &[Column] = &[
    text("device_id", "/device_id"),
    plain("platform", "/platform"),
    Column { name: "state", pointer: "", kind: Kind::State },
    tags("tags", "/tags"),
    time("updated_at", "/updated_at"),
];
pub(crate) const DEVICES: View =
    View { list: Some("devices"), columns: DEVICE_COLUMNS, export: DEVICE_FIELDS };
pub(crate) const DEVICE: View = one(DEVICE_FIELDS);
const DEVICE_FIELDS: &[Column] = &[
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
];

pub(crate) const TAGS: View =
    many("tags", &[text("name", "/name"), plain("type", "/type"), plain("devices", "/devices")]);

pub(crate) const FEEDS: View = View {
    list: Some("feeds"),
    columns: &[
        plain("id", "/id"),
        text("name", "/name"),
        text("url", "/url"),
        plain("status", "/status"),
        plain("items", "/items"),
        time("last_fetched_at", "/last_fetched_at"),
        text("last_error", "/last_error"),
    ],
    export: &[
        plain("id", "/id"),
        text("name", "/name"),
        text("url", "/url"),
        plain("status", "/status"),
        plain("items", "/items"),
        time("last_fetched_at", "/last_fetched_at"),
        text("last_error", "/last_error"),
        time("created_at", "/created_at"),
    ],
};

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
    one(&[plain("accepted", "/accepted"), plain("ignored", "/ignored")]);

pub(crate) const ENRICHMENT: View = one(&[
    plain("campaign_id", "/campaign_id"),
    plain("layout_id", "/layout_id"),
    plain("settings", "/settings"),
    plain("strings", "/strings"),
    plain("features", "/features"),
]);

pub(crate) const DEVICE_STATISTICS: View = View {
    list: Some("platforms"),
    columns: &[
        plain("platform", "/platform"),
        plain("enabled", "/enabled_count"),
        plain("disabled", "/disabled_count"),
        plain("total", "/total_count"),
        plain("enabled %", "/enabled_percentage"),
        plain("disabled %", "/disabled_percentage"),
    ],
    export: &[
        plain("platform", "/platform"),
        plain("enabled_count", "/enabled_count"),
        plain("disabled_count", "/disabled_count"),
        plain("total_count", "/total_count"),
        plain("enabled_percentage", "/enabled_percentage"),
        plain("disabled_percentage", "/disabled_percentage"),
        plain("total_enabled_percentage", "/total_enabled_percentage"),
        plain("total_disabled_percentage", "/total_disabled_percentage"),
    ],
};

pub(crate) const NOTIFICATION_STATISTICS: View = many(
    "days",
    &[
        Column { name: "date", pointer: "/date", kind: Kind::Day },
        plain("sent", "/sent"),
        plain("received", "/received"),
        plain("opened", "/opened"),
        plain("clicked", "/clicked"),
        plain("dismissed", "/dismissed"),
    ],
);

const APP_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("language", "/language"),
    plain("status", "/status"),
    time("created_at", "/created_at"),
];
pub(crate) const APPS: View =
    View { list: Some("apps"), columns: short(APP_COLUMNS), export: APP_COLUMNS };
pub(crate) const APP: View = one(APP_COLUMNS);

const KEY_COLUMNS: &[Column] = &[
    plain("id", "/id"),
    text("name", "/name"),
    plain("hint", "/hint"),
    Column { name: "last_used_at", pointer: "/last_used_at", kind: Kind::Day },
    time("created_at", "/created_at"),
];
pub(crate) const KEYS: View =
    View { list: Some("keys"), columns: short(KEY_COLUMNS), export: KEY_COLUMNS };

const PROVIDER_EXPORT: &[Column] = &[
    plain("provider", "/provider"),
    plain("config", "/config"),
    time("updated_at", "/updated_at"),
];
pub(crate) const PROVIDERS: View = View {
    list: Some("providers"),
    columns: &[
        plain("provider", "/provider"),
        Column { name: "config", pointer: "/config", kind: Kind::Provider },
        time("updated_at", "/updated_at"),
    ],
    export: PROVIDER_EXPORT,
};
/// A provider has the fields that its configuration has; a certificate is for `-o json`.
pub(crate) const PROVIDER: View = View {
    list: None,
    columns: &[
        plain("provider", "/provider"),
        Column { name: "config", pointer: "/config", kind: Kind::Forgotten },
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
        Column { name: "deliveries", pointer: "/channel", kind: Kind::Channel },
        time("updated_at", "/updated_at"),
    ],
    export: PROVIDER_EXPORT,
};

pub(crate) const PROVIDER_CHECKED: View = one(&[
    plain("ok", "/ok"),
    text("detail", "/detail"),
    Column { name: "deliveries", pointer: "/channel", kind: Kind::Channel },
]);

pub(crate) const DOCTOR: View = many(
    "checks",
    &[
        plain("check", "/check"),
        text("about", "/about"),
        plain("ok", "/ok"),
        whole("detail", "/detail"),
        whole("mend", "/mend"),
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

pub(crate) const IMPORTED: View = one(&[
    plain("rows", "/rows"),
    plain("registered", "/registered"),
    plain("refused", "/refused"),
    plain("refused_file", "/refused_file"),
]);
