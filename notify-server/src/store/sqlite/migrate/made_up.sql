-- A migration that was made up for tests: it adds a column and a table, changes many rows, and builds a table
-- anew in another order.
alter table apps add column region text;
update apps set region = 'eu';
create table regions (name text primary key) strict;
insert into regions select distinct region from apps;
update devices set details = json_set(details, '$.migrated', 1);
create table device_tags_in_order (
    device_key integer not null,
    tag_no integer not null references tags (no),
    value integer not null check (value in (0, 1)),
    primary key (device_key, tag_no)
) strict, without rowid;
insert into device_tags_in_order select device_key, tag_no, value from device_tags;
drop table device_tags;
alter table device_tags_in_order rename to device_tags;
create index device_tags_by_tag on device_tags (tag_no, device_key);
