-- Rows that are updated in place need free space on their page. Without it, PostgreSQL writes the new
-- version of a row to another page, and an entry to every index of the table. New pages leave this
-- space. `cluster` also rewrites the devices, which already exist in large numbers.
alter table devices set (fillfactor = 85);
alter table apps set (fillfactor = 50);
alter table device_counts set (fillfactor = 50);
alter table device_zones set (fillfactor = 50);
alter table day_counts set (fillfactor = 50);
alter table engagement_counts set (fillfactor = 50);
alter table event_logs set (fillfactor = 50);
alter table servers set (fillfactor = 50);
alter table dispatches set (fillfactor = 70);
alter table pages set (fillfactor = 70);
alter table tags set (fillfactor = 70);
alter table device_seen set (fillfactor = 85);

-- An address belongs to one device of an application. So far, only the lock of all writers ensured
-- this. The index is on two hashes, since an address can be too long for an index: 64 bits of the
-- SHA-256 of the application, the kind of address and the address, and 64 bits of another hash of the
-- address. Should an address belong to several devices, the device that registered last keeps it.
drop index devices_by_address;
update devices d set address = null, address_hash = null, p256dh = null, auth = null
 where d.address_hash in (
       select address_hash from devices where address_hash is not null
        group by address_hash, address having count(*) > 1)
   and exists (
       select 1 from devices o where o.address_hash = d.address_hash and o.address = d.address
          and (o.registered_at, o.key) > (d.registered_at, d.key));
cluster devices using devices_pkey;
create unique index devices_by_address on devices (address_hash, hashtextextended(address, 0))
    where address_hash is not null;
