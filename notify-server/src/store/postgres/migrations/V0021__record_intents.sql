-- What happens after a crash to messages that were being sent: `repeat` or `skip`.
alter table apps add column on_crash text collate "C" not null default 'repeat';
-- With `skip`: the keys of the devices to which messages are being sent, with eight bytes each.
alter table pages add column intents bytea;
-- With `skip`: whether the retry is being sent.
alter table retries add column has_intent bigint not null default 0;
