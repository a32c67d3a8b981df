-- The application leads the numbers of rows, and so every key that begins with one (store/key.rs): 20
-- bits above a count of 43, which goes on where the numbers from before end. A table that numbers its
-- rows has its count here; its inserts give the number (store/sql/insert.rs).
create table numbers (
    name text primary key,
    -- The last count that the table gave. Grows only: what a row had is not given again.
    last integer not null check (last between 0 and 8796093022207)
) strict, without rowid;
with numbered (name) as (values ('apps'), ('tags'), ('campaigns'), ('feeds'), ('notifications'),
    ('dispatches'), ('pages'), ('retries'), ('webhooks'), ('webhook_messages'), ('channel_states'))
insert into numbers (name, last)
select name, coalesce((select seq from sqlite_sequence s where s.name = numbered.name), 0)
  from numbered;
insert into numbers (name, last) select 'api_keys', coalesce(max(no), 0) from api_keys;
insert into numbers (name, last) select 'admin_keys', coalesce(max(no), 0) from admin_keys;

-- What is oldest first over all applications goes by the count alone. A new number is larger than every
-- one from before, whose application's place is 0.
drop index notifications_due;
create index notifications_due on notifications (due_at, (no & 8796093022207))
    where status in ('scheduled', 'queued');
drop index notifications_zones;
create index notifications_zones on notifications (next_zone_at, (no & 8796093022207))
    where next_zone_at is not null;
drop index dispatches_unread;
create index dispatches_unread on dispatches ((no & 8796093022207)) where scan_done = 0;
drop index pages_open;
create index pages_open on pages ((no & 8796093022207)) where finished = 0;
drop index feeds_due;
create index feeds_due on feeds (next_fetch_at, (no & 8796093022207)) where next_fetch_at is not null;

-- Of one place there is one word: the place is the key. The number still tells which word is later, over
-- all applications.
drop index channel_states_place;
alter table channel_states rename to channel_states_before;
create table channel_states (
    app_no integer not null references apps (no),
    platform integer not null,
    -- A push service, a host; empty for the provider as a whole.
    service text not null,
    no integer not null unique,
    state integer not null,
    -- The provider's word.
    reason text,
    -- Until when the state lasts, or when it is probed.
    until integer,
    -- Epoch of the server that said so; null where an administrator did, or the guard.
    told_by integer,
    at integer not null,
    primary key (app_no, platform, service)
) strict, without rowid;
insert into channel_states (app_no, platform, service, no, state, reason, until, told_by, at)
select app_no, platform, service, no, state, reason, until, told_by, at from channel_states_before;
drop table channel_states_before;
