-- Results that move apart from the offsets: what a store has confirmed, and in which order a guarantee lets the two move.

-- The store has confirmed that the results of a batch are there. Never changed.
create table delivery (
    batch_id bigint primary key references batch,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    effect jsonb not null,
    foreign key (batch_id, token) references attempt
);

-- What a store notes beside the results, in the transaction that brings them: whose delivery lies on which offsets.
-- Other Postgres stores hold a table like this one; here it is for results in the ledger's own database.
create table arrival (
    target text not null,
    stream_id int not null,
    offsets int8range not null,
    batch_id bigint not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    primary key (target, stream_id, offsets),
    constraint half_open check (
        not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null)
);
create index arrival_order on arrival using gist (int4range(stream_id, stream_id, '[]'), offsets);

create function guarantee_of(attempt_batch bigint, attempt_token bigint) returns text
language sql stable security definer set search_path = pg_catalog as $$
    select d.document -> 'guarantee' ->> 'kind' from lockstep.attempt a join lockstep.definition d using (definition_hash)
    where a.batch_id = attempt_batch and a.token = attempt_token
$$;

-- Results first: no offset is committed whose results the store has not confirmed. A look for each statement, not for each row.
create function guard_results() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
declare
    early record;
begin
    select c.batch_id, c.token into early from (select distinct batch_id, token from added) c
    where lockstep.guarantee_of(c.batch_id, c.token) in ('Idempotent', 'AtLeastOnce')
      and not exists (select 1 from lockstep.delivery y where y.batch_id = c.batch_id and y.token = c.token) limit 1;
    if found then
        raise exception 'results_first: batch % commits offsets, and its results were not delivered by attempt %',
            early.batch_id, early.token using errcode = '23514', constraint = 'results_first';
    end if;
    return null;
end $$;
create trigger results_first after insert on commit referencing new table as added
    for each statement execute function guard_results();

-- Offsets first: at most once, nothing is confirmed as delivered before its offsets are committed, by that very attempt.
create function guard_delivery() returns trigger language plpgsql security definer set search_path = pg_catalog as $$
begin
    if lockstep.guarantee_of(new.batch_id, new.token) = 'AtMostOnce' and not exists (
        select 1 from lockstep.commit c where c.batch_id = new.batch_id and c.token = new.token) then
        raise exception 'offsets_first: attempt % of batch % has not committed its offsets', new.token, new.batch_id
            using errcode = '23514', constraint = 'offsets_first';
    end if;
    return new;
end $$;
create trigger offsets_first before insert on delivery for each row execute function guard_delivery();

grant select on delivery, arrival
    to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert on delivery, arrival to lockstep_committer;
grant update (batch_id, token, at), delete on arrival to lockstep_committer;
