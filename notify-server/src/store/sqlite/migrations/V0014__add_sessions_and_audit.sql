-- When an admin key was last used.
alter table admin_keys add column last_used_at integer;

-- Sessions of the console. A browser has the secret in a cookie; here is the SHA-256 of it. A session
-- ends with its admin key.
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

insert into numbers (name, last) values ('sessions', 0), ('audit', 0);
