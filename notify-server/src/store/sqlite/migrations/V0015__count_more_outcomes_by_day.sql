-- Deliveries that ended otherwise than sent, by the day (UTC) on which their outcome was recorded.
alter table day_counts add column failed integer not null default 0 check (failed >= 0);
alter table day_counts add column unregistered integer not null default 0 check (unregistered >= 0);
alter table day_counts add column expired integer not null default 0 check (expired >= 0);
