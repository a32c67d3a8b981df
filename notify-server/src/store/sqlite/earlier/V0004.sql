insert into event_logs values (1, 3, 9, 2);
insert into events values (1, 3, 0, 1, 1, (1 << 43) + 1, 'unregistered'), (1, 4, 1, 1, null, null, null);
insert into webhooks (no, app_no, id, url, events, enabled, sealed, cursor, created_at, updated_at) values
    (2, 1, randomblob(16), 'https://example.com/hook', 63, 1, randomblob(60), 3, 1, 1);
insert into webhook_messages (no, webhook_no, id, type, at, started_at, due_at, claimable_at, created_at)
    values (11, 2, randomblob(16), 0, 1, 1, 1, 1, 1);
