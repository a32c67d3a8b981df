-- Ids of a notification for devices of any platform that name no device: they belong to no dispatch.
alter table notifications add column unknown integer not null default 0;
