-- Who owns which offsets now, and what lies beside the rows.

create table coverage (
    stream_id int not null references stream,
    offsets int8range not null,
    kind text not null check (kind in ('batch', 'loss', 'skipped')),
    batch_id bigint,
    constraint batch_is_named check ((kind = 'batch') = (batch_id is not null)),
    constraint covered_by_commit foreign key (batch_id, stream_id) references commit,
    constraint half_open check (
        not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint no_offset_twice exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&)
);
create index coverage_order on coverage (stream_id, lower(offsets));
create index coverage_of_batch on coverage (batch_id) where batch_id is not null;

create table reject (
    stream_id int not null references stream,
    "offset" bigint not null,
    batch_id bigint not null references batch,
    timestamp timestamptz,
    key bytea,
    value bytea,
    headers json,  -- json, not jsonb: a header may hold \u0000
    reason text not null,
    primary key (stream_id, "offset")
);

create table boundary (
    stream_id int not null references stream,
    at timestamptz not null,
    "offset" bigint not null,
    primary key (stream_id, at)
);

create table tombstone (
    target text not null,
    key jsonb not null,
    stream_id int not null references stream,
    "offset" bigint not null,
    "order" text,
    primary key (target, key)
);

create table outbox (
    outbox_id bigint generated always as identity primary key,
    batch_id bigint not null references batch,
    topic text not null,
    key bytea,
    value bytea,
    headers json
);

-- From a target row's _stream to where it was read.
create view origin as
select stream_id as _stream, pipeline, cluster_id, topic, topic_id, partition, incarnation from stream;
