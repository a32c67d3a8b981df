-- What happened, for webhooks and the event stream, and the webhooks with what they are sent. Bits
-- and codes of event types are in store/event.rs.

-- Whether events of an application are wanted at all: no row, no cost.
create table event_logs (
    app_no integer primary key references apps (no),
    -- Bits of the types that an enabled webhook is told of.
    wanted integer not null default 0,
    -- Until when every type is kept, because somebody read the stream lately.
    stream_until integer not null default 0,
    -- The highest number that is gone, or that stands for events which were not kept. Grows only.
    floor integer not null default 0
) strict;

-- Rows name what they are about and are told as it is then: an erased device is in none.
create table events (
    app_no integer not null references apps (no),
    -- Without gaps within an application.
    no integer not null,
    type integer not null,
    -- When it was written.
    at integer not null,
    notification_no integer,
    device_key integer,
    -- Reason, answer, or the device's own time, by type.
    detail text,
    primary key (app_no, no)
) strict, without rowid;

create table webhooks (
    no integer primary key autoincrement,
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
    -- The last event that was looked at for it.
    cursor integer not null,
    failing_since integer,
    dropped integer not null default 0 check (dropped >= 0),
    created_at integer not null,
    updated_at integer not null,
    unique (app_no, id),
    check ((previous_sealed is null) = (previous_until is null))
) strict;

create table webhook_messages (
    no integer primary key autoincrement,
    webhook_no integer not null references webhooks (no),
    id blob not null check (length(id) = 16),
    type integer not null,
    at integer not null,
    notification_no integer,
    device_key integer,
    detail text,
    -- 0 pending, 1 delivered, 2 failed.
    state integer not null default 0 check (state in (0, 1, 2)),
    attempts integer not null default 0,
    -- What the retry schedule counts from: when it was made or redelivered.
    started_at integer not null,
    due_at integer not null,
    -- When it can be claimed: its due time, or the end of the lease of who claimed it.
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
