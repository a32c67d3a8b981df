insert into erased_ids values (1, 1, 'gone', 1, 0, 0, 5);
