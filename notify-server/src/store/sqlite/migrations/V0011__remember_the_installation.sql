-- What an installation remembers of itself, in one row. No row: the keys were shown, and the clock is
-- trusted as it is.
create table installation (
    no integer primary key check (no = 1),
    -- Whether the keys of the first start were shown.
    keys_shown integer not null default 1 check (keys_shown in (0, 1)),
    -- The latest time that is trusted for deleting by age; null: the next one is.
    trusted_at integer,
    -- Whether the clock was further ahead of it than time can have passed.
    clock_in_doubt integer not null default 0 check (clock_in_doubt in (0, 1))
) strict;
