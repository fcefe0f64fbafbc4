-- A feed's image is a row, and a column that is called `t` was taken for it.

create or replace function net_set(of_set bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    names text;
    keys text;
    was text;
    is_now text;
begin
    select f.* into of_feed from lockstep.feed f join lockstep.change_set c using (target)
    where c.change_set_id = of_set and c.seq is null and c.xid = pg_current_xact_id();
    if not found then
        return;
    end if;
    select string_agg(format('%I', k), ', ' order by ordinality) into keys
    from unnest(of_feed.key) with ordinality u (k, ordinality);
    select string_agg(format('%I', attname), ', ' order by attnum),
        string_agg(format('(b."Row").%I', attname), ', ' order by attnum) filter (where not is_origin),
        string_agg(format('(a."Row").%I', attname), ', ' order by attnum) filter (where not is_origin)
    into names, was, is_now
    from (
        select attname, attnum, attname in ('_stream', '_offset', '_ordinal', '_batch') as is_origin from pg_attribute
        where attrelid = format('lockstep_feed.%I', of_feed.name)::regclass and attnum > 0 and not attisdropped
          and attname not in ('_change', '_change_set', '_ordinal_in_set')) c;
    -- Names in capitals are none of a key's columns.
    execute format($sql$
        with gone as (
            delete from lockstep_feed.%1$I t where _change_set = $1
            returning %2$s, (t.*)::lockstep_feed.%1$I as "Row", _change as "Change", _ordinal_in_set as "Place"),
        image as (
            select gone.*,
                row_number() over (partition by %2$s order by "Place", "Change" = 'after') as "Up",
                row_number() over (partition by %2$s order by "Place" desc, "Change" = 'after' desc) as "Down"
            from gone),
        net as (
            select row_number() over (order by %2$s) - 1 as "Place", b."Row" as "Before", a."Row" as "After",
                b."Up" is not null as "Was", a."Up" is not null as "Is"
            from (select * from image where "Up" = 1 and "Change" in ('before', 'delete')) b
            full join (select * from image where "Down" = 1 and "Change" in ('after', 'insert')) a using (%2$s)
            where b."Up" is null or a."Up" is null or not row(%3$s)::record *= row(%4$s)::record),
        told ("Row", "Change", "Place") as (
            select "Before", case when "Is" then 'before' else 'delete' end, "Place" from net where "Was"
            union all
            select "After", case when "Was" then 'after' else 'insert' end, "Place" from net where "Is")
        insert into lockstep_feed.%1$I (%5$s, _change, _change_set, _ordinal_in_set)
        select %6$s, "Change", $1, "Place" from told$sql$,
        of_feed.name, keys, was, is_now, names,
        (select string_agg(format('("Row").%s', n), ', ' order by ordinality)
         from unnest(string_to_array(names, ', ')) with ordinality u (n, ordinality))) using of_set;
end $$;
