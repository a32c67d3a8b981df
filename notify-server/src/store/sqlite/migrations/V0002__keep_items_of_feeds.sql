-- Feeds are fetched: when next, how the last fetches went, and what they gave.

-- When the feed is to be fetched next, or until when a fetch may take that is under way; null when
-- it never is again. Feeds from before are due at once.
alter table feeds add column next_fetch_at integer default 0;
-- Fetches begun: tells one that took too long from the one that followed it.
alter table feeds add column claims integer not null default 0;
-- Fetches in a row that failed.
alter table feeds add column failures integer not null default 0;
-- What a conditional request names, as the last good answer gave it.
alter table feeds add column etag text;
alter table feeds add column last_modified text;
-- How long the feed says it may be kept.
alter table feeds add column ttl_minutes integer;
-- Where it was moved to, and how many answers in a row said so.
alter table feeds add column moved_to text;
alter table feeds add column moved_times integer not null default 0;
-- Digest of the items, so that the same ones again are not written.
alter table feeds add column items_digest blob;
create index feeds_due on feeds (next_fetch_at) where next_fetch_at is not null;

create table feed_items (
    feed_no integer not null references feeds (no) on delete cascade,
    -- From 0, newest first.
    place integer not null,
    title text not null,
    url text not null,
    image_url text,
    published_at integer,
    primary key (feed_no, place)
) strict, without rowid;
