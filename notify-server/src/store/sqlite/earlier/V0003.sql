insert into day_counts (app_no, day, sent) values (1, 20000, 5);
insert into poll_visitors values (1, randomblob(16), 0), (1, randomblob(16), 0);
