-- Web Push addresses that have not taken a message yet. Anybody can make one up, so they say nothing
-- about the application's credentials. The row goes with the first message that is taken. Devices from
-- before this table count as verified.
create table unverified_addresses (
    device_key integer primary key,
    -- When the address was registered, or its browser was last seen.
    since integer not null,
    -- Whether a browser registered it without an API key. Such a device is removed when its time is over.
    is_anonymous integer not null check (is_anonymous in (0, 1))
) strict;
create index unverified_addresses_anonymous on unverified_addresses (since) where is_anonymous = 1;
