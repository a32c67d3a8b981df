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

-- The last notification before the server made the id of the device: none up to it names the device. Null
-- if the application chose the id.
alter table device_secrets add column unnamed_to integer;

-- The device that the path or the stored answer is about. The record is deleted with the device.
alter table idempotency add column device_id text;
create index idempotency_by_device on idempotency (app_no, device_id) where device_id is not null;

-- Finds names of attributes without values.
create index user_attributes_by_name on user_attributes (attribute, user_no);

-- Finds the devices of an application that strangers registered, by when they were last seen.
create index unverified_addresses_by_app on unverified_addresses ((device_key >> 43), since)
    where is_anonymous = 1;
