insert into provider_tokens values (randomblob(32), randomblob(90), 1, -7, 3);
