insert into web_access values (1, '{"allowed_origins":[]}');
insert into device_secrets values ((1 << 43) + 1, randomblob(32));
