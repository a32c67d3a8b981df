-- A delivery asks which notifications with its collapse key became due later. A local time is at most 14 hours
-- behind UTC.
drop index notifications_by_collapse_key;
create index notifications_by_collapse_key
    on notifications (app_no, collapse_key, coalesce(due_at, local_time + 50400000))
    where collapse_key is not null;
