-- People, by the ids of the application. A device belongs to at most one user.
create table users (
    no integer primary key,
    app_no integer not null references apps (no),
    user_id text not null check (user_id <> ''),
    created_at integer not null,
    updated_at integer not null,
    unique (app_no, user_id)
) strict;
insert into numbers (name, last) values ('users', 0);

-- The fields that conditions of audiences compare, apart from the wide row, so that a scan of all devices is
-- cheap. Every device has a row.
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
    -- The last registration that changed something, as in `devices`.
    registered_at integer not null
) strict;
create index device_fields_by_user on device_fields (user_no) where user_no is not null;
insert into device_fields (key, country, language, app_version, os_version, timezone, created_at,
    registered_at)
select key, json_extract(details, '$.country'), json_extract(details, '$.language'),
    json_extract(details, '$.app_version'), json_extract(details, '$.os_version'),
    case when coalesce(json_extract(details, '$.timezone'), json_extract(details, '$.utc_offset'))
        is not null then utc_offset_minutes end,
    created_at, registered_at
from devices;

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

create table segments (
    app_no integer not null references apps (no),
    name text not null check (name <> ''),
    -- The condition in JSON.
    audience text not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (app_no, name)
) strict, without rowid;

-- The condition of the audience in JSON, with the conditions of segments written out.
alter table notifications add column audience text;
-- The numbers of the users that the notification names, eight bytes each, sorted; fixed when it is
-- due. Null if it names none.
alter table notifications add column named_users blob;
-- Those of them of whom a device got the notification, in the same form. Written when the outcomes are
-- deleted.
alter table notifications add column reached_users blob;
-- The user of each named device, eight bytes each, in the order of `named`; null if the request
-- names devices.
alter table dispatches add column named_users blob;
-- The user of the device when the event happened.
alter table events add column user_no integer;
alter table webhook_messages add column user_no integer;
