insert into users values ((1 << 43) + 1, 1, 'ada', 1, 2);
insert into attributes values (1, 1, 'plan');
insert into user_attributes values ((1 << 43) + 1, 1, 'spro');
update device_fields set user_no = (1 << 43) + 1 where key in (select min(key) from device_fields);
insert into device_attributes select key, 1, 'spro', 0 from device_fields where user_no is not null;
insert into segments values (1, 'paying', '{"attribute":"plan","is":"pro"}', 1, 2);
update numbers set last = 1 where name = 'users';
