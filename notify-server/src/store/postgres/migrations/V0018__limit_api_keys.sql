-- What an API key may do: a JSON list of scopes. Null for all scopes, including those of later versions.
alter table api_keys add column scopes text collate "C";
-- From this time on the key is unknown; null for a key that does not expire.
alter table api_keys add column expires_at bigint;
-- How long the key was to live when it was created, in milliseconds; null for one that was not to expire. A
-- rotation shortens the life of the rotated key, and its successor lives as long as planned.
alter table api_keys add column lifetime_ms bigint;
-- The tags and attributes that apps may set with a publishable key, in JSON. Null for every other key.
alter table api_keys add column publishable text collate "C";
