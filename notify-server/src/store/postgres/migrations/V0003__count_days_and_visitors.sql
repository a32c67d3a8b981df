-- What happened with the notifications of an application, by the day (UTC, days since 1970-01-01) on
-- which it was recorded (B33). Counted in the transaction that records it; nothing takes it back.
create table day_counts (
    app_no bigint not null references apps (no),
    day bigint not null,
    sent bigint not null default 0 check (sent >= 0),
    received bigint not null default 0 check (received >= 0),
    opened bigint not null default 0 check (opened >= 0),
    clicked bigint not null default 0 check (clicked >= 0),
    dismissed bigint not null default 0 check (dismissed >= 0),
    primary key (app_no, day)
);

-- Who answered a poll on its page (B32): half of the SHA-256 of the visitor's random id, and the
-- answer's place.
create table poll_visitors (
    notification_no bigint not null references polls (notification_no),
    visitor bytea not null check (length(visitor) = 16),
    place bigint not null,
    primary key (notification_no, visitor)
);
