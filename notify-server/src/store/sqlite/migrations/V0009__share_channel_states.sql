-- What servers told each other of a provider, as one application reaches it on a platform, or of a
-- service behind it: the latest word of each. A new word is a new row, so that its number tells which
-- is later.
create table channel_states (
    no integer primary key autoincrement,
    app_no integer not null references apps (no),
    platform integer not null,
    -- A push service, a host; empty for the provider as a whole.
    service text not null,
    state integer not null,
    -- The provider's word.
    reason text,
    -- Until when the state lasts, or when it is probed.
    until integer,
    -- Epoch of the server that said so; null where an administrator did, or the guard.
    told_by integer,
    at integer not null
) strict;
create unique index channel_states_place on channel_states (app_no, platform, service);
