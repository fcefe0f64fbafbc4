-- Several targets of one pipeline: what an attempt staged for each of them. An attempt with one target has no row here.

create table target_rows (
    batch_id bigint not null,
    token bigint not null,
    place int not null check (place >= 0),  -- in the definition's order, which is the staging tables'
    target text not null,
    stream_id int not null,
    rows bigint not null,
    records bigint not null,  -- distinct ones among the rows; tombstones are none of them
    primary key (batch_id, token, place, stream_id),
    foreign key (batch_id, token) references attempt,
    foreign key (batch_id, stream_id) references batch_range,
    constraint records_have_rows check (records between 0 and rows)
);

grant select on target_rows
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on target_rows to lockstep_stager;

-- What is committed is what all targets were given: no row beside them, and none of a target left out.
create function guard_target_rows() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if exists (
        select 1 from lockstep.target_rows p join lockstep.result u using (batch_id, token, stream_id)
        where p.batch_id = new.batch_id and p.token = new.token and p.stream_id = new.stream_id
        group by u.rows having sum(p.rows) <> u.rows)
       or exists (
        select 1 from (select distinct place from lockstep.target_rows where batch_id = new.batch_id and token = new.token) t
        where not exists (
            select 1 from lockstep.target_rows p where p.batch_id = new.batch_id and p.token = new.token
              and p.place = t.place and p.stream_id = new.stream_id)) then
        raise exception 'every_target: the rows of stream % of batch % are not those of its targets', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'every_target';
    end if;
    return new;
end $$;
create trigger every_target before insert on commit for each row execute function guard_target_rows();
