-- Where a move of the whole installation stands: no row, no move. The row outlives the move in the
-- database that was moved away, whose servers would send a second time what the other one's send.
create table moves (
    no integer primary key check (no = 1),
    -- 'arriving' here, 'leaving' from here, or 'left'.
    state text not null check (state in ('arriving', 'leaving', 'left')),
    -- The same in both databases of a move.
    id blob not null check (length(id) = 16),
    -- The other database, for people.
    place text not null,
    at integer not null
) strict;
