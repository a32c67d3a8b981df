-- When a request paused the notification, and why; null while it is not paused.
alter table notifications add column paused_at bigint;
alter table notifications add column paused_reason text collate "C";
-- While the notification is paused: the time at which the rest of the dispatch expires. Until then no page
-- of it is claimed.
alter table dispatches add column paused_until bigint;
