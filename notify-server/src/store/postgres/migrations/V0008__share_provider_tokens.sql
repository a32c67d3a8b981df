-- Tokens that one server signs for all (APNs), by a digest of team and key, sealed with the master key.
-- `wall_ahead_ms`: how far its signer's wall clock was ahead of the servers'. `frozen_until`: the
-- provider wants none newer before.
create table provider_tokens (
    name bytea primary key,
    sealed bytea not null,
    issued_at bigint not null,
    wall_ahead_ms bigint not null,
    frozen_until bigint
);
