-- Contents: digests of staged rows, and of the rows and rejects that a commit publishes. Null: staged before this migration.

alter table manifest add column rows_digest numeric, add column rejects_digest numeric;
alter table result add column rows_digest numeric, add column rejects_digest numeric;

-- The columns of an appended target that digests cover, as [name, type] in the order of hashing.
create table shape (
    shape_id int generated always as identity primary key,
    hash text not null,
    target text not null,
    columns jsonb not null,
    constraint one_shape unique (hash)
);

-- The digests that a committing transaction found: of the staged rows and rejects, and of the rows of an appended target.
create table content (
    batch_id bigint not null,
    stream_id int not null,
    place int not null check (place >= 0),  -- in the definition's order of targets
    rows_digest numeric not null,
    rejects_digest numeric not null,
    shape_id int references shape,
    target_digest numeric,
    primary key (batch_id, stream_id, place),
    foreign key (batch_id, stream_id) references batch_range,
    constraint appended_has_digest check ((shape_id is null) = (target_digest is null))
);

grant select on shape, content
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on shape, content to lockstep_committer, lockstep_partition;

-- A commit publishes the contents that were staged. One look for each statement, not for each row.
create function guard_contents() returns trigger language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    where u.rows_digest is null or u.rejects_digest is null limit 1;
    if found then
        raise exception 'contents_known: stream % of batch % has no digest of its contents', wrong.stream_id, wrong.batch_id
            using errcode = '23514', constraint = 'contents_known';
    end if;
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    left join (
        select c.batch_id, c.stream_id, pg_catalog.sum(c.rows_digest) as rows, pg_catalog.sum(c.rejects_digest) as rejects
        from lockstep.content c where (c.batch_id, c.stream_id) in (select batch_id, stream_id from added)
        group by 1, 2) p using (batch_id, stream_id)
    left join (
        select m.batch_id, m.token, m.stream_id,
            pg_catalog.sum(m.rows_digest) as rows, pg_catalog.sum(m.rejects_digest) as rejects
        from lockstep.manifest m where (m.batch_id, m.token, m.stream_id) in (select batch_id, token, stream_id from added)
        group by 1, 2, 3) s using (batch_id, token, stream_id)
    where (coalesce(p.rows, 0), coalesce(p.rejects, 0)) <> (u.rows_digest, u.rejects_digest)
       or (u.quarantined = 0 and (coalesce(s.rows, 0), coalesce(s.rejects, 0)) <> (u.rows_digest, u.rejects_digest))
    limit 1;
    if found then
        raise exception 'contents_unchanged: the contents of stream % of batch % are not those that were staged',
            wrong.stream_id, wrong.batch_id using errcode = '23514', constraint = 'contents_unchanged';
    end if;
    return null;
end $$;
create trigger contents_unchanged after insert on commit referencing new table as added
    for each statement execute function guard_contents();
