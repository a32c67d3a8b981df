-- Which offsets the devices in named time zones have, and how far their correction is, in JSON
-- (store/zone_offsets.rs). Null: no correction has ended yet.
alter table installation add column zone_offsets text;
