insert into channel_states (no, app_no, platform, service, state, reason, until, told_by, at) values
    (4, 1, 0, '', 2, 'PERMISSION_DENIED', 9, -5, 1), (6, 1, 2, 'https://push.example', 0, null, null, null, 1);
