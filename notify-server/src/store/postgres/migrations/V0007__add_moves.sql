-- Where a move of the whole installation stands: no row, no move. The row outlives the move in the
-- database that was moved away, whose servers would send a second time what the other one's send.
create table moves (
    no bigint primary key check (no = 1),
    -- 'arriving' here, 'leaving' from here, or 'left'.
    state text collate "C" not null check (state in ('arriving', 'leaving', 'left')),
    -- The same in both databases of a move.
    id bytea not null check (length(id) = 16),
    -- The other database, for people.
    place text collate "C" not null,
    at bigint not null
);
