-- name: hold_commits
-- Commits into the table that are under way are over, and no batch of its owners begins one until this transaction ends.
select from lockstep.batch b where b.state = 'planned' and b.pipeline in (
    select o.pipeline from lockstep.target_owner o where o.store = '' and o.target = %(target)s)
order by b.batch_id for no key update

-- name: feed
-- The feed of a table, if it has one.
select * from lockstep.feed where target = %(target)s

-- name: misses
-- In words, what keeps the table's changes from being caught.
select lockstep.feed_misses(%(target)s) as misses

-- name: as_found
-- In words, why changes of this table would go past the triggers of a statement, or an image would not hold them.
select case
    when c.relkind in ('v', 'm') then 'a view' when c.relkind = 'f' then 'a foreign table'
    when lockstep.is_by_batch(c.oid) then 'partitioned by _batch' when c.relkind = 'p' then 'partitioned'
    when c.relispartition or exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent))
        then 'a part of another table, or has parts'
    when c.relrowsecurity then 'under row security' when c.relhasrules then 'under rules'
    when c.relpersistence <> 'p' then 'unlogged' end as odd,
    (select array_agg(a.attname::text order by a.attnum) from pg_attribute a
     where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
from pg_class c where c.oid = to_regclass(%(target)s)

-- name: lock_target
-- Its rows and columns stay as they are, until they are followed.
lock table {target} in share row exclusive mode

-- name: open_feed
-- From here on, each commit tells what it does to the table.
insert into lockstep.feed (target, name, key, keep, began_empty, sends)
select %(target)s, %(name)s, %(key)s, %(keep)s::interval, not exists (select from {target}), %(sends)s

-- name: keep
-- How long images are kept.
update lockstep.feed set keep = %(keep)s::interval where target = %(target)s and keep <> %(keep)s::interval

-- name: make_images
-- The table's columns, and which change of which set a row is an image of.
create table {images} as
select t.*, ''::text as _change, 0::bigint as _change_set, 0::bigint as _ordinal_in_set from {target} t with no data;
alter table {images} alter _change set not null, alter _change_set set not null, alter _ordinal_in_set set not null,
    add constraint change_is_known check (_change in ('insert', 'before', 'after', 'delete', 'erased'));
create unique index on {images} (_change_set, _ordinal_in_set, _change);
create trigger image_stays before update on {images} for each row execute function lockstep.guard_image();
grant select on {images} to lockstep_reader

-- name: catch
-- Images of what each statement changes; a statement that nobody has opened changes for is refused.
create or replace trigger only_by_commit_insert after insert on {target}
    referencing new table as new_rows for each statement execute function lockstep.capture({name});
create or replace trigger only_by_commit_update after update on {target}
    referencing old table as old_rows new table as new_rows for each statement execute function lockstep.capture({name});
create or replace trigger only_by_commit_delete after delete on {target}
    referencing old table as old_rows for each statement execute function lockstep.capture({name});
create or replace trigger only_by_commit_truncate before truncate on {target}
    for each statement execute function lockstep.capture({name});
alter table {target} enable trigger only_by_commit_insert, enable trigger only_by_commit_update,
    enable trigger only_by_commit_delete, enable trigger only_by_commit_truncate

-- name: other_columns
-- The table's columns that its images lack, or have in another type.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, i.attname is not null as is_there
from pg_attribute a left join pg_attribute i on i.attrelid = to_regclass(%(images)s) and i.attname = a.attname
    and not i.attisdropped
where a.attrelid = to_regclass(%(target)s) and a.attnum > 0 and not a.attisdropped
  and (i.atttypid, i.atttypmod) is distinct from (a.atttypid, a.atttypmod) order by a.attnum

-- name: retyped
-- The columns that the images have in another type than their table, with that type.
select i.attname as name, format_type(i.atttypid, i.atttypmod) as type
from pg_attribute i join pg_attribute a on a.attrelid = to_regclass(%(target)s) and a.attname = i.attname and not a.attisdropped
where i.attrelid = to_regclass(%(images)s) and i.attnum > 0 and not i.attisdropped
  and (i.atttypid, i.atttypmod) <> (a.atttypid, a.atttypmod) order by a.attnum

-- name: lost_columns
-- Columns of the images that the table has lost.
select i.attname as name from pg_attribute i
where i.attrelid = to_regclass(%(images)s) and i.attnum > 0 and not i.attisdropped
  and i.attname not in ('_change', '_change_set', '_ordinal_in_set') and not exists (
    select from pg_attribute a where a.attrelid = to_regclass(%(target)s) and a.attname = i.attname and not a.attisdropped)
order by i.attnum

-- name: add_column
-- Images of before have no value there.
alter table {images} add column {column} {type}

-- name: retype_column
-- The images hold every value of the table's wider type.
alter table {images} alter column {column} type {type}

-- name: columns
-- The images' columns of the table, in its order, with their types.
select i.attname as name, format_type(i.atttypid, i.atttypmod) as type from pg_attribute i
where i.attrelid = to_regclass(%(images)s) and i.attnum > 0 and not i.attisdropped
  and i.attname not in ('_change', '_change_set', '_ordinal_in_set') order by i.attnum

-- name: drop_reader
-- Its columns are those of the images, so it is made anew when they change.
drop function if exists {reader}(bigint, int, uuid);
drop function if exists {reader}(bigint, int)

-- name: make_reader
-- The reader's function: the changes from the number of the first argument on, as many as the second says, in their order. A
-- number that was not given yet was read in another timeline of the ledger: others would get it unseen.
create or replace function {reader}(bigint, int)
returns table (number bigint, seq bigint, change text, kind text, batch_id bigint, at timestamptz, {typed})
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if $1 < (select f.kept_from from lockstep.feed f where f.target = {name}) then
        raise exception 'feed_trimmed: the changes of % below number % are trimmed', {name},
            (select f.kept_from from lockstep.feed f where f.target = {name}) using errcode = '22023';
    end if;
    if $1 > (select f.next_number from lockstep.feed f where f.target = {name}) then
        raise exception 'feed_ahead: the next change of % gets number %, and % is asked for', {name},
            (select f.next_number from lockstep.feed f where f.target = {name}), $1
            using errcode = '22023', hint = 'After a restore of the ledger, a reader begins anew with the table as it is.';
    end if;
    return query
        select s.first_number + i._ordinal_in_set, s.seq, i._change, s.kind, s.batch_id, s.at, {columns}
        from lockstep.change_set s join {images} i on i._change_set = s.change_set_id
        where s.target = {name} and s.changes > 0 and s.first_number < $1 + $2
          and s.first_number >= coalesce((
            select max(p.first_number) from lockstep.change_set p
            where p.target = {name} and p.changes > 0 and p.first_number <= $1), 0)
          and s.first_number + i._ordinal_in_set >= $1 and s.first_number + i._ordinal_in_set < $1 + $2
        order by 1, i._change = 'after';
end $$;
revoke execute on function {reader}(bigint, int) from public;
grant execute on function {reader}(bigint, int) to lockstep_reader

-- name: make_timeline_reader
-- The same for a reader that keeps the timeline of its numbers, which is refused after a restore of the ledger. Whoever may call
-- the function above may call this one.
create or replace function {reader}(bigint, int, uuid)
returns table (number bigint, seq bigint, change text, kind text, batch_id bigint, at timestamptz, timeline uuid, {typed})
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if $3 is distinct from (select f.timeline from lockstep.feed f where f.target = {name}) then
        raise exception 'feed_restored: the numbers of % are of the timeline %, and those of % are asked for', {name},
            (select f.timeline from lockstep.feed f where f.target = {name}), coalesce($3::text, 'none')
            using errcode = '22023', hint = 'After a restore of the ledger, a reader begins anew with the table as it is.';
    end if;
    return query
        select r.number, r.seq, r.change, r.kind, r.batch_id, r.at,
            (select f.timeline from lockstep.feed f where f.target = {name}), {columns}
        from {reader}($1, $2) r;
end $$;
revoke execute on function {reader}(bigint, int, uuid) from public;
do $$
declare
    each record;
begin
    for each in
        select a.grantee::regrole as role from pg_proc p, aclexplode(p.proacl) a
        where p.oid = {signature}::regprocedure and a.privilege_type = 'EXECUTE' and a.grantee not in (0, p.proowner)
    loop
        execute format('grant execute on function {reader}(bigint, int, uuid) to %s', each.role);
    end loop;
end $$
