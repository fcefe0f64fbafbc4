-- The ledger: what was planned and decided. Every migration runs as lockstep_owner inside schema lockstep.

create sequence token_seq;  -- drawn under the batch's row lock; drawing locks nothing

create table pipeline (
    name text primary key,
    paused boolean not null default false,
    constraint name_is_identifier check (name ~ '^[a-z_][a-z0-9_]{0,62}$')
);

create table definition (
    definition_hash text primary key,
    pipeline text not null references pipeline,
    document jsonb not null,
    code_version text not null,
    at timestamptz not null default clock_timestamp()
);

create table stream (
    stream_id int generated always as identity primary key,
    pipeline text not null references pipeline,
    cluster_id text not null,
    topic text not null,
    topic_id text not null,
    partition int not null check (partition >= 0),
    incarnation int not null check (incarnation >= 0),
    epoch int not null check (epoch >= 0),
    start_offset bigint not null check (start_offset >= 0),
    position bigint not null,
    opened_at timestamptz not null default clock_timestamp(),
    retired_at timestamptz,
    constraint not_before_start check (position >= start_offset),
    constraint one_stream_an_epoch unique (pipeline, topic, partition, epoch)
) with (fillfactor = 70);
create unique index one_open_stream on stream (pipeline, topic, partition) where retired_at is null;

create table request (
    request_id bigint generated always as identity primary key,
    pipeline text not null references pipeline,
    lane text not null check (lane in ('fill', 'replay')),
    token bigint not null,  -- a segment is due while the token that owns it is lower
    who text not null,
    why text not null,
    opened_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz
);

create table request_window (
    request_id bigint not null references request,
    stream_id int not null references stream,
    offsets int8range not null,
    primary key (request_id, stream_id),
    constraint half_open check (
        not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null)
);

create table batch (
    batch_id bigint generated always as identity primary key,
    pipeline text not null references pipeline,
    lane text not null check (lane in ('live', 'fill', 'replay')),
    request_id bigint references request,
    token bigint not null default 0,
    owner text not null,
    lease_until timestamptz not null,  -- holds until an attempt is opened
    state text not null default 'planned' check (state in ('planned', 'committed', 'abandoned')),
    planned_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    constraint live_has_no_request check ((lane = 'live') = (request_id is null)),
    constraint closed_has_a_time check ((state = 'planned') = (closed_at is null))
) with (fillfactor = 80);
create unique index one_unfinished_live_batch on batch (pipeline) where lane = 'live' and state = 'planned';
create index unfinished on batch (pipeline) where state = 'planned';
create index batch_history on batch (pipeline, batch_id);
create index batch_of_request on batch (request_id) where request_id is not null;

create table batch_range (
    batch_id bigint not null references batch,
    stream_id int not null references stream,
    offsets int8range not null,
    primary key (batch_id, stream_id),  -- so one contiguous range per batch and stream
    constraint half_open check (
        not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null)
);

create table call (
    pipeline text not null references pipeline,
    key text not null,
    batch_id bigint not null references batch,
    at timestamptz not null default clock_timestamp(),
    primary key (pipeline, key, batch_id)
);
create index call_of_batch on call (batch_id);

create table claim (
    stream_id int not null references stream,
    offsets int8range not null,
    batch_id bigint not null references batch,
    expects text not null check (expects in ('nothing', 'batch', 'skipped')),
    expects_batch bigint,
    constraint expects_whom check ((expects = 'batch') = (expects_batch is not null)),
    constraint half_open check (
        not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint claimed_once exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&)
);
create index claim_of_batch on claim (batch_id);

create table decision (
    decision_id bigint generated always as identity primary key,
    pipeline text not null references pipeline,
    kind text not null
        check (kind in ('pause', 'unpause', 'skip', 'accept-loss', 'abandon', 'retire', 'approve', 'grow')),
    who text not null,
    why text not null,
    at timestamptz not null default clock_timestamp(),
    detail jsonb not null default '{}'
);
