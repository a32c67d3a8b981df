insert into unverified_addresses values (8796093022209, 5, 1), (8796093022210, -1, 0);
