-- The canary of the notification in JSON; null if it has none.
alter table notifications add column canary text;
-- When the canary is checked next; null once it is judged.
alter table notifications add column canary_check_at integer;
-- When the canary is judged, unless it makes progress until then; and how far it was.
alter table notifications add column canary_judge_at integer;
alter table notifications add column canary_progress integer;
-- With `per_minute`: when the next first attempts may be granted.
alter table notifications add column next_grant_at integer;
create index notifications_canaries on notifications (canary_check_at) where canary_check_at is not null;
-- Besides zones, a dispatch can have the canary or the rest of an audience.
alter table dispatches rename column zone to portion;
