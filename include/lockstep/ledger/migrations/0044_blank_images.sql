-- An erasure takes a key out of the feeds of its tables at once: a change of it keeps its number, and loses its rows.

-- The changes that an erasure took a row out of. They are part of what its decision says, and so of the chain.
create table blank_change (
    erasure_id bigint not null references erasure,
    change_set_id bigint not null references change_set,
    ordinal bigint not null check (ordinal >= 0),
    primary key (change_set_id, ordinal, erasure_id)
);
create index blank_change_of_erasure on blank_change (erasure_id);
create trigger erased_once after insert on blank_change referencing new table as added
    for each statement execute function guard_erased();

-- As before, with the changes that lost a row. An erasure without such changes keeps its digest.
create or replace function erased_digest(of_erasure bigint) returns text
language sql stable set search_path = pg_catalog, pg_temp as $$
    select encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', x.relation, x.target, x.batch_id, x.stream_id, x."offset",
        x.rows, coalesce(x.digest::text, '-')), e'\n'
        order by x.relation collate "C", x.target collate "C", x.batch_id, x.stream_id, x."offset"), '')
        || (select coalesce(string_agg(e'\n' || b.change_set_id || ' ' || b.ordinal, '' order by b.change_set_id, b.ordinal), '')
            from lockstep.blank_change b where b.erasure_id = of_erasure), 'UTF8')), 'hex')
    from lockstep.erased x where x.erasure_id = of_erasure
$$;

-- How the row of this name writes the key of a column, as SQL: a uuid without its hyphens.
create function key_text(of_row text, of_column text, as_uuid boolean) returns text
language sql immutable set search_path = pg_catalog, pg_temp as $$
    select format(case when as_uuid then 'lower(translate(%I.%I::text, ''{}-'', ''''))' else '%I.%I::text' end, of_row, of_column)
$$;

-- An image stays as it was caught. Only an erasure makes it blank, while it is not decided: of a change that it names and that is
-- sent, and if the image holds the key, by its digest. The other image of such an update becomes a change of its own.
create function guard_image() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    its record;
    same record;
    holder text;
    holds boolean := false;
begin
    select e.column_name, e.as_uuid, e.digest, z.salt into its
    from lockstep.blank_change b join lockstep.change_set s using (change_set_id) join lockstep.feed f using (target)
    join lockstep.erasure e using (erasure_id) join lockstep.erasure_salt z using (pipeline)
    join lockstep.target_owner o on o.store = '' and o.target = s.target and o.pipeline = e.pipeline
    left join lockstep.relay r on r.target = s.target
    where (b.change_set_id, b.ordinal) = (old._change_set, old._ordinal_in_set) and f.name = tg_table_name
      and lockstep.erasure_decision(e.erasure_id) is null
      and s.first_number + b.ordinal < coalesce(r.confirmed, f.next_number)
    order by e.erasure_id desc limit 1;
    if found then
        same := new;
        same._change := old._change;
        if (new._change_set, new._ordinal_in_set, new._change) = (old._change_set, old._ordinal_in_set, 'erased')
                and jsonb_strip_nulls(to_jsonb(new) - array['_change', '_change_set', '_ordinal_in_set']) = '{}' then
            holder := old._change;
        elsif same *= old and (old._change, new._change) in (('before', 'delete'), ('after', 'insert')) then
            holder := case old._change when 'before' then 'after' else 'before' end;
        end if;
        execute format('select exists (
                select from lockstep_feed.%I i where (i._change_set, i._ordinal_in_set, i._change) = ($1, $2, $3)
                  and lockstep.key_digest($4, convert_to(%s, ''UTF8'')) = $5)',
                tg_table_name, lockstep.key_text('i', its.column_name, its.as_uuid))
            into holds using old._change_set, old._ordinal_in_set, holder, its.salt, its.digest;
    end if;
    if not holds then
        raise exception 'image_stays: change % of set % of % stays as it was caught',
            old._ordinal_in_set, old._change_set, tg_table_name using errcode = '23514', constraint = 'image_stays';
    end if;
    return new;
end $$;

-- Takes one key out of a feed, as if its rows had never been in the table: an update that loses one of its rows inserts or deletes
-- the other one. Changes of a row wait while one of them is not sent, and stay while another pipeline's row has the key. So the
-- table is its feed folded, at any time. Returns how many changes lost a row, and how many wait.
create function blank_images(of_erasure bigint, of_target text, key text, out changes bigint, out waiting bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    its lockstep.erasure;
    of_feed lockstep.feed;
    sent bigint;
    holds text;
    blank text;
begin
    perform lockstep.guard_undecided(of_erasure);
    select * into its from lockstep.erasure e where e.erasure_id = of_erasure;
    select * into of_feed from lockstep.feed f where f.target = of_target for no key update;
    select r.confirmed into sent from lockstep.relay r where r.target = of_target for share;  -- nobody begins anew meanwhile
    holds := lockstep.key_text('i', its.column_name, its.as_uuid);
    execute format($sql$
        with held as (
            select i._change_set, i._ordinal_in_set, exists (select from %2$s t where (%4$s) = (%3$s) and %6$s = $2) as stands,
                bool_or(s.first_number + i._ordinal_in_set >= $3) over (partition by %3$s) as waits
            from lockstep_feed.%1$I i join lockstep.change_set s on s.change_set_id = i._change_set and s.seq is not null
            where %5$s = $2),
        named as (
            insert into lockstep.blank_change (erasure_id, change_set_id, ordinal)
            select distinct $1, h._change_set, h._ordinal_in_set from held h where not h.waits and not h.stands
            returning 1)
        select (select count(*) from named),
            (select count(distinct (h._change_set, h._ordinal_in_set)) from held h where h.waits and not h.stands)$sql$,
        of_feed.name, of_target::regclass,
        (select string_agg(format('i.%I', k), ', ' order by ordinality) from unnest(of_feed.key) with ordinality u (k, ordinality)),
        (select string_agg(format('t.%I', k), ', ' order by ordinality) from unnest(of_feed.key) with ordinality u (k, ordinality)),
        holds, lockstep.key_text('t', its.column_name, its.as_uuid))
        into changes, waiting using of_erasure, key, coalesce(sent, of_feed.next_number);
    execute format('update lockstep_feed.%1$I i set _change = case i._change when ''before'' then ''delete'' else ''insert'' end
        from lockstep.blank_change b
        where b.erasure_id = $1 and (b.change_set_id, b.ordinal) = (i._change_set, i._ordinal_in_set)
          and i._change in (''before'', ''after'') and %2$s is distinct from $2', of_feed.name, holds) using of_erasure, key;
    -- One image is left of each change: where both hold the key the one after, where one does the other.
    execute format('delete from lockstep_feed.%1$I i using lockstep.blank_change b
        where b.erasure_id = $1 and (b.change_set_id, b.ordinal) = (i._change_set, i._ordinal_in_set) and %2$s = $2
          and (i._change = ''before'' or i._change = ''after'' and exists (
            select from lockstep_feed.%1$I o where (o._change_set, o._ordinal_in_set) = (i._change_set, i._ordinal_in_set)
              and o._change = ''delete''))', of_feed.name, holds) using of_erasure, key;
    select string_agg(format('%I = null', attname), ', ') into blank from pg_attribute
    where attrelid = format('lockstep_feed.%I', of_feed.name)::regclass and attnum > 0 and not attisdropped
      and attname not in ('_change', '_change_set', '_ordinal_in_set');
    execute format('update lockstep_feed.%1$I i set %3$s, _change = ''erased'' from lockstep.blank_change b
        where b.erasure_id = $1 and (b.change_set_id, b.ordinal) = (i._change_set, i._ordinal_in_set) and %2$s = $2',
        of_feed.name, holds, blank) using of_erasure, key;
end $$;

-- The feeds that are there know the new kind of image, and keep their images.
do $$
declare
    each record;
begin
    for each in select f.name from feed f loop
        execute format('alter table lockstep_feed.%1$I drop constraint change_is_known, add constraint change_is_known
                check (_change in (''insert'', ''before'', ''after'', ''delete'', ''erased''));
            create trigger image_stays before update on lockstep_feed.%1$I
                for each row execute function lockstep.guard_image()', each.name);
    end loop;
end $$;

grant select on blank_change to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
revoke execute on function guard_image, blank_images from public;
grant execute on function blank_images to lockstep_committer;
