insert into servers values (-5, 3);
