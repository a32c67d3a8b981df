insert into feed_items values (2, 0, 'Title', 'https://example.com/1', null, 3);
update feeds set etag = 'W/"1"', failures = 2, items_digest = zeroblob(32), next_fetch_at = 4000000000000;
