-- What browsers may do with an application without a key of it: origins, tags, push services.
create table web_access (
    app_no bigint primary key references apps (no),
    access text collate "C" not null
);

-- What a browser shows to act as its device: SHA-256 of a secret. Only devices of browsers that
-- subscribed by themselves have one.
create table device_secrets (
    device_key bigint primary key,
    hash bytea not null check (length(hash) = 32)
);
