//! The list of settings: what the command line, the environment, the file and the document share.

/// What the text of a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A whole number of 0 or more.
    Count,
    /// True or false; a flag without a value is true.
    Switch,
}

/// A setting: flag `--name`, variable `NOTIFY_NAME`, key `name` of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Name, with dashes.
    pub(crate) name: &'static str,
    /// What stands for its value in help texts.
    pub(crate) value: &'static str,
    /// What it does.
    pub(crate) help: &'static str,
    /// What its text is.
    pub(crate) kind: Kind,
}

impl Setting {
    /// Its variable.
    pub(crate) fn variable(&self) -> String {
        format!("NOTIFY_{}", self.name.replace('-', "_").to_uppercase())
    }
}

const fn text(name: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { name, value, help, kind: Kind::Text }
}

const fn count(name: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { name, value, help, kind: Kind::Count }
}

/// Every setting, in the order of the help text.
pub(crate) const SETTINGS: &[Setting] = &[
    text("listen", "ADDR", "Listening address; port 0 picks a free one"),
    text("data-dir", "DIR", "Folder of the database and the master key, made when missing"),
    text(
        "database-url",
        "URL",
        "PostgreSQL in place of the file: postgres://USER:PASSWORD@HOST/DATABASE. Other users can \
         read arguments: prefer the variable",
    ),
    text("public-url", "URL", "What poll urls begin with; the listening address by default"),
    text("tls-cert", "FILE", "Certificate chain (PEM); serves https"),
    text("tls-key", "FILE", "Private key of the certificate (PEM)"),
    Setting {
        name: "allow-private-networks",
        value: "BOOL",
        help: "Lets feeds, webhooks and web push endpoints point to loopback and private addresses",
        kind: Kind::Switch,
    },
    count("rate-limit", "N", "Requests per second and API key; 0 is no limit"),
    count(
        "auth-failures-per-minute",
        "N",
        "Failed authentications per minute and client address; 0 is no limit",
    ),
    count(
        "poll-votes-per-minute",
        "N",
        "Votes on the pages of polls per minute and client address; 0 is no limit",
    ),
    count(
        "web-requests-per-minute",
        "N",
        "Requests of web pages per minute, application and client address; 0 is no limit",
    ),
    count(
        "web-subscriptions-per-minute",
        "N",
        "Browsers that subscribe without an API key, per minute and application; 0 is no limit",
    ),
    text("trusted-proxies", "NETS", "Addresses or networks whose X-Forwarded-For counts"),
    count("max-body-bytes", "BYTES", "Largest body of a request"),
    text("header-timeout", "SPAN", "Time for the head of a request"),
    text(
        "body-timeout",
        "SPAN",
        "Time for the body of a request, and the window over which it has to come at 1 KiB a second",
    ),
    text("idle-timeout", "SPAN", "How long a kept connection may be without a request"),
    text(
        "write-timeout",
        "SPAN",
        "How long a client may leave its answer or a ping unread, and the window over which it has to \
         read 1 KiB a second",
    ),
    count(
        "max-connections",
        "N",
        "Most connections; fewer where the limit of open files is too low",
    ),
    count(
        "max-connections-per-address",
        "N",
        "Most connections of one address, at most half of --max-connections; 0 is no limit",
    ),
    text(
        "shutdown-grace",
        "SPAN",
        "How long requests and messages in flight may take to end after a signal",
    ),
    count("reader-threads", "N", "Connections that read the database"),
    count(
        "delivery-credit",
        "N",
        "Most messages in flight or not yet recorded; after a crash at most this many are sent twice",
    ),
    Setting {
        name: "keep-message-ids",
        value: "BOOL",
        help: "Keeps the providers' ids of delivered messages, for listings of deliveries",
        kind: Kind::Switch,
    },
    count(
        "keep-notifications-days",
        "DAYS",
        "How long a notification is kept after its end, with its counts; 0 is forever",
    ),
    count(
        "keep-outcomes-days",
        "DAYS",
        "How long the outcome for each device is kept; the counts stay; 0 is forever",
    ),
    count(
        "keep-events-days",
        "DAYS",
        "How long the events of each device are kept; the counts stay; 0 is forever",
    ),
    count(
        "keep-anonymous-devices-days",
        "DAYS",
        "How long a browser that subscribed without an API key is kept before it has taken a message, \
         counted from its last visit; 0 is forever",
    ),
    text("master-key-file", "FILE", "Master key file; master.key in the data folder by default"),
    text("log", "FILTER", "What is logged, such as info or notify_server=debug"),
    text("log-format", "text|json", "Form of the log, which goes to standard error"),
];
