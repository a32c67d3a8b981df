//! What one of something costs: the numbers that the model stands on, and where each is from.

/// Where a number is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Seen on one machine; what measures it again.
    Measured(&'static str),
    /// Written down in the code or by a provider.
    Given(&'static str),
    /// Nobody measured it here; why it is taken so.
    Assumed(&'static str),
}

/// A number with its unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) origin: Origin,
}

const fn measured(name: &'static str, value: f64, unit: &'static str, by: &'static str) -> Unit {
    Unit { name, value, unit, origin: Origin::Measured(by) }
}

const fn given(name: &'static str, value: f64, unit: &'static str, by: &'static str) -> Unit {
    Unit { name, value, unit, origin: Origin::Given(by) }
}

const fn assumed(name: &'static str, value: f64, unit: &'static str, why: &'static str) -> Unit {
    Unit { name, value, unit, origin: Origin::Assumed(why) }
}

/// Everything that the model multiplies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units {
    /// Database of a device, indexes included.
    pub(super) device_bytes: Unit,
    /// Database of one delivery that went well.
    pub(super) outcome_bytes: Unit,
    /// Database of one event of a device, indexes included.
    pub(super) event_bytes: Unit,
    /// How much more PostgreSQL takes than SQLite.
    pub(super) postgres_factor: Unit,
    /// CPU from the claim of a device to its outcome on disk, FCM and APNs alike.
    pub(super) push_cpu_us: Unit,
    /// The same through Web Push, encryption included.
    pub(super) web_push_cpu_us: Unit,
    /// CPU of a registration that says nothing new.
    pub(super) unchanged_cpu_us: Unit,
    /// CPU of a registration that changes something.
    pub(super) changed_cpu_us: Unit,
    /// Memory of a server in the midst of a fan-out.
    pub(super) server_bytes: Unit,
    /// Cores of a server.
    pub(super) server_cores: Unit,
    /// Bytes on the wire of a message, both ways.
    pub(super) message_bytes: Unit,
    /// What one database is planned to hold.
    pub(super) database_bytes: Unit,
    /// Devices of a page.
    pub(super) page_devices: Unit,
    /// Writes of a page to the database.
    pub(super) page_writes: Unit,
    /// Messages in flight of a server.
    pub(super) credit: Unit,
    /// Of these, those of one application on one platform.
    pub(super) lane: Unit,
    /// Streams that a provider's connection offers.
    pub(super) streams: Unit,
    /// Time from a message to a provider's answer.
    pub(super) round_trip_ms: Unit,
    /// Messages a second that FCM takes of a project.
    pub(super) fcm_per_second: Unit,
    /// Time of one write: its statements, one after the other.
    pub(super) write_ms: Unit,
    /// Time of one commit, one after the other.
    pub(super) commit_ms: Unit,
    /// Writes that share a commit under load.
    pub(super) group: Unit,
    /// The share of a core or a disk that is planned with.
    pub(super) utilisation: Unit,
}

const FAN_OUT: &str = "`notify-bench fan-out`";
const ACCEPT: &str = "`notify-bench accept`";
const ENGINE: &str = "`notify-server/src/delivery/config.rs`";

impl Units {
    /// What was seen, is given, or has to be assumed.
    pub(super) const SEEN: Self = Self {
        device_bytes: measured("database of a device", 513.0, "bytes", FAN_OUT),
        outcome_bytes: measured("database of a delivery", 1.4, "bytes", FAN_OUT),
        event_bytes: assumed(
            "database of an event",
            50.0,
            "bytes",
            "a row of four numbers, and an index",
        ),
        postgres_factor: assumed(
            "PostgreSQL to SQLite",
            1.6,
            "times",
            "24 bytes a row and 8 an entry of an index, pages that are not full",
        ),
        push_cpu_us: measured("CPU of a delivery by FCM or APNs", 21.0, "µs", FAN_OUT),
        web_push_cpu_us: measured(
            "CPU of a delivery by Web Push",
            88.0,
            "µs",
            "`notify-bench web-push`",
        ),
        unchanged_cpu_us: measured("CPU of an unchanged registration", 41.0, "µs", ACCEPT),
        changed_cpu_us: measured("CPU of a changed registration", 117.0, "µs", ACCEPT),
        server_bytes: measured("memory of a server", 1e8, "bytes", "`notify-bench memory`"),
        server_cores: assumed("cores of a server", 4.0, "", "what is rented most"),
        message_bytes: assumed(
            "wire of a message",
            900.0,
            "bytes",
            "300 of payload, headers, TLS, the answer",
        ),
        database_bytes: assumed("one database holds", 4e12, "bytes", "backed up in a night"),
        page_devices: given("devices of a page", 1_000.0, "", ENGINE),
        page_writes: given("writes of a page", 6.0, "", "checkpoints of 200, and its opening"),
        credit: given("messages in flight of a server", 4_096.0, "", "`--delivery-credit`"),
        lane: given("of these, of one application and platform", 1_024.0, "", ENGINE),
        streams: assumed("streams of a connection", 1_000.0, "", "APNs offered 500 and 1,500"),
        round_trip_ms: assumed("a provider's answer takes", 50.0, "ms", "a data centre near it"),
        fcm_per_second: given(
            "FCM takes of a project",
            10_000.0,
            "1/s",
            "its quota, 600,000 a minute",
        ),
        write_ms: assumed(
            "a write takes of PostgreSQL",
            1.0,
            "ms",
            "four statements, each a round trip",
        ),
        commit_ms: assumed("a commit of PostgreSQL takes", 2.0, "ms", "a flush and a round trip"),
        group: assumed("writes that share a commit", 16.0, "", "at most 256 may"),
        utilisation: assumed("planned load", 0.5, "", "the other half is for peaks and failures"),
    };

    /// All of them, in the order of the struct.
    pub(super) fn all(&self) -> [&Unit; 23] {
        [
            &self.device_bytes,
            &self.outcome_bytes,
            &self.event_bytes,
            &self.postgres_factor,
            &self.push_cpu_us,
            &self.web_push_cpu_us,
            &self.unchanged_cpu_us,
            &self.changed_cpu_us,
            &self.server_bytes,
            &self.server_cores,
            &self.message_bytes,
            &self.database_bytes,
            &self.page_devices,
            &self.page_writes,
            &self.credit,
            &self.lane,
            &self.streams,
            &self.round_trip_ms,
            &self.fcm_per_second,
            &self.write_ms,
            &self.commit_ms,
            &self.group,
            &self.utilisation,
        ]
    }
}
