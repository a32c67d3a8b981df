-- Rows in every table, for tests of migrations. `moves` has none: a server does not open a database that was
-- moved. A running server writes `installation`.
insert into apps (no, id, name, language, status, created_at, device_sequence) values
    (1, randomblob(16), 'Shop', 'en', 'active', 1, 400),
    (7, randomblob(16), 'Läden 🛍', 'de', 'suspended', 2, 0);
insert into api_keys (no, app_no, id, hash, hint, name, created_at, last_used_at) values
    (3, 1, randomblob(16), randomblob(32), 'nk_…', null, 1, 5);
insert into admin_keys (no, id, hash, hint, created_at) values (1, randomblob(16), randomblob(32), 'na_…', 1);
insert into sessions values (1, randomblob(16), randomblob(32), 1, '192.0.2.7', 1, 2);
insert into audit values
    (1, 1, 'create_app', randomblob(16), null, randomblob(16), 'na_…', '192.0.2.7', 'api', 'r-1');
insert into providers values (1, 'apns', x'00ff', 1), (1, 'fcm', x'', 2);
insert into provider_tokens values (randomblob(32), randomblob(90), 1, -7, 3);
insert into channel_states (no, app_no, platform, service, state, reason, until, told_by, at) values
    (4, 1, 0, '', 2, 'PERMISSION_DENIED', 9, -5, 1), (6, 1, 2, 'https://push.example', 0, null, null, null, 1);
insert into web_access values (1, '{"allowed_origins":[]}');
with recursive n(i) as (select 1 union all select i + 1 from n where i < 400)
insert into devices (key, app_no, device_id, address, address_hash, ios_env, push_disabled,
    utc_offset_minutes, details, created_at)
select (1 << 43) + i, 1, 'd' || i, case when i % 5 = 0 then null else 'token-' || i end,
    case when i % 5 = 0 then null else i * i end, i % 2, 0, 60, '{"model":"m"}', i from n;
insert into device_fields (key, timezone, created_at, registered_at)
select key, utc_offset_minutes, created_at, created_at + 9 from devices;
insert into device_secrets (device_key, hash) values ((1 << 43) + 1, randomblob(32));
insert into unverified_addresses values (8796093022209, 5, 1), (8796093022210, -1, 0);
insert into purge_guards values (1, 0, 1, 21, zeroblob(168), 9);
insert into device_counts values (1, 400000, 0, 1, 400);
insert into device_zones values (1, 0, 60, 400);
insert into tags (no, app_no, name, holders, devices) values
    ((1 << 43) + 1, 1, 'news', 120, 60), ((1 << 43) + 12, 1, 'Ünï', 0, 0);
insert into device_tags select (1 << 43) + 1, key, key % 2 from devices limit 120;
insert into users values ((1 << 43) + 1, 1, 'ada', 1, 2);
insert into attributes values (1, 1, 'plan');
insert into user_attributes values ((1 << 43) + 1, 1, 'spro');
update device_fields set user_no = (1 << 43) + 1 where key in (select min(key) from device_fields);
insert into device_attributes select key, 1, 'spro', 0 from device_fields where user_no is not null;
insert into segments values (1, 'paying', '{"attribute":"plan","is":"pro"}', 1, 2);
insert into campaigns values (4, 1, randomblob(16), 'Spring', 'spring', 'active', 1, 5, '{"a":1}');
insert into feeds (no, app_no, id, url, name, status, items, created_at, etag, failures, items_digest,
    next_fetch_at) values
    (2, 1, randomblob(16), 'https://example.com/feed', 'Feed', 'ok', 1, 1, 'W/"1"', 2, zeroblob(32),
        4000000000000);
insert into feed_items values (2, 0, 'Title', 'https://example.com/1', null, 3);
insert into campaign_feeds values (4, 2);
insert into notifications (no, app_no, id, origin, status, created_at, due_at, request, platforms,
    names_devices, ttl_seconds) values
    (1, 1, 'n-1', 'created', 'sending', 1, 1, '{"text":"Hello"}', 3, 0, 60),
    (2, 1, 'n-2', 'created', 'scheduled', 1, 4000000000000, '{"text":"Later"}', 3, 0, 60),
    (3, 1, 'n-3', 'reported', 'reported', 1, null, '{}', 0, 1, 0);
insert into dispatches (no, notification_no, platform, portion, due_at, named, cursor, until) values
    (5, 1, 0, 32767, 1, null, 0, 9), (6, 1, 1, 60, 1, zeroblob(4000), 1, 1);
insert into pages (no, dispatch_no, from_key, to_key, epoch, lease_until, targeted, excluded) values
    (8, 5, 1, 9, -5, 1, 3, 0);
insert into outcomes values (8, 0, 1, randomblob(900)), (8, 1, 1, x'');
insert into retries (no, dispatch_no, page_no, app_no, platform, device_key, attempts, first_attempt_at,
    due_at, claimable_at, unknown_outcomes) values (3, 5, 8, 1, 0, (1 << 43) + 1, 1, 1, 2, 2, 0);
insert into failures values (5, 'unregistered', 2);
insert into polls values (1, randomblob(16), 'Tea?', 1, null, 'en', 1);
insert into poll_answers values (1, 0, randomblob(16), 'Yes', null, 2);
insert into poll_votes values (1, (1 << 43) + 1), (1, (1 << 43) + 2);
insert into poll_visitors values (1, randomblob(16), 0), (1, randomblob(16), 0);
insert into engagement values (1, (1 << 43) + 1, 0, 1);
insert into engagement_counts values (1, 1, 0, 0, 1);
insert into day_counts (app_no, day, sent) values (1, 20000, 5);
insert into event_logs values (1, 3, 9, 2);
insert into events (app_no, no, type, at, notification_no, device_key, detail) values
    (1, 3, 0, 1, 1, (1 << 43) + 1, 'unregistered'), (1, 4, 1, 1, null, null, null);
insert into webhooks (no, app_no, id, url, events, enabled, sealed, cursor, created_at, updated_at) values
    (2, 1, randomblob(16), 'https://example.com/hook', 63, 1, randomblob(60), 3, 1, 1);
insert into webhook_messages (no, webhook_no, id, type, at, started_at, due_at, claimable_at, created_at)
    values (11, 2, randomblob(16), 0, 1, 1, 1, 1, 1);
insert into idempotency (app_no, path, key, digest, answer, at) values
    (1, '/v1/notifications', 'k', randomblob(32), '{}', 1);
insert into erased_ids values (1, 1, 'gone', 1, 0, 0, 5);
insert into servers values (-5, 3);
update storage_checks set count = 12;
-- A start gives no number of the rows above again.
update numbers set last = 1000;
