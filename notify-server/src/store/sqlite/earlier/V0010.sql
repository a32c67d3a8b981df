insert into tags (no, app_no, name, holders, devices) values ((1 << 43) + 12, 1, 'Ünï', 0, 0);
update numbers set last = 12 where name = 'tags';
