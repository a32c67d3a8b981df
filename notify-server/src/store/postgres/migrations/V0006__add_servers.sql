-- Servers that work on this database, and until when each counts as alive. One that does not has lost
-- its pages and retries to the others.
create table servers (
    epoch bigint primary key,
    alive_until bigint not null
);
