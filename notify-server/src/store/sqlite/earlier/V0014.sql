insert into sessions values (1, randomblob(16), randomblob(32), 1, '192.0.2.7', 1, 2);
insert into audit values (1, 1, 'create_app', randomblob(16), null, randomblob(16), 'na_…', '192.0.2.7', 'api', 'r-1');
