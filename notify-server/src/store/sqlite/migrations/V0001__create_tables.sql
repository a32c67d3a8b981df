-- The tables of Notify. The application leads every key; a device's key is application, platform
-- and sequence in one integer (store/key.rs). Times are unix milliseconds, ids made by the server
-- are 16 bytes. Numbers are never given twice where something outside the row remembers them.

create table apps (
    no integer primary key autoincrement check (no between 1 and 1048575),
    id blob not null unique check (length(id) = 16),
    name text not null check (name <> ''),
    language text not null check (language <> ''),
    status text not null check (status in ('active', 'suspended', 'erasing')),
    created_at integer not null,
    -- The last sequence given to a device. Grows only: a key that was erased is not given again.
    device_sequence integer not null default 0 check (device_sequence between 0 and 1099511627775)
) strict;

create table api_keys (
    no integer primary key,
    app_no integer not null references apps (no),
    id blob not null unique check (length(id) = 16),
    hash blob not null unique check (length(hash) = 32),
    hint text not null,
    name text,
    created_at integer not null,
    last_used_at integer
) strict;
create index api_keys_by_app on api_keys (app_no);

create table admin_keys (
    no integer primary key,
    id blob not null unique check (length(id) = 16),
    hash blob not null unique check (length(hash) = 32),
    hint text not null,
    name text,
    created_at integer not null
) strict;

create table providers (
    app_no integer not null references apps (no),
    provider text not null check (provider in ('apns', 'fcm', 'webpush', 'messenger', 'telegram')),
    sealed blob not null,
    updated_at integer not null,
    primary key (app_no, provider)
) strict, without rowid;

create table devices (
    key integer primary key,
    app_no integer not null references apps (no),
    device_id text not null check (device_id <> ''),
    -- Push token, endpoint or recipient id.
    address text check (address <> ''),
    -- 64 bits of a hash over application, platform and address; always checked against the row.
    address_hash integer,
    ios_env integer check (ios_env in (0, 1)),
    push_disabled integer not null check (push_disabled in (0, 1)),
    dead_reason text,
    dead_at integer,
    utc_offset_minutes integer not null,
    details text not null,
    p256dh text,
    auth text,
    -- The device that had this address before, and since when it has not.
    moved_from integer,
    moved_at integer,
    -- When the person last wrote to us, where that opens a window for messages.
    last_inbound_at integer,
    -- When the offset changed last.
    zone_changed_at integer,
    created_at integer not null,
    -- The last registration that changed something.
    registered_at integer not null,
    check (key >> 43 = app_no),
    check ((address is null) = (address_hash is null)),
    check ((dead_reason is null) = (dead_at is null)),
    check ((moved_from is null) = (moved_at is null))
) strict;
create unique index devices_by_id on devices (app_no, device_id);
create index devices_by_address on devices (address_hash) where address_hash is not null;
-- Enabled devices that cannot be reached, few as a rule: what is counted off from the enabled ones.
create index devices_without_address on devices (key)
    where address is null and push_disabled = 0 and dead_at is null;
-- The state too, so that part of an hour is counted without reading a row (B26).
create index devices_by_creation on devices (app_no, created_at, push_disabled, dead_at);

-- Later registrations that changed nothing, apart from the wide row so that they are cheap. The
-- newer of the two is the last one.
create table device_seen (
    key integer primary key,
    registered_at integer not null
) strict;

-- Addresses that looked dead, where a wrong key or host looks the same: the latest of them, and
-- whether there were so many that nothing is disabled or sent before somebody looked (B40).
create table purge_guards (
    app_no integer not null references apps (no),
    platform integer not null,
    ios_env integer not null,
    answers integer not null,
    -- Pairs of eight bytes: number of the answer, key of the device.
    latest blob not null,
    stopped_at integer,
    primary key (app_no, platform, ios_env)
) strict, without rowid;

-- Devices by the hour of their creation and their state now (B26).
create table device_counts (
    app_no integer not null references apps (no),
    hour integer not null,
    platform integer not null,
    enabled integer not null check (enabled in (0, 1)),
    count integer not null check (count >= 0),
    primary key (app_no, hour, platform, enabled)
) strict, without rowid;

-- Devices by their offset from UTC (B19).
create table device_zones (
    app_no integer not null references apps (no),
    platform integer not null,
    utc_offset_minutes integer not null,
    devices integer not null check (devices >= 0),
    primary key (app_no, platform, utc_offset_minutes)
) strict, without rowid;

create table tags (
    no integer primary key autoincrement,
    app_no integer not null references apps (no),
    name text not null check (name <> ''),
    -- Devices that have it, and those of them that have it set to true.
    holders integer not null default 0 check (holders >= 0),
    devices integer not null default 0 check (devices between 0 and holders),
    unique (app_no, name)
) strict;

create table device_tags (
    tag_no integer not null references tags (no),
    device_key integer not null,
    value integer not null check (value in (0, 1)),
    primary key (tag_no, device_key)
) strict, without rowid;
create index device_tags_by_device on device_tags (device_key);

create table campaigns (
    no integer primary key autoincrement,
    app_no integer not null references apps (no),
    id blob not null check (length(id) = 16),
    name text not null check (name <> ''),
    -- The name without letter case (B28).
    name_folded text not null,
    status text not null check (status in ('active', 'disabled')),
    is_default integer not null check (is_default in (0, 1)),
    created_at integer not null,
    template text not null,
    unique (app_no, id),
    check (not (is_default = 1 and status = 'disabled'))
) strict;
create index campaigns_by_launch on campaigns (app_no, created_at, id);
create unique index campaigns_default on campaigns (app_no) where is_default = 1;

create table feeds (
    no integer primary key autoincrement,
    app_no integer not null references apps (no),
    id blob not null check (length(id) = 16),
    url text not null check (url <> ''),
    name text not null,
    status text not null default 'pending' check (status in ('pending', 'ok', 'failing')),
    items integer not null default 0 check (items >= 0),
    last_fetched_at integer,
    last_error text,
    created_at integer not null,
    unique (app_no, id),
    unique (app_no, url)
) strict;

create table campaign_feeds (
    campaign_no integer not null references campaigns (no) on delete cascade,
    feed_no integer not null references feeds (no),
    primary key (campaign_no, feed_no)
) strict, without rowid;
create index campaign_feeds_by_feed on campaign_feeds (feed_no);

create table notifications (
    no integer primary key autoincrement,
    app_no integer not null references apps (no),
    id text not null check (id <> ''),
    origin text not null check (origin in ('created', 'reported')),
    status text not null
        check (status in ('scheduled', 'queued', 'sending', 'completed', 'canceled', 'reported')),
    created_at integer not null,
    due_at integer,
    -- Wall-clock time of each device, as if it were UTC.
    local_time integer,
    -- When zones of that time are to be looked at next; null when none is to come.
    next_zone_at integer,
    started_at integer,
    completed_at integer,
    -- The body as it was sent; named ids are kept here alone, so that an erase finds them.
    request text not null,
    -- Bits of the platforms of the target.
    platforms integer not null,
    names_devices integer not null check (names_devices in (0, 1)),
    tag text,
    ttl_seconds integer not null,
    collapse_key text,
    campaign_id blob check (length(campaign_id) = 16),
    -- The highest device sequence when it was due.
    audience_until integer,
    open_dispatches integer not null default 0 check (open_dispatches >= 0),
    cancel_requested_at integer,
    -- Deliveries canceled before that, which were not canceled by request.
    canceled_before integer not null default 0,
    -- Whether zones to come were canceled by request.
    zones_canceled integer not null default 0 check (zones_canceled in (0, 1)),
    -- What is kept of it device by device: 1 outcomes, 2 events.
    kept integer not null default 3 check (kept between 0 and 3),
    unique (app_no, id)
) strict;
create index notifications_by_app on notifications (app_no);
create index notifications_due on notifications (due_at) where status in ('scheduled', 'queued');
create index notifications_zones on notifications (next_zone_at) where next_zone_at is not null;
create index notifications_naming on notifications (app_no) where names_devices = 1;
create index notifications_by_collapse_key on notifications (app_no, collapse_key, no)
    where collapse_key is not null;
-- What retention looks for: those that ended, by what is kept of them and when they did.
create index notifications_ended on notifications (kept, coalesce(completed_at, created_at))
    where status in ('completed', 'canceled', 'reported');
create index notifications_by_campaign on notifications (app_no, campaign_id)
    where campaign_id is not null;

create table dispatches (
    no integer primary key autoincrement,
    notification_no integer not null references notifications (no),
    platform integer not null,
    -- Offset from UTC in minutes of its devices; 32767: of everybody, 32766: of who changed it.
    zone integer not null,
    due_at integer not null,
    -- Keys of named devices, eight bytes each, sorted; null when a platform or tag is scanned.
    named blob,
    cursor integer not null,
    until integer not null,
    scan_done integer not null default 0 check (scan_done in (0, 1)),
    is_canceled integer not null default 0 check (is_canceled in (0, 1)),
    -- Completion is seen by counting down, never by looking whether others are done.
    open_pages integer not null default 0 check (open_pages >= 0),
    open_retries integer not null default 0 check (open_retries >= 0),
    unknown integer not null default 0,
    -- Sums over the pages, once completed.
    targeted integer not null default 0,
    sent integer not null default 0,
    failed integer not null default 0,
    unregistered integer not null default 0,
    expired integer not null default 0,
    canceled integer not null default 0,
    excluded integer not null default 0,
    completed_at integer,
    unique (notification_no, platform, zone),
    check (cursor <= until)
) strict;
create index dispatches_unread on dispatches (no) where scan_done = 0;

create table pages (
    no integer primary key autoincrement,
    dispatch_no integer not null references dispatches (no),
    from_key integer not null,
    to_key integer not null,
    epoch integer not null,
    checkpoint_no integer not null default 0,
    lease_until integer not null,
    finished integer not null default 0 check (finished in (0, 1)),
    targeted integer not null,
    sent integer not null default 0,
    failed integer not null default 0,
    unregistered integer not null default 0,
    expired integer not null default 0,
    canceled integer not null default 0,
    excluded integer not null,
    retrying integer not null default 0 check (retrying >= 0),
    check (from_key <= to_key)
) strict;
create index pages_by_dispatch on pages (dispatch_no, to_key);
create index pages_open on pages (no) where finished = 0;

-- Outcomes in the form of delivery/outcomes.rs, a chunk a checkpoint, never changed.
create table outcomes (
    page_no integer not null references pages (no),
    chunk_no integer not null,
    at integer not null,
    entries blob not null,
    primary key (page_no, chunk_no)
) strict, without rowid;

create table retries (
    no integer primary key autoincrement,
    dispatch_no integer not null references dispatches (no),
    page_no integer not null references pages (no),
    app_no integer not null,
    platform integer not null,
    device_key integer not null,
    -- Code of the outcome; null while it is open.
    outcome integer check (outcome between 0 and 4),
    attempts integer not null,
    first_attempt_at integer not null,
    due_at integer not null,
    -- When it can be claimed: its due time, or the end of the lease of who claimed it.
    claimable_at integer not null,
    epoch integer,
    unknown_outcomes integer not null,
    reason text,
    -- The provider's id of the message, where it is kept.
    message_id text,
    settled_at integer,
    unique (dispatch_no, device_key)
) strict;
create index retries_open on retries (app_no, platform, claimable_at) where outcome is null;
create index retries_open_by_device on retries (device_key) where outcome is null;
create index retries_by_page on retries (page_no);
create index retries_claimed on retries (epoch) where epoch is not null;

create table failures (
    dispatch_no integer not null references dispatches (no),
    reason text not null,
    count integer not null,
    primary key (dispatch_no, reason)
) strict, without rowid;

create table polls (
    notification_no integer primary key references notifications (no),
    public_id blob not null unique check (length(public_id) = 16),
    text text not null,
    layout integer not null check (layout in (0, 1, 2)),
    image_url text,
    lang text not null,
    created_at integer not null
) strict;

create table poll_answers (
    notification_no integer not null references polls (notification_no),
    place integer not null,
    id blob not null check (length(id) = 16),
    text text not null,
    image_url text,
    clicks integer not null default 0 check (clicks >= 0),
    primary key (notification_no, place),
    unique (notification_no, id)
) strict, without rowid;

create table poll_votes (
    notification_no integer not null references polls (notification_no),
    device_key integer not null,
    primary key (notification_no, device_key)
) strict, without rowid;
create index poll_votes_by_device on poll_votes (device_key);

create table engagement (
    notification_no integer not null references notifications (no),
    device_key integer not null,
    type integer not null check (type between 0 and 3),
    at integer not null,
    primary key (notification_no, device_key, type)
) strict, without rowid;
create index engagement_by_device on engagement (device_key);

create table engagement_counts (
    notification_no integer primary key references notifications (no),
    received integer not null default 0,
    opened integer not null default 0,
    clicked integer not null default 0,
    dismissed integer not null default 0
) strict;

create table idempotency (
    app_no integer not null,
    path text not null,
    key text not null,
    digest blob not null check (length(digest) = 32),
    answer text not null,
    at integer not null,
    primary key (app_no, path, key)
) strict, without rowid;
create index idempotency_by_age on idempotency (at);

-- One row that a readiness check writes, so that a full disk shows.
create table storage_checks (
    no integer primary key check (no = 1),
    count integer not null
) strict;
insert into storage_checks (no, count) values (1, 0);
