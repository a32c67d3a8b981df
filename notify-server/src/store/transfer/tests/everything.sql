-- Rows in every table that is moved, with what is hard to carry: nulls, empty texts and bytes, other
-- scripts, both ends of an integer, U+0000, more rows than a first chunk has, numbers from before the
-- application led them and from after.
insert into apps (no, id, name, language, status, created_at, device_sequence) values
    (1, randomblob(16), 'Shop', 'en', 'active', 1, 600), (7, randomblob(16), 'Läden 🛍', 'de', 'suspended', 2, 0);
insert into api_keys (no, app_no, id, hash, hint, name, created_at, last_used_at) values
    (3, 1, randomblob(16), randomblob(32), 'nk_…', null, 1, 5), (9, 7, randomblob(16), randomblob(32), '', 'x', 1, null);
update api_keys set scopes = '["read"]', expires_at = 9, lifetime_ms = 8, publishable = '{"allowed_tags":["ü"]}' where no = 9;
insert into admin_keys (no, id, hash, hint, created_at) values (1, randomblob(16), randomblob(32), 'na_…', 1);
insert into providers values (1, 'apns', x'00ff', 1), (1, 'fcm', x'', 2);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 600)
insert into devices (key, app_no, device_id, address, address_hash, ios_env, push_disabled,
    utc_offset_minutes, details, created_at)
select (1 << 43) + i, 1, 'd' || i, case when i % 5 = 0 then null else 'token-' || i end,
    case when i % 5 = 0 then null else -9223372036854775807 + i * i end, i % 2, 0, -720 + i,
    '{"model":"' || char(233, 8364) || '"}', i from n;
insert into purge_guards values (1, 0, 1, 21, zeroblob(168), 9), (1, 1, 0, 0, x'', null);
insert into device_counts values (1, 400000, 0, 1, 600), (1, 400000, 0, 0, 0);
insert into device_zones values (1, 0, -720, 3), (1, 0, 840, 4);
insert into tags values (1, 1, 'news', 2, 1), ((1 << 43) + 12, 1, 'Ünï', 0, 0);
insert into device_tags select 1, key, key % 2 from devices limit 120;
insert into campaigns values (4, 1, randomblob(16), 'Spring', 'spring', 'active', 1, 5, '{"a":"\u0000"}');
insert into feeds (no, app_no, id, url, name, status, items, last_error, created_at, etag, items_digest) values
    (2, 1, randomblob(16), 'https://example.com/feed', '', 'failing', 1, 'timed out', 1, 'W/"1"', randomblob(32));
insert into campaign_feeds values (4, 2);
insert into feed_items values (2, 0, 'a' || char(0) || 'b', 'https://example.com/1', null, 3);
insert into notifications (no, app_no, id, origin, status, created_at, request, platforms, names_devices, ttl_seconds) values
    (1, 1, 'n-1', 'created', 'sending', 1, '{"text":"Hello"}', 3, 0, 60), (2, 1, 'N-1', 'reported', 'reported', 1, '{}', 0, 1, 0);
update notifications set paused_at = 5, paused_reason = 'requested', canary = '{"percent":5}',
    canary_check_at = 9, canary_judge_at = 8, canary_progress = 3, next_grant_at = 7 where no = 1;
insert into dispatches (no, notification_no, platform, portion, due_at, named, cursor, until, paused_until) values
    (5, 1, 0, 32767, 1, null, 0, 9, 9223372036854775807), (6, 1, 1, -720, 1, zeroblob(4000), 1, 1, null);
insert into pages (no, dispatch_no, from_key, to_key, epoch, lease_until, targeted, excluded) values
    (8, 5, 1, 9, -5, 1, 3, 0), ((1 << 43) + 9, 5, 9, 10, -5, 1, 3, 0);
update pages set intents = zeroblob(16) where no = 8;
insert into outcomes values (8, 0, 1, randomblob(900)), (8, 1, 1, x''), ((1 << 43) + 9, 0, 1, x'01');
insert into retries (no, dispatch_no, page_no, app_no, platform, device_key, attempts, first_attempt_at, due_at,
    claimable_at, unknown_outcomes, has_intent) values (3, 5, 8, 1, 0, 8796093022209, 1, 1, 2, 2, 0, 1);
update apps set on_crash = 'skip' where no = 1;
insert into failures values (5, 'unregistered', 2), (5, 'Z', 1), (5, 'a', 1);
insert into polls values (1, randomblob(16), 'Tea?', 1, null, 'ar', 1);
insert into poll_answers values (1, 0, randomblob(16), 'Yes', null, 2), (1, 1, randomblob(16), 'لا', 'https://example.com/i.png', 0);
insert into poll_votes values (1, 8796093022209), (1, 8796093022210);
insert into poll_visitors select 1, randomblob(16), 0 from devices limit 70;
insert into engagement values (1, 8796093022209, 0, 1), (1, 8796093022209, 3, 2);
insert into engagement_counts values (1, 1, 0, 0, 1);
insert into idempotency values (1, '/v1/notifications', 'k', randomblob(32), '{}', 1, null), (1, '/notify', 'k', randomblob(32), '', 1, 'd1');
insert into erased_ids values (1, 0, 'Ünï', 9, 1, 1, 5), (1, 1, 'Ünï', 9, 0, 0, 9223372036854775807);
insert into day_counts (app_no, day, sent, failed, unregistered, expired) values (1, 20000, 5, 4, 3, 2);
insert into event_logs values (1, 3, 9, 2);
insert into events values (1, 3, 0, 1, 1, 8796093022209, (1 << 43) + 3, 'unregistered'),
    (1, 4, 1, 1, null, null, null, null);
insert into webhooks (no, app_no, id, url, events, enabled, sealed, cursor, created_at, updated_at) values
    (2, 1, randomblob(16), 'https://example.com/hook', 63, 1, randomblob(60), 3, 1, 1);
insert into webhook_messages (no, webhook_no, id, type, at, started_at, due_at, claimable_at, created_at) values
    (11, 2, randomblob(16), 0, 1, 1, 1, 1, 1);
insert into web_access values (1, '{"allowed_origins":[]}');
insert into device_secrets values (8796093022209, randomblob(32), 2), (8796093022210, randomblob(32), null);
insert into unverified_addresses values (8796093022209, 5, 1), (8796093022210, -1, 0);
insert into provider_tokens values (randomblob(32), randomblob(90), 1, -7, 3), (zeroblob(32), x'', 1, 0, null);
insert into channel_states (no, app_no, platform, service, state, reason, until, told_by, at) values
    (4, 1, 0, '', 2, 'PERMISSION_DENIED', 9, -5, 1), (6, 1, 2, 'https://push.example', 0, null, null, null, 1);
insert into users values ((1 << 43) + 3, 1, 'Ada', 1, 2), ((7 << 43) + 4, 7, 'Ünï 🛍', 1, 9223372036854775807);
insert into device_fields (key, user_no, country, language, app_version, os_version, timezone, created_at,
    registered_at)
select key, case when key % 50 = 0 then (1 << 43) + 3 end, case when key % 2 = 0 then 'DE' end, 'pt_BR', '', null,
    -720 + key % 9, 1, case when key % 3 = 0 then 9223372036854775807 else 2 end from devices;
insert into attributes values (1, 1, 'plan'), (1, 2, 'seats'), (7, 1, 'plan');
insert into device_attributes select key, 1 + key % 2, 's' || char(233, 8364), key % 2 from devices limit 300;
insert into user_attributes values ((1 << 43) + 3, 1, 'spro'), ((1 << 43) + 3, 2, 'n3');
insert into segments values (1, 'Ünï', '{"tag":"a\u0000"}', 1, 2), (7, 'a', '{}', 1, 2);
-- The counts of the numbers above, and of rows that are gone: none is given again.
update numbers set last = 40 where name = 'tags';
update numbers set last = 12 where name <> 'tags';
update numbers set last = 7 where name = 'apps';
update numbers set last = 4 where name = 'campaigns';
update numbers set last = 1 where name = 'admin_keys';
insert into installation values (1, 0, 1780000000000, 1, '{"of":-9223372036854775808,"run":null}');
insert into sessions values (2, randomblob(16), randomblob(32), 1, '2001:db8::7', 1, 2);
insert into audit values (5, 1, 'create_app', randomblob(16), null, randomblob(16), 'Ada', '192.0.2.7', 'api', 'r-1'),
    (6, 2, 'rename_admin_key', null, 'x', randomblob(16), 'na_…', '::1', 'console', '');
