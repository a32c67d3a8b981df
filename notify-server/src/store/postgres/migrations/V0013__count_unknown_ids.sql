-- Ids of a notification for devices of any platform that name no device: they belong to no dispatch.
alter table notifications add column unknown bigint not null default 0;
