-- Feeds are fetched: when next, how the last fetches went, and what they gave.

-- When the feed is to be fetched next, or until when a fetch may take that is under way; null when
-- it never is again. Feeds from before are due at once.
alter table feeds add column next_fetch_at bigint default 0;
-- Fetches begun: tells one that took too long from the one that followed it.
alter table feeds add column claims bigint not null default 0;
-- Fetches in a row that failed.
alter table feeds add column failures bigint not null default 0;
-- What a conditional request names, as the last good answer gave it.
alter table feeds add column etag text collate "C";
alter table feeds add column last_modified text collate "C";
-- How long the feed says it may be kept.
alter table feeds add column ttl_minutes bigint;
-- Where it was moved to, and how many answers in a row said so.
alter table feeds add column moved_to text collate "C";
alter table feeds add column moved_times bigint not null default 0;
-- Digest of the items, so that the same ones again are not written.
alter table feeds add column items_digest bytea;
create index feeds_due on feeds (next_fetch_at) where next_fetch_at is not null;

create table feed_items (
    feed_no bigint not null references feeds (no) on delete cascade,
    -- From 0, newest first.
    place bigint not null,
    title text collate "C" not null,
    url text collate "C" not null,
    image_url text collate "C",
    published_at bigint,
    primary key (feed_no, place)
);
