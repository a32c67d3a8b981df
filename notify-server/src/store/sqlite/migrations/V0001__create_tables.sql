-- The tables of Notify. The application leads every key: the key of a device is the application, the platform
-- and a sequence in one integer (store/key.rs). Times are unix milliseconds. Ids made by the server have 16
-- bytes. The number of a row is never given twice.

-- The last number of each table. A number is the application in 20 bits and a count in 43 bits
-- (store/sql/insert.rs).
create table numbers (
    name text primary key,
    last integer not null check (last between 0 and 8796093022207)
) strict, without rowid;
insert into numbers (name, last)
values ('admin_keys', 0), ('api_keys', 0), ('apps', 0), ('audit', 0), ('campaigns', 0),
    ('channel_states', 0), ('dispatches', 0), ('feeds', 0), ('notifications', 0), ('pages', 0),
    ('retries', 0), ('sessions', 0), ('tags', 0), ('users', 0), ('webhook_messages', 0), ('webhooks', 0);

create table apps (
    no integer primary key check (no between 1 and 1048575),
    id blob not null unique check (length(id) = 16),
    name text not null check (name <> ''),
    language text not null check (language <> ''),
    status text not null check (status in ('active', 'suspended', 'erasing')),
    -- What happens after a crash to messages that were being sent: `repeat` or `skip`.
    on_crash text not null default 'repeat',
    created_at integer not null,
    -- The last sequence of a device. It only grows: the key of an erased device is not given again.
    device_sequence integer not null default 0 check (device_sequence between 0 and 1099511627775)
) strict;

create table api_keys (
    no integer primary key,
    app_no integer not null references apps (no),
    id blob not null unique check (length(id) = 16),
    hash blob not null unique check (length(hash) = 32),
    hint text not null,
    name text,
    -- What the key may do: a JSON list of scopes. Null for all scopes, including those of later versions.
    scopes text,
    -- The tags and attributes that apps may set with a publishable key, in JSON. Null for every other key.
    publishable text,
    created_at integer not null,
    last_used_at integer,
    -- From this time on the key is unknown; null for a key that does not expire.
    expires_at integer,
    -- The planned lifetime in milliseconds; null for a key that does not expire. A rotation shortens the life
    -- of the rotated key, and its successor lives as long as planned.
    lifetime_ms integer
) strict;
create index api_keys_by_app on api_keys (app_no);

create table admin_keys (
    no integer primary key,
    id blob not null unique check (length(id) = 16),
    hash blob not null unique check (length(hash) = 32),
    hint text not null,
    name text,
    created_at integer not null,
    last_used_at integer
) strict;

-- Sessions of the console. A browser has the secret in a cookie, and `hash` is its SHA-256. A session ends with
-- its admin key.
create table sessions (
    no integer primary key,
    id blob not null unique check (length(id) = 16),
    hash blob not null unique check (length(hash) = 32),
    admin_key_no integer not null references admin_keys (no),
    -- The network address that signed in.
    address text not null,
    created_at integer not null,
    last_used_at integer not null
) strict;
create index sessions_by_key on sessions (admin_key_no);

-- The changes that operators made. An entry is written in the transaction of its change. It outlives the
-- key and the application, so it refers to both by id.
create table audit (
    no integer primary key,
    at integer not null,
    action text not null,
    app_id blob check (length(app_id) = 16),
    object text,
    key_id blob not null check (length(key_id) = 16),
    key_name text not null,
    address text not null,
    source text not null check (source in ('api', 'console')),
    request_id text not null
) strict;
create index audit_by_app on audit (app_id, no) where app_id is not null;

create table providers (
    app_no integer not null references apps (no),
    provider text not null check (provider in ('apns', 'fcm', 'webpush', 'messenger', 'telegram')),
    sealed blob not null,
    updated_at integer not null,
    primary key (app_no, provider)
) strict, without rowid;

-- Tokens that one server signs for all (APNs), by a digest of team and key, sealed with the master key.
create table provider_tokens (
    name blob primary key,
    sealed blob not null,
    issued_at integer not null,
    -- How far the wall clock of the server that signed it was ahead of the servers' clock.
    wall_ahead_ms integer not null,
    -- The provider accepts no newer token before this time.
    frozen_until integer
) strict, without rowid;

-- The latest state of a provider that servers told each other, as one application reaches it on a platform, or
-- of a service behind it. The number shows which state is later, over all applications.
create table channel_states (
    app_no integer not null references apps (no),
    platform integer not null,
    -- The host of a push service; empty for the provider as a whole.
    service text not null,
    no integer not null unique,
    state integer not null,
    -- The reason of the provider.
    reason text,
    -- Until when the state lasts, or when it is probed.
    until integer,
    -- Epoch of the server that set the state; null if an administrator or the guard set it.
    told_by integer,
    at integer not null,
    primary key (app_no, platform, service)
) strict, without rowid;

-- What browsers may do with an application without a key: origins, tags and push services, in JSON.
create table web_access (
    app_no integer primary key references apps (no),
    access text not null
) strict;

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
    -- The device that had this address before, and until when.
    moved_from integer,
    moved_at integer,
    -- When the person last wrote to the application, if that allows messages for some time.
    last_inbound_at integer,
    -- When the offset changed last.
    zone_changed_at integer,
    created_at integer not null,
    check (key >> 43 = app_no),
    check ((address is null) = (address_hash is null)),
    check ((dead_reason is null) = (dead_at is null)),
    check ((moved_from is null) = (moved_at is null))
) strict;
create unique index devices_by_id on devices (app_no, device_id);
create index devices_by_address on devices (address_hash) where address_hash is not null;
-- Enabled devices that cannot be reached, usually few. Their number is subtracted from that of enabled devices.
create index devices_without_address on devices (key)
    where address is null and push_disabled = 0 and dead_at is null;
-- With the state, so that a part of an hour is counted without reading a row (B26).
create index devices_by_creation on devices (app_no, created_at, push_disabled, dead_at);

-- The fields that conditions of audiences compare. They are not in the wide row, so that a scan of all devices
-- is cheap. Every device has a row.
create table device_fields (
    key integer primary key,
    user_no integer,
    country text,
    language text,
    app_version text,
    os_version text,
    -- Offset from UTC in minutes; null if the device reported none.
    timezone integer,
    created_at integer not null,
    -- The last registration. One that changes nothing is written once an hour.
    registered_at integer not null
) strict;
create index device_fields_by_user on device_fields (user_no) where user_no is not null;

-- What an app or a browser shows to act as its device: the SHA-256 of a secret.
create table device_secrets (
    device_key integer primary key,
    hash blob not null check (length(hash) = 32),
    -- The last notification before the server made the id of the device: none up to it names the device. Null
    -- if the application chose the id.
    unnamed_to integer
) strict;

-- Addresses that have not taken a message yet. Anybody can make one up, so they say nothing about the
-- application's credentials. The row is deleted with the first message that is taken.
create table unverified_addresses (
    device_key integer primary key,
    -- When the address was registered, or its browser was last seen.
    since integer not null,
    -- Whether a browser registered it without an API key. Such a device is removed when its time is over.
    is_anonymous integer not null check (is_anonymous in (0, 1))
) strict;
create index unverified_addresses_anonymous on unverified_addresses (since) where is_anonymous = 1;
-- Finds the devices of an application that strangers registered, by when they were last seen.
create index unverified_addresses_by_app on unverified_addresses ((device_key >> 43), since)
    where is_anonymous = 1;

-- The latest addresses that a provider called dead. A wrong key or host has the same answers, so nothing is
-- disabled or sent after too many of them, until somebody has looked (B40).
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
    no integer primary key,
    app_no integer not null references apps (no),
    name text not null check (name <> ''),
    -- Devices that have the tag, and those of them that have it set to true.
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

-- People, by the ids of the application. A device belongs to at most one user.
create table users (
    no integer primary key,
    app_no integer not null references apps (no),
    user_id text not null check (user_id <> ''),
    created_at integer not null,
    updated_at integer not null,
    unique (app_no, user_id)
) strict;

-- The names of attributes. The number is unique in the application, and short.
create table attributes (
    app_no integer not null references apps (no),
    number integer not null,
    name text not null check (name <> ''),
    primary key (app_no, number),
    unique (app_no, name)
) strict, without rowid;

-- The values that count for a device: its own, and those of its user that it has no own value of.
create table device_attributes (
    device_key integer not null,
    attribute integer not null,
    -- The type and the value (notify-core, `AttributeValue::to_stored`).
    value text not null,
    own integer not null check (own in (0, 1)),
    primary key (device_key, attribute)
) strict, without rowid;
create index device_attributes_by_value on device_attributes (attribute, value, device_key);

create table user_attributes (
    user_no integer not null references users (no),
    attribute integer not null,
    value text not null,
    primary key (user_no, attribute)
) strict, without rowid;
-- Finds names of attributes without values.
create index user_attributes_by_name on user_attributes (attribute, user_no);

create table segments (
    app_no integer not null references apps (no),
    name text not null check (name <> ''),
    -- The condition in JSON.
    audience text not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (app_no, name)
) strict, without rowid;

create table campaigns (
    no integer primary key,
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
    no integer primary key,
    app_no integer not null references apps (no),
    id blob not null check (length(id) = 16),
    url text not null check (url <> ''),
    name text not null,
    status text not null default 'pending' check (status in ('pending', 'ok', 'failing')),
    items integer not null default 0 check (items >= 0),
    last_fetched_at integer,
    last_error text,
    created_at integer not null,
    -- When the feed is fetched next, or until when a fetch that is under way may take; null if it is never
    -- fetched again.
    next_fetch_at integer default 0,
    -- The number of fetches that began. It distinguishes a fetch that took too long from the one after it.
    claims integer not null default 0,
    -- Fetches in a row that failed.
    failures integer not null default 0,
    -- What a conditional request names, as in the last good answer.
    etag text,
    last_modified text,
    -- How long the feed says it may be kept.
    ttl_minutes integer,
    -- Where it was moved to, and how many answers in a row said so.
    moved_to text,
    moved_times integer not null default 0,
    -- Digest of the items, so that unchanged items are not written again.
    items_digest blob,
    unique (app_no, id),
    unique (app_no, url)
) strict;
create index feeds_due on feeds (next_fetch_at, (no & 8796093022207)) where next_fetch_at is not null;

create table feed_items (
    feed_no integer not null references feeds (no) on delete cascade,
    -- From 0, newest first.
    place integer not null,
    title text not null,
    url text not null,
    image_url text,
    published_at integer,
    primary key (feed_no, place)
) strict, without rowid;

create table campaign_feeds (
    campaign_no integer not null references campaigns (no) on delete cascade,
    feed_no integer not null references feeds (no),
    primary key (campaign_no, feed_no)
) strict, without rowid;
create index campaign_feeds_by_feed on campaign_feeds (feed_no);

-- Work of all applications goes by the count in the number alone, so that the oldest comes first:
-- `no & 8796093022207`.
create table notifications (
    no integer primary key,
    app_no integer not null references apps (no),
    id text not null check (id <> ''),
    origin text not null check (origin in ('created', 'reported')),
    status text not null
        check (status in ('scheduled', 'queued', 'sending', 'completed', 'canceled', 'reported')),
    created_at integer not null,
    due_at integer,
    -- Wall-clock time of each device, as if it were UTC.
    local_time integer,
    -- When the zones of that time are checked next; null if there is no more to come.
    next_zone_at integer,
    started_at integer,
    completed_at integer,
    -- The body as it was sent. Named ids are stored nowhere else, so that an erasure finds them.
    request text not null,
    -- Bits of the platforms of the target.
    platforms integer not null,
    names_devices integer not null check (names_devices in (0, 1)),
    tag text,
    -- The condition of the audience in JSON, with the conditions of segments written out.
    audience text,
    -- The numbers of the users that the notification names, eight bytes each, sorted; fixed when it is
    -- due. Null if it names none.
    named_users blob,
    -- Those of them of whom a device got the notification, in the same form. Written when the outcomes are
    -- deleted.
    reached_users blob,
    -- The number of named ids for devices of any platform that name no device: they belong to no dispatch.
    unknown integer not null default 0,
    ttl_seconds integer not null,
    collapse_key text,
    campaign_id blob check (length(campaign_id) = 16),
    -- The highest device sequence when it was due.
    audience_until integer,
    open_dispatches integer not null default 0 check (open_dispatches >= 0),
    cancel_requested_at integer,
    -- Deliveries that were canceled before that, and not by the request.
    canceled_before integer not null default 0,
    -- Whether the request canceled zones that had not begun.
    zones_canceled integer not null default 0 check (zones_canceled in (0, 1)),
    -- When a request paused the notification, and why; null while it is not paused.
    paused_at integer,
    paused_reason text,
    -- The canary of the notification in JSON; null if it has none.
    canary text,
    -- When the canary is checked next; null once it is judged.
    canary_check_at integer,
    -- When the canary is judged, unless it makes progress until then; and how far it was.
    canary_judge_at integer,
    canary_progress integer,
    -- With `per_minute`: when the next first attempts may be granted.
    next_grant_at integer,
    -- What is kept of it for each device: 1 outcomes, 2 events.
    kept integer not null default 3 check (kept between 0 and 3),
    unique (app_no, id)
) strict;
create index notifications_by_app on notifications (app_no);
create index notifications_due on notifications (due_at, (no & 8796093022207))
    where status in ('scheduled', 'queued');
create index notifications_zones on notifications (next_zone_at, (no & 8796093022207))
    where next_zone_at is not null;
create index notifications_canaries on notifications (canary_check_at) where canary_check_at is not null;
create index notifications_naming on notifications (app_no) where names_devices = 1;
-- A delivery asks which notifications with its collapse key became due later. A local time is at most 14 hours
-- behind UTC.
create index notifications_by_collapse_key
    on notifications (app_no, collapse_key, coalesce(due_at, local_time + 50400000))
    where collapse_key is not null;
-- What retention looks for: those that ended, by what is kept of them and when they ended.
create index notifications_ended on notifications (kept, coalesce(completed_at, created_at))
    where status in ('completed', 'canceled', 'reported');
create index notifications_by_campaign on notifications (app_no, campaign_id)
    where campaign_id is not null;

create table dispatches (
    no integer primary key,
    notification_no integer not null references notifications (no),
    platform integer not null,
    -- Which devices of the audience: a zone, by its offset from UTC in minutes, or a code of `Portion`.
    portion integer not null,
    due_at integer not null,
    -- Keys of named devices, eight bytes each, sorted; null when a platform or tag is scanned.
    named blob,
    -- The user of each named device, eight bytes each, in the order of `named`; null if the request
    -- names devices.
    named_users blob,
    cursor integer not null,
    until integer not null,
    scan_done integer not null default 0 check (scan_done in (0, 1)),
    is_canceled integer not null default 0 check (is_canceled in (0, 1)),
    -- While the notification is paused: the time at which the rest of the dispatch expires. Until then no page
    -- of it is claimed.
    paused_until integer,
    -- A dispatch ends when the last of these reaches 0.
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
    unique (notification_no, platform, portion),
    check (cursor <= until)
) strict;
create index dispatches_unread on dispatches ((no & 8796093022207)) where scan_done = 0;

create table pages (
    no integer primary key,
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
    -- With `on_crash` `skip`: the keys of the devices to which messages are being sent, eight bytes each.
    intents blob,
    check (from_key <= to_key)
) strict;
create index pages_by_dispatch on pages (dispatch_no, to_key);
create index pages_open on pages ((no & 8796093022207)) where finished = 0;

-- Outcomes in the form of delivery/outcomes.rs. Each checkpoint adds a chunk, which never changes.
create table outcomes (
    page_no integer not null references pages (no),
    chunk_no integer not null,
    at integer not null,
    entries blob not null,
    primary key (page_no, chunk_no)
) strict, without rowid;

create table retries (
    no integer primary key,
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
    -- When it can be claimed: its due time, or the end of the lease of the server that claimed it.
    claimable_at integer not null,
    epoch integer,
    unknown_outcomes integer not null,
    reason text,
    -- The provider's id of the message, if it is kept.
    message_id text,
    settled_at integer,
    -- With `on_crash` `skip`: whether the retry is being sent.
    has_intent integer not null default 0,
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

-- Who answered a poll on its page (B32): half of the SHA-256 of the visitor's random id, and the place of the
-- answer.
create table poll_visitors (
    notification_no integer not null references polls (notification_no),
    visitor blob not null check (length(visitor) = 16),
    place integer not null,
    primary key (notification_no, visitor)
) strict, without rowid;

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

-- What happened with the notifications of an application, by the day (UTC, days since 1970-01-01) on
-- which it was recorded (B33). It is counted in the transaction that records it, and never taken back.
create table day_counts (
    app_no integer not null references apps (no),
    day integer not null,
    sent integer not null default 0 check (sent >= 0),
    failed integer not null default 0 check (failed >= 0),
    unregistered integer not null default 0 check (unregistered >= 0),
    expired integer not null default 0 check (expired >= 0),
    received integer not null default 0 check (received >= 0),
    opened integer not null default 0 check (opened >= 0),
    clicked integer not null default 0 check (clicked >= 0),
    dismissed integer not null default 0 check (dismissed >= 0),
    primary key (app_no, day)
) strict, without rowid;

-- Events for webhooks and the stream. Bits and codes of event types are in store/event.rs. An application
-- without a row keeps no events.
create table event_logs (
    app_no integer primary key references apps (no),
    -- Bits of the types that an enabled webhook gets.
    wanted integer not null default 0,
    -- Until when every type is kept, because somebody read the stream recently.
    stream_until integer not null default 0,
    -- The highest number that was deleted, or that stands for events which were not kept. It only grows.
    floor integer not null default 0
) strict;

-- Rows name their objects, whose fields are read when the event is sent. No event names an erased device.
create table events (
    app_no integer not null references apps (no),
    -- Without gaps within an application.
    no integer not null,
    type integer not null,
    -- When it was written.
    at integer not null,
    notification_no integer,
    device_key integer,
    -- The user of the device when the event happened.
    user_no integer,
    -- Reason, answer, or the time by the device's clock, depending on the type.
    detail text,
    primary key (app_no, no)
) strict, without rowid;

create table webhooks (
    no integer primary key,
    app_no integer not null references apps (no),
    id blob not null check (length(id) = 16),
    url text not null check (url <> ''),
    description text,
    events integer not null,
    enabled integer not null check (enabled in (0, 1)),
    disabled_reason text,
    -- The secret, and the one before it while it still signs; sealed (secrets.rs).
    sealed blob not null,
    previous_sealed blob,
    previous_until integer,
    -- The last event that was processed for it.
    cursor integer not null,
    failing_since integer,
    dropped integer not null default 0 check (dropped >= 0),
    created_at integer not null,
    updated_at integer not null,
    unique (app_no, id),
    check ((previous_sealed is null) = (previous_until is null))
) strict;

create table webhook_messages (
    no integer primary key,
    webhook_no integer not null references webhooks (no),
    id blob not null check (length(id) = 16),
    type integer not null,
    at integer not null,
    notification_no integer,
    device_key integer,
    user_no integer,
    detail text,
    -- 0 pending, 1 delivered, 2 failed.
    state integer not null default 0 check (state in (0, 1, 2)),
    attempts integer not null default 0,
    -- When it was made or redelivered. The retry schedule counts from here.
    started_at integer not null,
    due_at integer not null,
    -- When it can be claimed: its due time, or the end of the lease of the server that claimed it.
    claimable_at integer not null,
    claim integer,
    status integer,
    reason text,
    latency_ms integer,
    created_at integer not null,
    last_attempt_at integer,
    unique (webhook_no, id)
) strict;
create index webhook_messages_pending on webhook_messages (webhook_no, claimable_at) where state = 0;
create index webhook_messages_by_webhook on webhook_messages (webhook_no, no);
create index webhook_messages_over on webhook_messages (last_attempt_at) where state <> 0;

create table idempotency (
    app_no integer not null,
    path text not null,
    key text not null,
    digest blob not null check (length(digest) = 32),
    answer text not null,
    at integer not null,
    -- The device that the path or the stored answer is about. The record is deleted with the device.
    device_id text,
    primary key (app_no, path, key)
) strict, without rowid;
create index idempotency_by_age on idempotency (at);
create index idempotency_by_device on idempotency (app_no, device_id) where device_id is not null;

-- Ids of erased devices and users that stored requests may still contain. A search removes them from the
-- requests. Until it has ended, whoever reads a request leaves them out.
create table erased_ids (
    app_no integer not null references apps (no),
    -- 0 of a device, 1 of a user.
    kind integer not null check (kind in (0, 1)),
    id text not null check (id <> ''),
    -- The last notification that may name it. Later ones name another device or user of this id.
    last_no integer not null,
    -- The last notification that does not have to be searched.
    searched_to integer not null,
    -- Whether the search that is running looks for it.
    is_sought integer not null default 0 check (is_sought in (0, 1)),
    erased_at integer not null,
    primary key (app_no, kind, id)
) strict, without rowid;
create index erased_ids_by_search on erased_ids (app_no, is_sought, erased_at);

-- Servers that work on this database, and until when each is alive. The pages and retries of a dead server go
-- to the others.
create table servers (
    epoch integer primary key,
    alive_until integer not null
) strict;

-- What the installation remembers of itself, in one row. Without the row, the keys were shown, and the clock is
-- trusted.
create table installation (
    no integer primary key check (no = 1),
    -- Whether the keys of the first start were shown.
    keys_shown integer not null default 1 check (keys_shown in (0, 1)),
    -- The latest time that is trusted for deleting by age; null: the next time is trusted.
    trusted_at integer,
    -- Whether the clock was further ahead of it than time can have passed.
    clock_in_doubt integer not null default 0 check (clock_in_doubt in (0, 1)),
    -- Which offsets the devices in named time zones have, and how far their correction is, in JSON
    -- (store/zone_offsets.rs). Null: no correction has ended yet.
    zone_offsets text
) strict;

-- The move of the whole installation; without a row there is none. In the database that was moved away, the row
-- stays after the move, because its servers would send a second time what the servers of the other one send.
create table moves (
    no integer primary key check (no = 1),
    -- 'arriving' here, 'leaving' from here, or 'left'.
    state text not null check (state in ('arriving', 'leaving', 'left')),
    -- The same in both databases of a move.
    id blob not null check (length(id) = 16),
    -- The other database, for people.
    place text not null,
    at integer not null
) strict;

-- A readiness check writes this row, so that a full disk shows.
create table storage_checks (
    no integer primary key check (no = 1),
    count integer not null
) strict;
insert into storage_checks (no, count) values (1, 0);
