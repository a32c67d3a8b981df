-- The application leads the numbers of rows, and so every key that begins with one (store/key.rs): 20
-- bits above a count of 43, which is the sequence of the table's identity and goes on where the numbers
-- from before end. Inserts give the number (store/sql/insert.rs).
do $$
declare
    numbered name;
begin
    -- Only tables that an earlier version created have sequences without this bound. Citus alters no
    -- sequence of a table that it distributes.
    for numbered in
        select c.relname from pg_sequence s join pg_class c on c.oid = s.seqrelid
         where c.relnamespace = quote_ident(current_schema())::regnamespace and s.seqmax > 8796093022207
           and c.relname in ('tags_no_seq', 'campaigns_no_seq', 'feeds_no_seq', 'notifications_no_seq',
               'dispatches_no_seq', 'pages_no_seq', 'retries_no_seq', 'api_keys_no_seq', 'webhooks_no_seq',
               'webhook_messages_no_seq')
    loop
        execute format('alter sequence %I maxvalue 8796093022207', numbered);
    end loop;
end $$;

-- What is oldest first over all applications goes by the count alone. A new number is larger than every
-- one from before, whose application's place is 0.
drop index notifications_due;
create index notifications_due on notifications (due_at, (no & 8796093022207))
    where status in ('scheduled', 'queued');
drop index notifications_zones;
create index notifications_zones on notifications (next_zone_at, (no & 8796093022207))
    where next_zone_at is not null;
drop index dispatches_unread;
create index dispatches_unread on dispatches ((no & 8796093022207)) where scan_done = 0;
drop index pages_open;
create index pages_open on pages ((no & 8796093022207)) where finished = 0;
drop index feeds_due;
create index feeds_due on feeds (next_fetch_at, (no & 8796093022207)) where next_fetch_at is not null;

-- The rows of an application lie together now, where the planner takes those of all to be mixed: it would
-- walk the key past everybody else's. These have the order that is asked for.
drop index notifications_by_app;
create index notifications_by_app on notifications (app_no, no);
drop index notifications_naming;
create index notifications_naming on notifications (app_no, no) where names_devices = 1;
create index feeds_by_app on feeds (app_no, no);
create index webhooks_by_app on webhooks (app_no, no);

-- Of one place there is one word: the place is the key. The number still tells which word is later, over
-- all applications.
alter table channel_states drop constraint channel_states_pkey;
alter table channel_states add primary key using index channel_states_place;
alter table channel_states add unique (no);
