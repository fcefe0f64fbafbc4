-- The ledger as it is in force: what all migrations together make, in lockstep and lockstep_lake, owned by lockstep_owner.
-- Written by `make schema`, to be read. `lockstep migrate` applies the migrations, not this file; a test holds it to them.
-- Roles and grants are in catalog.txt.

-- drawn under the batch's row lock; drawing locks nothing
create sequence token_seq;

create table migration (
    version integer not null,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp(),
    constraint migration_pkey primary key (version)
);

create table pipeline (
    name text not null,
    paused boolean not null default false,
    -- Null: the pipeline goes on. Else the decision that ended it, which the trigger looks for: decisions refer to pipelines,
    -- too.
    forgotten_by bigint,
    constraint pipeline_pkey primary key (name),
    constraint name_is_identifier check (name ~ '^[a-z_][a-z0-9_]{0,62}$')
);

create table definition (
    definition_hash text not null,
    pipeline text not null,
    document jsonb not null,
    code_version text not null,
    at timestamptz not null default clock_timestamp(),
    constraint definition_pkey primary key (definition_hash),
    constraint definition_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);

create table stream (
    stream_id integer not null generated always as identity,
    pipeline text not null,
    cluster_id text not null,
    topic text not null,
    topic_id text not null,
    partition integer not null,
    incarnation integer not null,
    epoch integer not null,
    start_offset bigint not null,
    "position" bigint not null,
    opened_at timestamptz not null default clock_timestamp(),
    retired_at timestamptz,
    -- The leader epoch under which a plan last saw the log, whole up to the position. Null: no plan has seen one yet.
    leader_epoch integer,
    -- Upkeep lets go of what lies below the log start that it acts on. What is archived later must not lie below it.
    upkept_below bigint not null default 0,
    -- The topic whose records the pipeline read first along this line of logs. Null: it is the stream's own topic. A move keeps
    -- it, so that epochs and incarnations go on from one topic to the next.
    first_topic text,
    constraint stream_pkey primary key (stream_id),
    constraint one_stream_an_epoch unique (pipeline, topic, partition, epoch),
    constraint first_topic_is_another check (first_topic <> topic),
    constraint not_before_start check ("position" >= start_offset),
    constraint stream_epoch_check check (epoch >= 0),
    constraint stream_incarnation_check check (incarnation >= 0),
    constraint stream_leader_epoch_check check (leader_epoch >= 0),
    constraint stream_partition_check check (partition >= 0),
    constraint stream_start_offset_check check (start_offset >= 0),
    constraint stream_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
) with (fillfactor=70);
create unique index one_open_stream on stream (pipeline, topic, partition) where retired_at is null;
create unique index one_open_stream_a_line on stream (pipeline, coalesce(first_topic, topic), partition) where retired_at is null;
create unique index one_epoch_a_line on stream (pipeline, coalesce(first_topic, topic), partition, epoch);

create table request (
    request_id bigint not null generated always as identity,
    pipeline text not null,
    lane text not null,
    token bigint not null,  -- a segment is due while the token that owns it is lower
    who text not null,
    why text not null,
    opened_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    preview boolean not null default false,
    login name,
    client inet,
    program text,
    os_user text,
    opened_as text not null,  -- The name of the pipeline when it asked. A rename changes `pipeline` alone.
    constraint request_pkey primary key (request_id),
    constraint request_lane_check check (lane in ('fill', 'replay')),
    constraint request_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);

create table request_window (
    request_id bigint not null,
    stream_id integer not null,
    offsets int8range not null,
    constraint no_window_twice exclude using gist (int8range(request_id, request_id, '[]') with &&,
        int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint request_window_request_id_fkey foreign key (request_id) references request(request_id),
    constraint request_window_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index window_of_request on request_window (request_id);

create table batch (
    batch_id bigint not null generated always as identity,
    pipeline text not null,
    lane text not null,
    request_id bigint,
    token bigint not null default 0,
    owner text not null,
    lease_until timestamptz not null,  -- holds until an attempt is opened
    state text not null default 'planned',
    planned_at timestamptz not null default clock_timestamp(),
    closed_at timestamptz,
    nonce uuid,  -- The fence is both: the number that orders attempts, and the id that no other timeline can have drawn.
    watermark timestamptz,  -- A live batch is judged by the watermark that was written down with its plan, whenever it commits.
    constraint batch_pkey primary key (batch_id),
    constraint batch_lane_check check (lane in ('live', 'fill', 'replay')),
    constraint batch_state_check check (state in ('planned', 'committed', 'abandoned')),
    constraint closed_has_a_time check ((state = 'planned') = (closed_at is null)),
    constraint live_has_no_request check ((lane = 'live') = (request_id is null)),
    constraint watermark_of_live check (watermark is null or lane = 'live'),
    constraint batch_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade,
    constraint batch_request_id_fkey foreign key (request_id) references request(request_id)
) with (fillfactor=80);
create unique index one_unfinished_live_batch on batch (pipeline) where lane = 'live' and state = 'planned';
create index unfinished on batch (pipeline) where state = 'planned';
create index batch_history on batch (pipeline, batch_id);
create index batch_of_request on batch (request_id) where request_id is not null;

create table batch_range (
    batch_id bigint not null,
    stream_id integer not null,
    offsets int8range not null,
    constraint batch_range_pkey primary key (batch_id, stream_id),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint batch_range_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint batch_range_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table call (
    pipeline text not null,
    key text not null,
    batch_id bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint call_pkey primary key (pipeline, key, batch_id),
    constraint call_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint call_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);
create index call_of_batch on call (batch_id);

create table claim (
    stream_id integer not null,
    offsets int8range not null,
    batch_id bigint not null,
    expects text not null,
    expects_batch bigint,
    constraint claimed_once exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint claim_expects_check check (expects in ('nothing', 'batch', 'skipped')),
    constraint expects_whom check ((expects = 'batch') = (expects_batch is not null)),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint claim_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint claim_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index claim_of_batch on claim (batch_id);

create table decision (
    decision_id bigint not null generated always as identity,
    pipeline text not null,
    kind text not null,
    who text not null,
    why text not null,
    at timestamptz not null default clock_timestamp(),
    detail jsonb not null default '{}'::jsonb,
    login name,  -- Null: recorded before migration 0024.
    client inet,  -- Null: recorded before migration 0024.
    program text,  -- Null: recorded before migration 0024.
    os_user text,  -- Null: recorded before migration 0024.
    constraint decision_pkey primary key (decision_id),
    constraint adopt_is_told check (kind <> 'adopt' or coalesce((detail ->> 'digest') ~
        '^([0-9a-f]{16}|[0-9a-f]{64})$', false) and coalesce(jsonb_typeof(detail #> '{reader,kind}'::text[]) = 'string', false)
        and coalesce(jsonb_path_exists(detail, '$."from"[*]'::jsonpath), false) and not jsonb_path_exists(detail,
        '$."from"[*]?(!((@."topic".type() == "string" && @."partition".type() == "number") && @."offset".type() == "number"))'::jsonpath)),
    constraint alter_is_told check (kind <> 'alter' or coalesce((detail ->> 'digest') ~
        '^([0-9a-f]{16}|[0-9a-f]{64})$', false) and coalesce(jsonb_path_exists(detail,
        '$."statements"[*]?(@.type() == "string" && @ != "")'::jsonpath), false)),
    constraint decision_kind_check check (kind in ('pause', 'unpause', 'skip', 'accept-loss', 'abandon', 'retire',
        'approve', 'refuse-approval', 'grow', 'restored', 'recount', 'hand-over', 'drop-archived', 'adopt', 'move', 'topic',
        'admit-late', 'restart-relay', 'manual-change', 'promote', 'withdraw', 'rename', 'forget', 'remember', 'alter',
        'erase', 'upkeep', 'hash-rows')),
    constraint forget_is_told check (kind <> 'forget' or coalesce(jsonb_typeof(detail -> 'tables') = 'array', false)
        and not jsonb_path_exists(detail,
        '$."tables"[*]?(!(@."store".type() == "string" && @."target".type() == "string"))'::jsonpath)),
    constraint hashes_are_told check (kind <> 'hash-rows' or coalesce(jsonb_typeof(detail -> 'target') = 'string'
        and jsonb_typeof(detail -> 'columns') = 'array', false) and coalesce(jsonb_path_exists(detail,
        '$."segments"[*]'::jsonpath), false) and not jsonb_path_exists(detail,
        '$."segments"[*]?(!((((@."batch".type() == "number" && @."stream".type() == "number") && @."erasure".type() == "number") && @."rows".type() == "number") && @."sha256" like_regex "^[0-9a-f]{64}$"))'::jsonpath)),
    constraint move_is_told check (kind <> 'move' or coalesce((detail ->> 'digest') ~
        '^([0-9a-f]{16}|[0-9a-f]{64})$', false) and coalesce(jsonb_path_exists(detail,
        '$."to"?((@."cluster_id".type() == "string" && @."topic".type() == "string") && @."topic_id".type() == "string")'::jsonpath), false)
        and coalesce(jsonb_path_exists(detail, '$."moved"[*]'::jsonpath), false) and not jsonb_path_exists(detail,
        '$."moved"[*]?(!((((@."stream_id".type() == "number" && @."partition".type() == "number") && @."position".type() == "number") && @."offset".type() == "number") && @."matched".type() == "number"))'::jsonpath)),
    constraint promote_is_told check (kind <> 'promote' or coalesce((detail ->> 'transform') ~ '^[0-9a-f]{64}$', false)
        and coalesce(jsonb_path_exists(detail, '$."from"[*]."offset"?(@.type() == "number")'::jsonpath), false)),
    constraint recount_is_told check (kind <> 'recount' or coalesce(jsonb_typeof(detail -> 'target') = 'string', false)
        and coalesce((detail ->> 'rows') ~ '^-?[1-9][0-9]{0,17}$' and jsonb_typeof(detail -> 'rows') = 'number', false)),
    constraint topic_is_told check (kind <> 'topic' or coalesce(jsonb_typeof(detail -> 'topics') = 'object', false)
        and coalesce(jsonb_path_exists(detail, '$."topics".*'::jsonpath), false) and not jsonb_path_exists(detail,
        '$."topics".*?(@.type() != "object")'::jsonpath)),
    constraint upkeep_is_told check (kind <> 'upkeep' or (coalesce(detail ->> 'step', '') in ('merge', 'manifests',
        'expire')) and num_nonnulls(detail ->> 'table', detail ->> 'before', detail ->> 'after') = 3),
    constraint decision_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);
alter table decision add constraint given_up_is_told check ((kind <> all (array['skip', 'accept-loss'])) or coalesce(
case
    when (detail ->> 'stream_id') ~ '^[0-9]{1,9}$' and (detail ->> 'from_offset') ~ '^[0-9]{1,18}$' and (detail ->> 'until_offset') ~ '^[0-9]{1,18}$' then ((detail ->> 'from_offset')::bigint) < ((detail ->> 'until_offset')::bigint)
    else null::boolean
end, false)) not valid;
create index promotion_of_pipeline on decision (pipeline, decision_id) where kind in ('promote', 'withdraw');
create index upkeep_of_table on decision ((detail ->> 'after')) where kind = 'upkeep';
create index hand_over_of_pipeline on decision (pipeline, decision_id) where kind = 'hand-over';
create index given_up_of_stream on decision ((detail ->> 'stream_id')) where kind in ('skip', 'accept-loss');
create index hashes_of_pipeline on decision (pipeline) where kind = 'hash-rows';

create table attempt (
    batch_id bigint not null,
    token bigint not null,
    definition_hash text not null,
    owner text not null,
    lease_until timestamptz not null,
    dag_id text,
    dag_run_id text,
    task_instance_id text,
    try_number integer,
    log_starts jsonb,  -- per stream, before the read
    spark_application_id text,
    backend_pid integer,
    backend_start timestamptz,
    state text not null default 'open',
    opened_at timestamptz not null default clock_timestamp(),
    staged_at timestamptz,
    validated_at timestamptz,
    closed_at timestamptz,
    error text,
    fault text,  -- three of data block the batch (T8)
    effect jsonb,
    unit text not null default 'batch',  -- What one commit of an attempt moves: the whole batch, or one stream of it.
    nonce uuid,  -- Drawn by the client when an attempt is opened. Null: opened by code from before migration 0018.
    spark_ui text,  -- A page leads there, so no other scheme is taken.
    spark_event_log text,
    route jsonb,  -- Each attempt says which way its records took, and why.
    task_id text,
    map_index integer,
    constraint attempt_pkey primary key (batch_id, token),
    constraint one_definition unique (batch_id, token, definition_hash),
    constraint token_once unique (token),
    constraint attempt_fault_check check (fault in ('data', 'surroundings')),
    constraint attempt_state_check check (state in ('open', 'staged', 'validated', 'committed', 'failed', 'superseded',
        'abandoned')),
    constraint attempt_unit_check check (unit in ('batch', 'stream')),
    constraint closed_attempt_has_a_time check ((state in ('open', 'staged', 'validated')) = (closed_at is null)),
    constraint index_of_a_task check (map_index is null or map_index >= 0 and task_id is not null),
    constraint route_says_why check (route is null or coalesce(((route ->> 'way') in ('process', 'tasks', 'spark'))
        and (route ->> 'because') <> '', false)),
    constraint spark_ui_is_web check (spark_ui ~ '^https?://'),
    constraint attempt_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint attempt_definition_hash_fkey foreign key (definition_hash) references definition(definition_hash)
) with (fillfactor=50);
create unique index nonce_once on attempt (nonce);

create table source_manifest (
    batch_id bigint not null,
    token bigint not null,
    slot integer not null,  -- Spark's partition: tries of one task share it
    task bigint not null,
    stream_id integer not null,
    delivered bigint not null,
    written bigint not null,  -- tombstones, which no transform sees
    rejected bigint not null,
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    constraint source_manifest_pkey primary key (batch_id, token, task, stream_id),
    constraint source_manifest_check check (rejected >= 0 and (written + rejected) <= delivered),
    constraint source_manifest_delivered_check check (delivered >= 0),
    constraint source_manifest_written_check check (written >= 0),
    constraint source_manifest_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token),
    constraint source_manifest_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table manifest (
    batch_id bigint not null,
    token bigint not null,
    task bigint not null,
    stream_id integer not null,
    delivered bigint not null,
    written bigint not null,
    rejected bigint not null,
    rows bigint not null,
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    rows_digest numeric,
    rejects_digest numeric,
    constraint manifest_pkey primary key (batch_id, token, task, stream_id),
    constraint manifest_delivered_check check (delivered >= 0),
    constraint manifest_rejected_check check (rejected >= 0),
    constraint manifest_rows_check check (rows >= 0),
    constraint manifest_written_check check (written >= 0),
    constraint manifest_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token),
    constraint manifest_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table verdict (
    batch_id bigint not null,
    token bigint not null,
    suite text,
    success boolean not null,
    result jsonb not null,
    at timestamptz not null default clock_timestamp(),
    definition_hash text,
    erased_digest text,  -- The digest of a verdict whose values were erased: the chain has it, and goes on to hold.
    constraint verdict_pkey primary key (batch_id, token),
    constraint verdict_erased_digest_check check (erased_digest ~ '^[0-9a-f]{64}$'),
    constraint judged_as_staged foreign key (batch_id, token, definition_hash)
        references attempt(batch_id, token, definition_hash),
    constraint verdict_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);
alter table verdict add constraint verdict_names_its_definition check (definition_hash is not null) not valid;

create table result (
    batch_id bigint not null,
    token bigint not null,
    stream_id integer not null,
    delivered bigint not null,
    written bigint not null,
    filtered bigint not null,
    rejected bigint not null,
    rows bigint not null,
    bytes bigint not null,
    first_offset bigint,
    last_offset bigint,
    min_timestamp timestamptz,
    max_timestamp timestamptz,
    digest_sum numeric not null,
    digest_squares numeric not null,
    log_start_before bigint not null,
    log_start_after bigint not null,
    quarantined bigint not null default 0,
    rows_digest numeric,
    rejects_digest numeric,
    constraint result_pkey primary key (batch_id, token, stream_id),
    constraint nothing_trimmed check (log_start_before <= log_start_after),
    constraint quarantined_are_rejected check (quarantined >= 0 and quarantined <= rejected),
    constraint reconciles check (delivered = (written + filtered + rejected)
        and least(written, filtered, rejected, rows) >= 0),
    constraint result_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references batch_range(batch_id, stream_id),
    constraint result_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token),
    constraint result_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table commit (
    batch_id bigint not null,
    stream_id integer not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    nonce uuid,  -- The committer writes down which attempt it believes to be; the database compares.
    definition_hash text,
    constraint commit_pkey primary key (batch_id, stream_id),
    constraint commit_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references batch_range(batch_id, stream_id),
    constraint commit_batch_id_token_stream_id_fkey foreign key (batch_id, token, stream_id)
        references result(batch_id, token, stream_id),
    constraint committed_as_staged foreign key (batch_id, token, definition_hash)
        references attempt(batch_id, token, definition_hash)
);
alter table commit add constraint commit_names_its_definition check (definition_hash is not null) not valid;

create table coverage (
    stream_id integer not null,
    offsets int8range not null,
    kind text not null,
    batch_id bigint,
    constraint no_offset_twice exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint batch_is_named check ((kind = 'batch') = (batch_id is not null)),
    constraint coverage_kind_check check (kind in ('batch', 'loss', 'skipped')),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint coverage_stream_id_fkey foreign key (stream_id) references stream(stream_id),
    constraint covered_by_commit foreign key (batch_id, stream_id) references commit(batch_id, stream_id)
);
create index coverage_order on coverage (stream_id, lower(offsets));
create index coverage_of_batch on coverage (batch_id) where batch_id is not null;

create table reject (
    stream_id integer not null,
    "offset" bigint not null,
    batch_id bigint not null,
    "timestamp" timestamptz,
    key bytea,
    value bytea,
    headers json,  -- json, not jsonb: a header may hold \u0000
    reason text not null,
    emptied_at timestamptz,  -- Rejects whose bytes are gone keep offset, reason, and what their digest lost with the bytes.
    removed_digest numeric,  -- Rejects whose bytes are gone keep offset, reason, and what their digest lost with the bytes.
    constraint reject_pkey primary key (stream_id, "offset"),
    constraint emptied_is_empty check ((emptied_at is null) = (removed_digest is null) and (emptied_at is null
        or num_nonnulls(key, value, headers) = 0)),
    constraint reject_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint reject_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index reject_with_bytes on reject (stream_id, batch_id) where emptied_at is null;

create table boundary (
    stream_id integer not null,
    at timestamptz not null,
    "offset" bigint not null,
    constraint boundary_pkey primary key (stream_id, at),
    constraint boundary_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

create table tombstone (
    target text not null,
    key jsonb not null,
    stream_id integer not null,
    "offset" bigint not null,
    "order" bytea,
    constraint tombstone_pkey primary key (target, key),
    constraint tombstone_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index tombstone_of_stream on tombstone (stream_id, "offset");

create table outbox (
    outbox_id bigint not null generated always as identity,
    batch_id bigint not null,
    topic text not null,
    key bytea,
    value bytea,
    headers json,
    constraint outbox_pkey primary key (outbox_id),
    constraint outbox_batch_id_fkey foreign key (batch_id) references batch(batch_id)
);

create table contribution (
    target text not null,
    key jsonb not null,
    batch_id bigint not null,
    stream_id integer not null,
    records bigint not null,
    "offset" bigint not null,  -- of the newest record that counts, with its last row
    ordinal integer not null,
    totals jsonb not null,
    -- A contribution has records of its own segment, and has taken in those of others. Without any it has given up all of them.
    folded bigint not null default 0,
    constraint contributes_once primary key (batch_id, stream_id, target, key),
    constraint contribution_records_check check (folded >= 0 and (records > folded or records = 0 and folded = 0)),
    constraint key_is_whole check (not key @> '[null]'::jsonb)
);
create index contribution_of_key on contribution (target, key);

-- Which connections the tasks of an attempt commit over, so that the next attempt can end those that are still there.
create table task_backend (
    batch_id bigint not null,
    token bigint not null,
    pid integer not null,
    backend_start timestamptz not null,
    at timestamptz not null default clock_timestamp(),
    constraint task_backend_pkey primary key (batch_id, token, pid, backend_start),
    constraint task_backend_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- The store has confirmed that the results of a batch are there. Never changed.
create table delivery (
    batch_id bigint not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    effect jsonb not null,
    nonce uuid,
    constraint delivery_pkey primary key (batch_id),
    constraint delivery_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint delivery_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- What a store notes beside the results, in the transaction that brings them: whose delivery lies on which offsets. Other
-- Postgres stores hold a table like this one; here it is for results in the ledger's own database.
create table arrival (
    target text not null,
    stream_id integer not null,
    offsets int8range not null,
    batch_id bigint not null,
    token bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint arrival_pkey primary key (target, stream_id, offsets),
    constraint half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null)
);
create index arrival_order on arrival using gist (int4range(stream_id, stream_id, '[]'), offsets);

create table target_rows (
    batch_id bigint not null,
    token bigint not null,
    place integer not null,  -- in the definition's order, which is the staging tables'
    target text not null,
    stream_id integer not null,
    rows bigint not null,
    records bigint not null,  -- distinct ones among the rows; tombstones are none of them
    -- The sum of the rows' offsets, where each record gives one row to each target. Null: a record may give any number of rows.
    offsets numeric,
    constraint target_rows_pkey primary key (batch_id, token, place, stream_id),
    constraint one_row_a_record check (offsets is null or records = rows),
    constraint records_have_rows check (records >= 0 and records <= rows),
    constraint target_rows_place_check check (place >= 0),
    constraint target_rows_batch_id_stream_id_fkey foreign key (batch_id, stream_id)
        references batch_range(batch_id, stream_id),
    constraint target_rows_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- A run's key, as `call` keeps it for batches: whoever asks again under it finds what it has asked for.
create table request_call (
    pipeline text not null,
    key text not null,
    request_id bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint request_call_pkey primary key (pipeline, key, request_id),
    constraint request_call_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade,
    constraint request_call_request_id_fkey foreign key (request_id) references request(request_id)
);
create index request_call_of_request on request_call (request_id);

-- The difference that a preview has found, under which code.
create table rehearsal (
    request_id bigint not null,
    content_hash text not null,
    difference jsonb not null,
    at timestamptz not null default clock_timestamp(),
    erased_digest text,  -- The digest of a difference whose rows were erased.
    constraint rehearsal_pkey primary key (request_id),
    constraint rehearsal_erased_digest_check check (erased_digest ~ '^[0-9a-f]{64}$'),
    constraint rehearsal_request_id_fkey foreign key (request_id) references request(request_id)
);

create table complete_hour (
    pipeline text not null,
    until timestamptz not null,
    proof jsonb not null,  -- the batches that owned its offsets then, and the losses that may have held records of it
    at timestamptz not null default clock_timestamp(),
    constraint complete_hour_pkey primary key (pipeline, until),
    constraint hour_is_over check (until <= at),
    constraint whole_hour check (date_trunc('hour', (until at time zone 'UTC')) = (until at time zone 'UTC')),
    constraint complete_hour_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);

-- A row for each stream that was open, also where nothing came in that hour: the next hour goes on from there.
create table hour_offsets (
    pipeline text not null,
    until timestamptz not null,
    stream_id integer not null,
    from_offset bigint not null,
    until_offset bigint not null,
    constraint hour_offsets_pkey primary key (stream_id, until),
    constraint half_open check (0 <= from_offset and from_offset <= until_offset),
    constraint hour_offsets_pipeline_until_fkey foreign key (pipeline, until)
        references complete_hour(pipeline, until) on update cascade,
    constraint hour_offsets_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index offsets_of_hour on hour_offsets (pipeline, until);
create index hours_by_offset on hour_offsets (stream_id, until_offset);

create table hour_told (
    pipeline text not null,
    until timestamptz not null,
    told_by text not null,
    at timestamptz not null default clock_timestamp(),
    revision integer not null,
    constraint hour_told_pkey primary key (pipeline, until, revision),
    constraint hour_told_pipeline_until_fkey foreign key (pipeline, until)
        references complete_hour(pipeline, until) on update cascade
);

-- The columns of an appended target that digests cover, as [name, type] in the order of hashing.
create table shape (
    shape_id integer not null generated always as identity,
    hash text not null,
    target text not null,
    columns jsonb not null,
    constraint shape_pkey primary key (shape_id),
    constraint one_shape unique (hash)
);

-- The digests that a committing transaction found: of the staged rows and rejects, and of the rows of an appended target.
create table content (
    batch_id bigint not null,
    stream_id integer not null,
    place integer not null,  -- in the definition's order of targets
    rows_digest numeric not null,
    rejects_digest numeric not null,
    shape_id integer,
    target_digest numeric,
    constraint content_pkey primary key (batch_id, stream_id, place),
    constraint appended_has_digest check ((shape_id is null) = (target_digest is null)),
    constraint content_place_check check (place >= 0),
    constraint content_batch_id_stream_id_fkey foreign key (batch_id, stream_id)
        references batch_range(batch_id, stream_id),
    constraint content_shape_id_fkey foreign key (shape_id) references shape(shape_id)
);

create table target_owner (
    store text not null,  -- empty: the ledger's own database; else the name of another Postgres
    target text not null,  -- schema.table, in lower case
    pipeline text not null,
    shared_with text[] not null default '{}'::text[],
    since timestamptz not null default clock_timestamp(),
    constraint target_owner_pkey primary key (store, target, pipeline),
    constraint shares_with_others check (pipeline <> all (shared_with)),
    constraint target_is_qualified check (target ~ '^(lockstep\.)?[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$' or target ~
        '^[A-Z][A-Z0-9_]*\.[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$' and split_part(target, '.', 1) = store),
    constraint target_owner_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);
create unique index one_owner on target_owner (store, target) where shared_with = '{}'::text[];

create table link (
    pipeline text not null,
    number bigint not null,
    batch_id bigint,
    stream_id integer,
    decision_id bigint,
    digest text not null,  -- SHA-256, hexadecimal, of the digest before it, a line feed and the record
    at timestamptz not null default clock_timestamp(),
    request_id bigint,
    ledger_id uuid,
    form smallint not null default 2,
    constraint link_pkey primary key (pipeline, number),
    constraint decision_link_once unique (decision_id),
    constraint ledger_link_once unique (pipeline, ledger_id),
    constraint link_once unique (batch_id, stream_id),
    constraint request_link_once unique (request_id),
    constraint link_number_check check (number > 0),
    constraint one_record check (num_nonnulls(batch_id, stream_id) = case num_nonnulls(decision_id, request_id, ledger_id)
        when 0 then 2 when 1 then 0 else null::integer end),
    constraint link_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references commit(batch_id, stream_id),
    constraint link_decision_id_fkey foreign key (decision_id) references decision(decision_id),
    constraint link_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade,
    constraint link_request_id_fkey foreign key (request_id) references request(request_id)
);

-- What the next seal links.
create table unsealed (
    pipeline text not null,
    batch_id bigint,
    stream_id integer,
    decision_id bigint,
    request_id bigint,
    ledger_id uuid,
    constraint unsealed_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);
create index unsealed_of_pipeline on unsealed (pipeline);

-- Digests of keys are salted, once for each pipeline, so that one look at a record finds every erasure.
create table erasure_salt (
    pipeline text not null,
    salt bytea not null default sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'::name)),
    constraint erasure_salt_pkey primary key (pipeline),
    constraint erasure_salt_salt_check check (length(salt) = 32),
    constraint erasure_salt_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);

-- One key that was erased: in which column it stood, and its digest. Attempts that were opened before cannot commit.
create table erasure (
    erasure_id bigint not null generated always as identity,
    pipeline text not null,
    column_name text not null,
    as_uuid boolean not null,
    digest text not null,
    token bigint not null default nextval('token_seq'::regclass),
    at timestamptz not null default clock_timestamp(),
    constraint erasure_pkey primary key (erasure_id),
    constraint erasure_keeps_no_key check (digest ~ '^[0-9a-f]{64}$'),
    constraint erasure_pipeline_fkey foreign key (pipeline) references erasure_salt(pipeline) on update cascade
);
create index erasure_of_key on erasure (pipeline, column_name, digest);

-- Records below these offsets stay out. Those behind them were produced after the erasure, and are taken.
create table erasure_bound (
    erasure_id bigint not null,
    topic_id text not null,
    partition integer not null,
    until_offset bigint not null,
    constraint erasure_bound_pkey primary key (erasure_id, topic_id, partition),
    constraint erasure_bound_until_offset_check check (until_offset >= 0),
    constraint erasure_bound_erasure_id_fkey foreign key (erasure_id) references erasure(erasure_id)
);

-- What was taken out, by the record it came from. The digest is of appended rows, where they had one.
create table erased (
    erasure_id bigint not null,
    relation text not null,  -- the target, lockstep.contribution or lockstep.reject
    target text not null,
    batch_id bigint not null,
    stream_id integer not null,
    "offset" bigint not null,
    rows bigint not null,
    digest numeric,
    constraint erased_pkey primary key (erasure_id, relation, target, batch_id, stream_id, "offset"),
    constraint erased_rows_check check (rows > 0),
    constraint erased_erasure_id_fkey foreign key (erasure_id) references erasure(erasure_id),
    constraint erased_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index erased_of_batch on erased (batch_id, stream_id);
create index erased_of_record on erased (stream_id, "offset");

-- The former names of a pipeline, each with the last batch that was planned under it.
create table renaming (
    decision_id bigint not null,
    pipeline text not null,
    former text not null,
    last_batch bigint not null,
    constraint renaming_pkey primary key (decision_id),
    constraint renaming_decision_id_fkey foreign key (decision_id) references decision(decision_id),
    constraint renaming_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
);
create index renaming_of_pipeline on renaming (pipeline, last_batch);
create index renaming_of_name on renaming (former, decision_id);

-- `stages` counts all that ran, also those that are not kept. Null: Spark does not say. `server`: a Spark Connect server, which
-- tells its clients neither.
create table spark_run (
    batch_id bigint not null,
    token bigint not null,
    place text not null,
    stages integer,
    heap_peak_bytes bigint,
    heap_limit_bytes bigint,
    gc_seconds double precision,
    records bigint,  -- Spark's own count of an attempt's records. Null: Spark did not say, or an older version has read.
    constraint spark_run_pkey primary key (batch_id, token),
    constraint server_says_nothing check (place <> 'server'
        or num_nonnulls(stages, heap_peak_bytes, heap_limit_bytes, gc_seconds) = 0),
    constraint spark_run_place_check check (place in ('local', 'cluster', 'server')),
    constraint spark_run_records_check check (records >= 0),
    constraint spark_run_stages_check check (stages >= 0),
    constraint spark_run_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- Median and longest are those of the tasks that succeeded.
create table spark_stage (
    batch_id bigint not null,
    token bigint not null,
    stage integer not null,
    try_number integer not null,
    name text not null,
    state text not null,
    began_at timestamptz,
    seconds double precision,
    tasks integer not null,
    failed_tasks integer not null,
    median_seconds double precision,
    longest_seconds double precision,
    gc_seconds double precision not null,
    input_records bigint not null,
    input_bytes bigint not null,
    shuffle_bytes bigint not null,
    spilled_bytes bigint not null,
    peak_memory_bytes bigint not null,
    constraint spark_stage_pkey primary key (batch_id, token, stage, try_number),
    constraint spark_stage_batch_id_token_fkey foreign key (batch_id, token) references spark_run(batch_id, token)
);

-- Rows of the hour were replaced or erased after this revision was told. The first such change stands here for all.
create table hour_changed (
    pipeline text not null,
    until timestamptz not null,
    revision integer not null,
    batch_id bigint,
    erasure_id bigint,
    at timestamptz not null default clock_timestamp(),
    constraint hour_changed_pkey primary key (pipeline, until, revision),
    constraint one_change check (num_nonnulls(batch_id, erasure_id) = 1),
    constraint hour_changed_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint hour_changed_erasure_id_fkey foreign key (erasure_id) references erasure(erasure_id),
    constraint hour_changed_pipeline_until_revision_fkey foreign key (pipeline, until, revision)
        references hour_told(pipeline, until, revision) on update cascade
);

-- One row for each table with a feed. Its lock is the last one that a commit takes: who numbers later commits later.
create table feed (
    target text not null,  -- schema.table, in lower case
    name text not null,  -- of the table with the images, in schema lockstep_feed
    key text[] not null,
    keep interval not null,
    last_seq bigint not null default 0,
    next_number bigint not null default 0,
    kept_from bigint not null default 0,  -- the images of older changes are trimmed
    began_empty boolean not null,  -- false: rows that the table had at first were never announced
    opened_at timestamptz not null default clock_timestamp(),
    sends boolean not null default false,
    timeline uuid not null default gen_random_uuid(),
    constraint feed_pkey primary key (target),
    constraint one_name unique (name),
    constraint timeline_once unique (timeline),
    constraint feed_forward check (0 <= kept_from and kept_from <= next_number and 0 <= last_seq),
    constraint keeps_something check (keep > '00:00:00'::interval)
) with (fillfactor=50);

-- What one commit did to one target: so many changes from `first_number` on, as the `seq`-th set. Number and seq have no gap.
create table change_set (
    change_set_id bigint not null generated always as identity,
    target text not null,
    kind text not null,
    batch_id bigint,
    stream_id integer,  -- null: all ranges of the batch
    why text,
    at timestamptz not null default clock_timestamp(),
    xid xid8 not null default pg_current_xact_id(),
    seq bigint,
    first_number bigint,
    changes bigint,
    constraint change_set_pkey primary key (change_set_id),
    constraint seq_once unique (target, seq),
    constraint change_set_changes_check check (changes >= 0),
    constraint change_set_kind_check check (kind in ('batch', 'manual', 'emission')),
    constraint kind_says_whose check ((kind = 'batch') = (batch_id is not null) and (kind = 'manual') = (why is not null)
        and (stream_id is null or kind = 'batch')),
    constraint numbered_whole check (num_nulls(seq, first_number, changes) = any (array[0, 3])),
    constraint change_set_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint change_set_stream_id_fkey foreign key (stream_id) references stream(stream_id),
    constraint change_set_target_fkey foreign key (target) references feed(target)
) with (fillfactor=70);
create unique index one_set_a_commit on change_set (target, batch_id, coalesce(stream_id, '-1'::integer)) where batch_id is not null;
create unique index number_once on change_set (target, first_number) where changes > 0;
create unique index one_open_set on change_set (xid, target) where seq is null;
create index change_set_of_batch on change_set (batch_id);

create table relay (
    target text not null,
    topic text not null,
    cluster_id text,  -- null, as the next two: no relay has looked at the topic yet
    topic_id text,
    partitions integer,
    transactional_id text not null,
    token bigint not null default 0,  -- of the relay that came last
    held_by text,
    held_until timestamptz not null default '-infinity'::timestamptz,
    began_at bigint not null,  -- the first number that is sent
    confirmed bigint not null,  -- the changes below it are in Kafka
    intent bigint,  -- the end of the transaction under way
    restarted_by bigint,
    moved_at timestamptz not null default clock_timestamp(),
    constraint relay_pkey primary key (target),
    constraint one_feed_a_topic unique (cluster_id, topic),
    constraint one_writer unique (transactional_id),
    constraint intent_ahead check (began_at >= 0 and confirmed >= began_at and intent > confirmed),
    constraint known_whole check (num_nulls(cluster_id, topic_id, partitions) = any (array[0, 3])),
    constraint relay_partitions_check check (partitions > 0),
    constraint relay_restarted_by_fkey foreign key (restarted_by) references decision(decision_id),
    constraint relay_target_fkey foreign key (target) references feed(target)
) with (fillfactor=50);

-- Of each stream, the offsets of batches whose sent rows are trimmed. Nobody can compare what was sent of them any more.
create table trimmed (
    target text not null,
    stream_id integer not null,
    offsets int8multirange not null,
    -- Whether offsets of rejects are among them, as all that were trimmed before may be.
    with_rejects boolean not null default false,
    constraint trimmed_pkey primary key (target, stream_id),
    constraint trimmed_stream_id_fkey foreign key (stream_id) references stream(stream_id),
    constraint trimmed_target_fkey foreign key (target) references feed(target)
) with (fillfactor=70);

-- How far the event time of a pipeline has come: no record with an older event is expected. It never goes back.
create table event_time (
    pipeline text not null,
    watermark timestamptz not null default '-infinity'::timestamptz,
    moved_at timestamptz not null default clock_timestamp(),
    constraint event_time_pkey primary key (pipeline),
    constraint event_time_pipeline_fkey foreign key (pipeline) references pipeline(name) on update cascade
) with (fillfactor=50);

-- How far the event time of a stream has come, by what was committed of it.
create table stream_time (
    stream_id integer not null,
    opened_with timestamptz not null default '-infinity'::timestamptz,  -- the pipeline's watermark when the stream was opened
    seen timestamptz,  -- the newest event of a live batch that had happened when the batch was planned
    idle_at timestamptz,  -- a moment at which the log had nothing behind the position
    constraint stream_time_pkey primary key (stream_id),
    constraint stream_time_stream_id_fkey foreign key (stream_id) references stream(stream_id)
) with (fillfactor=50);

-- The watermark that decided what of these offsets is late. Every replay judges by it again.
create table judged (
    stream_id integer not null,
    offsets int8range not null,
    watermark timestamptz not null,
    admitted_by bigint,  -- since this decision nothing of them is late
    constraint judged_once exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint judged_half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint judged_admitted_by_fkey foreign key (admitted_by) references decision(decision_id),
    constraint judged_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index judged_order on judged (stream_id, lower(offsets));

-- The windows of a target. The key is that of their contributions: the window's start, then the key.
create table window_state (
    target text not null,
    key jsonb not null,
    ends timestamptz not null,
    revision integer not null default 0,  -- 0: not shown yet
    constraint one_state_a_window primary key (target, key),
    constraint window_state_revision_check check (revision >= 0)
) with (fillfactor=70);
create index window_due on window_state (target, ends) where revision = 0;

-- Records that came for a window after it was closed, with the row that does not count there.
create table late (
    target text not null,
    stream_id integer not null,
    "offset" bigint not null,
    ordinal integer not null,
    window_start timestamptz not null,
    window_end timestamptz not null,
    key jsonb not null,
    event_time timestamptz not null,
    watermark timestamptz not null,  -- that it was judged by
    batch_id bigint not null,
    "row" jsonb not null,
    constraint late_once primary key (target, stream_id, "offset", ordinal, window_start),
    constraint late_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint late_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index late_of_window on late (target, window_start);
create index late_of_batch on late (batch_id);

-- The changes that an erasure took a row out of. They are part of what its decision says, and so of the chain.
create table blank_change (
    erasure_id bigint not null,
    change_set_id bigint not null,
    ordinal bigint not null,
    constraint blank_change_pkey primary key (change_set_id, ordinal, erasure_id),
    constraint blank_change_ordinal_check check (ordinal >= 0),
    constraint blank_change_change_set_id_fkey foreign key (change_set_id) references change_set(change_set_id),
    constraint blank_change_erasure_id_fkey foreign key (erasure_id) references erasure(erasure_id)
);
create index blank_change_of_erasure on blank_change (erasure_id);

-- How many records of a segment count in the contributions of other segments.
create table folded (
    target text not null,
    batch_id bigint not null,
    stream_id integer not null,
    records bigint not null,
    constraint folded_once primary key (target, batch_id, stream_id),
    constraint folded_records_check check (records > 0)
);

-- The judged ranges whose late records a request lets count. Those of a preview are admitted by nobody yet.
create table request_admits (
    request_id bigint not null,
    stream_id integer not null,
    offsets int8range not null,
    constraint request_admits_pkey primary key (request_id, stream_id, offsets),
    constraint request_admits_request_id_fkey foreign key (request_id) references request(request_id),
    constraint request_admits_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

-- A file counts when it was closed, read back and has its row. The stream is the one that opened the log: growth keeps the log.
create table archived (
    archived_id bigint not null generated always as identity,
    stream_id integer not null,
    offsets int8range not null,
    path text not null,
    records bigint not null,
    bytes bigint not null,
    digest_sum numeric not null,
    digest_squares numeric not null,
    sha256 text not null,
    newest timestamptz,
    log_start bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint archived_pkey primary key (archived_id),
    constraint one_row_a_file unique (path),
    constraint archived_once exclude using gist (int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint archived_counts check (records >= 0 and records <= (upper(offsets) - lower(offsets)) and bytes > 0),
    constraint archived_from_the_log check (log_start <= lower(offsets)),
    constraint archived_half_open check (not isempty(offsets) and lower_inc(offsets) and not upper_inc(offsets)
        and lower(offsets) >= 0 and upper(offsets) is not null),
    constraint archived_sha256_check check (sha256 ~ '^[0-9a-f]{64}$'),
    constraint archived_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
alter table archived add constraint archived_below_its_place check (path ~ '^[^/]+(/[^/]+)+$' and path !~ '(^|/)[.]{1,2}(/|$)|[\\[:cntrl:]]') not valid;

-- Whose files were dropped, by which decision. They are read no more, and their offsets are not archived again.
create table archive_drop (
    archived_id bigint not null,
    decision_id bigint not null,
    at timestamptz not null default clock_timestamp(),
    constraint archive_drop_pkey primary key (archived_id),
    constraint archive_drop_archived_id_fkey foreign key (archived_id) references archived(archived_id),
    constraint archive_drop_decision_id_fkey foreign key (decision_id) references decision(decision_id)
);

create table source_truncation (
    target text not null,
    stream_id integer not null,
    "offset" bigint not null,
    "order" bytea not null,
    constraint source_truncation_pkey primary key (target, stream_id, "offset"),
    constraint source_truncation_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

-- The batches whose rows the views leave out. A row stands here before the first of the batch's rows, and goes with its commit.
create table hidden_batch (
    batch_id bigint not null,
    rows_table text not null,
    since timestamptz not null default clock_timestamp(),
    constraint hidden_batch_pkey primary key (batch_id),
    constraint hidden_batch_batch_id_fkey foreign key (batch_id) references batch(batch_id)
) with (parallel_workers=0);

-- The ranges that the tasks of an attempt have copied, each in the transaction of its rows.
create table landed (
    batch_id bigint not null,
    token bigint not null,
    stream_id integer not null,
    rows bigint not null,
    rows_digest numeric not null,
    shape_id integer not null,
    offsets int8range not null,
    constraint landed_once exclude using gist (int8range(batch_id, batch_id, '[]') with &&, int8range(token, token,
        '[]') with &&, int4range(stream_id, stream_id, '[]') with &&, offsets with &&),
    constraint landed_counts check (rows >= 0),
    constraint landed_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references batch_range(batch_id, stream_id),
    constraint landed_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token),
    constraint landed_shape_id_fkey foreign key (shape_id) references shape(shape_id)
);
create index landed_of_attempt on landed (batch_id, token, stream_id);

-- Layout V1 of that catalog, to the letter: Spark, Trino and others read and write it.
create table lockstep_lake.iceberg_tables (
    catalog_name character varying(255) not null,
    table_namespace character varying(255) not null,
    table_name character varying(255) not null,
    metadata_location character varying(1000),
    previous_metadata_location character varying(1000),
    iceberg_type character varying(5),
    constraint iceberg_tables_pkey primary key (catalog_name, table_namespace, table_name)
);

create table lockstep_lake.iceberg_namespace_properties (
    catalog_name character varying(255) not null,
    namespace character varying(255) not null,
    property_key character varying(255) not null,
    property_value character varying(1000),
    constraint iceberg_namespace_properties_pkey primary key (catalog_name, namespace, property_key)
);

-- Where an attempt writes its files for one target. Nothing else is below it, so what a dead attempt has left is found there.
create table lake_prefix (
    batch_id bigint not null,
    token bigint not null,
    place integer not null,  -- in the definition's order of targets
    location text not null,
    swept_at timestamptz,
    constraint lake_prefix_pkey primary key (batch_id, token, place),
    constraint lake_prefix_place_check check (place >= 0),
    constraint lake_prefix_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- A file counts when it was closed, read back from the store and has its row.
create table lake_file (
    batch_id bigint not null,
    token bigint not null,
    place integer not null,
    path text not null,
    rows bigint not null,
    bytes bigint not null,
    streams jsonb not null,  -- {"17": [rows, sum of offsets, sum of their squares, first, last]}, as read back
    -- {"columns": ["id", ...], "streams": {"17": sum of the hashes of its rows}}. Null: written out of staging, by the
    -- committer.
    digests jsonb,
    constraint lake_file_pkey primary key (batch_id, token, place, path),
    constraint one_row_a_lake_file unique (path),
    constraint lake_file_bytes_check check (bytes > 0),
    constraint lake_file_rows_check check (rows > 0),
    constraint lake_file_batch_id_token_place_fkey foreign key (batch_id, token, place)
        references lake_prefix(batch_id, token, place)
);

-- A preparation: its files of metadata have its id in their names. Written before the first of them is.
create table lake_prepared (
    commit_uuid uuid not null,
    batch_id bigint not null,
    token bigint not null,
    place integer not null,
    before text not null,
    at timestamptz not null default clock_timestamp(),
    swept_at timestamptz,
    constraint lake_prepared_pkey primary key (commit_uuid),
    constraint lake_prepared_batch_id_token_place_fkey foreign key (batch_id, token, place)
        references lake_prefix(batch_id, token, place)
);

-- What a commit did to a table of the lake. Lineage stays here when the snapshot expires.
create table lake_commit (
    batch_id bigint not null,
    place integer not null,
    token bigint not null,
    catalog text not null,
    namespace text not null,
    name text not null,
    table_uuid uuid not null,
    before text not null,
    after text not null,
    snapshot_id bigint not null,
    added_files integer not null,
    removed_files integer not null,
    rewritten_files integer not null,
    at timestamptz not null default clock_timestamp(),
    -- The order of a commit's snapshot among all of its table: no ancestor of a later one is as old, and is not it.
    sequence bigint,
    constraint lake_commit_pkey primary key (batch_id, place),
    constraint lake_commit_batch_id_token_place_fkey foreign key (batch_id, token, place)
        references lake_prefix(batch_id, token, place)
);

-- Every move of a pointer, by whomever. No role inserts here: the trigger below does.
create table lake_pointer (
    id bigint not null generated always as identity,
    catalog text not null,
    namespace text not null,
    name text not null,
    before text,
    after text,
    at timestamptz not null default clock_timestamp(),
    login name not null default session_user,
    role text not null,
    application text,
    xid xid8 not null default pg_current_xact_id(),
    constraint lake_pointer_pkey primary key (id),
    constraint one_commit_moves_a_table_once unique (catalog, namespace, name, xid)
);

-- What a driver says to the task that has submitted it. On a cluster the two share no file.
create table answer (
    task_instance_id text not null,
    try_number integer not null,
    outcome jsonb not null,
    at timestamptz not null default clock_timestamp(),
    constraint answer_pkey primary key (task_instance_id, try_number)
);

-- The tables that tasks have made, each in the transaction of its rows. Their counts and digests are in `landed`.
create table part (
    batch_id bigint not null,
    token bigint not null,
    stream_id integer not null,
    target text not null,
    relation oid not null,
    constraint part_once primary key (batch_id, token, stream_id),
    constraint part_batch_id_stream_id_fkey foreign key (batch_id, stream_id) references batch_range(batch_id, stream_id),
    constraint part_batch_id_token_fkey foreign key (batch_id, token) references attempt(batch_id, token)
);

-- Rows of a keyed table by the batch and stream that brought them, and the sum of their hashes. Each commit adds what it brings
-- and takes out what it replaces, under the lock of the table's pointer.
create table lake_held (
    target text not null,
    batch_id bigint not null,
    stream_id integer not null,
    rows bigint not null,
    digest numeric not null,
    constraint lake_held_pkey primary key (target, batch_id, stream_id),
    constraint lake_held_batch_id_fkey foreign key (batch_id) references batch(batch_id),
    constraint lake_held_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);

-- A step of upkeep: its files have its id in their names. Written before the first of them is.
create table lake_upkeep (
    commit_uuid uuid not null,
    catalog text not null,
    namespace text not null,
    name text not null,
    step text not null,
    before text not null,  -- metadata beside which it writes its own
    prefix text not null,  -- where its files of rows lie
    at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,  -- the pointer has moved to what it prepared, or never will
    swept_at timestamptz,
    constraint lake_upkeep_pkey primary key (commit_uuid),
    constraint lake_upkeep_step_check check (step in ('merge', 'manifests', 'expire')),
    constraint swept_when_ended check (swept_at is null or ended_at is not null)
);
create index lake_upkeep_catalog_namespace_name_idx on lake_upkeep (catalog, namespace, name);

-- A file that no snapshot holds since this decision. It is deleted behind the move.
create table lake_gone (
    path text not null,
    catalog text not null,
    namespace text not null,
    name text not null,
    decision_id bigint not null,
    deleted_at timestamptz,
    constraint lake_gone_pkey primary key (path),
    constraint lake_gone_decision_id_fkey foreign key (decision_id) references decision(decision_id)
);
create index lake_gone_catalog_namespace_name_idx on lake_gone (catalog, namespace, name) where deleted_at is null;

-- Skipped offsets that made room, and by which transaction: what a fill leaves of them stays skipped. No role writes here.
create table lifted (
    stream_id integer not null,
    offsets int8range not null,
    xid xid8 not null default pg_current_xact_id(),
    at timestamptz not null default clock_timestamp(),
    constraint lifted_stream_id_fkey foreign key (stream_id) references stream(stream_id)
);
create index lifted_of_stream on lifted (stream_id, xid);

create table ledger (
    ledger_id uuid not null default gen_random_uuid(),
    at timestamptz not null default clock_timestamp(),
    is_only boolean not null default true,
    constraint ledger_pkey primary key (ledger_id),
    constraint one_ledger unique (is_only),
    constraint ledger_is_only_check check (is_only)
);

-- From a target row's _stream to where it was read.
create view origin as
select stream_id as _stream, pipeline, cluster_id, topic, topic_id, partition, incarnation from stream;

create function guard_position() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'INSERT' then
        if new.position <> new.start_offset then
            raise exception 'no_gap: stream % is born at %, past its start %', new.stream_id, new.position, new.start_offset
                using errcode = '23514', constraint = 'no_gap';
        end if;
        return null;
    end if;
    if new.position < old.position then
        raise exception 'no_gap: the position of stream % moves back from % to %', new.stream_id, old.position, new.position
            using errcode = '23514', constraint = 'no_gap';
    end if;
    if new.position > old.position and not lockstep.covers(new.stream_id, int8range(old.position, new.position)) then
        raise exception 'no_gap: stream % moves over [%, %), which is not all covered',
            new.stream_id, old.position, new.position using errcode = '23514', constraint = 'no_gap';
    end if;
    return null;
end $$;
create constraint trigger no_gap after insert or update of "position" on stream
    deferrable initially deferred for each row execute function guard_position();

create function guard_coverage() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    covered int8multirange;
    passed int8range;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        if upper(new.offsets) > (select s.position from lockstep.stream s where s.stream_id = new.stream_id) then
            raise exception 'not_past_position: stream % is covered by % past its position', new.stream_id, new.offsets
                using errcode = '23514', constraint = 'not_past_position';
        end if;
    end if;
    if tg_op in ('UPDATE', 'DELETE') then
        select old.offsets * int8range(s.start_offset, s.position) into passed
        from lockstep.stream s where s.stream_id = old.stream_id;
        if not isempty(passed) then
            select range_agg(c.offsets) into covered from lockstep.coverage c
            where int4range(c.stream_id, c.stream_id, '[]') && int4range(old.stream_id, old.stream_id, '[]')
              and c.offsets && passed;
            if covered is null or not covered @> passed then
                raise exception 'no_gap: coverage % of stream % is taken away below its position', passed, old.stream_id
                    using errcode = '23514', constraint = 'no_gap';
            end if;
        end if;
    end if;
    return null;
end $$;
create constraint trigger no_gap after insert or delete or update on coverage
    deferrable initially deferred for each row execute function guard_coverage();

-- A stream is one incarnation for good, and its line is part of that.
create function guard_stream() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if current_user = 'lockstep_owner' and old.pipeline <> new.pipeline
            and to_jsonb(old) - 'pipeline' = to_jsonb(new) - 'pipeline' then
        return new;
    end if;
    if (old.epoch, old.incarnation, old.start_offset, old.partition, old.topic, old.topic_id, old.cluster_id, old.pipeline,
            old.first_topic)
        is distinct from
       (new.epoch, new.incarnation, new.start_offset, new.partition, new.topic, new.topic_id, new.cluster_id, new.pipeline,
            new.first_topic) then
        raise exception 'closed_once: stream % is one incarnation for good', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if old.retired_at is not null then
        raise exception 'closed_once: stream % is retired', old.stream_id
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on stream
    for each row execute function guard_stream();

-- Closed rows stay as they are, but for the name, which the owner's rename alone writes.
create function guard_batch() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if current_user = 'lockstep_owner' and old.pipeline <> new.pipeline
            and to_jsonb(old) - 'pipeline' = to_jsonb(new) - 'pipeline' then
        return new;
    end if;
    if old.state <> 'planned' then
        raise exception 'closed_once: batch % is %', old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    if new.token < old.token then
        raise exception 'closed_once: the token of batch % goes back from % to %', old.batch_id, old.token, new.token
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on batch
    for each row execute function guard_batch();

-- A closed attempt's error may quote a value. An erasure alone may replace it.
create function guard_attempt() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.closed_at is not null and (
            current_user <> 'lockstep_owner' or new.error is distinct from 'erased'
            or to_jsonb(old) - 'error' <> to_jsonb(new) - 'error') then
        raise exception 'closed_once: attempt % of batch % is %', old.token, old.batch_id, old.state
            using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on attempt
    for each row execute function guard_attempt();

-- A batch closes whole; one that is abandoned keeps what tasks have committed of it, and what commits as a whole has nothing to
-- keep.
create function guard_closing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (select 1 from lockstep.claim c where c.batch_id = new.batch_id) then
        raise exception 'no_claim_left: batch % closes and still claims offsets', new.batch_id
            using errcode = '23514', constraint = 'no_claim_left';
    end if;
    if new.state = 'committed' and (select count(*) from lockstep.batch_range r where r.batch_id = new.batch_id)
        <> (select count(*) from lockstep.commit c where c.batch_id = new.batch_id) then
        raise exception 'committed_whole: batch % closes without a commit of each of its ranges', new.batch_id
            using errcode = '23514', constraint = 'committed_whole';
    end if;
    if new.state = 'abandoned' and exists (
        select 1 from lockstep.commit c join lockstep.attempt a using (batch_id, token)
        where c.batch_id = new.batch_id and a.unit = 'batch') then
        raise exception 'committed_whole: batch % was committed and cannot be abandoned', new.batch_id
            using errcode = '23514', constraint = 'committed_whole';
    end if;
    return null;
end $$;
create constraint trigger committed_whole after update of state on batch
    deferrable initially deferred for each row when (new.state <> 'planned') execute function guard_closing();

-- A range that began below log start is whole where the archive holds its beginning. One that did not was read from the log.
create function guard_commit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select 1 from lockstep.attempt a where a.batch_id = new.batch_id and a.token = new.token and a.unit = 'stream') then
        select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id for share;
    else
        select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id;
    end if;
    if newest is distinct from new.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', new.token, new.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if exists (
        select 1 from lockstep.batch b join lockstep.request r using (request_id)
        where b.batch_id = new.batch_id and r.preview) then
        raise exception 'preview_commits_nothing: batch % is a preview', new.batch_id
            using errcode = '23514', constraint = 'preview_commits_nothing';
    end if;
    if exists (
        select 1 from lockstep.result u join lockstep.batch_range g using (batch_id, stream_id)
        where u.batch_id = new.batch_id and u.token = new.token and u.stream_id = new.stream_id
          and u.log_start_after > lower(g.offsets)
          and (u.log_start_before <= lower(g.offsets) or not lockstep.archive_of(g.stream_id)
            @> int8range(lower(g.offsets), least(upper(g.offsets), u.log_start_after)))) then
        raise exception 'read_whole: stream % of batch % was trimmed while it was read', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'read_whole';
    end if;
    return new;
end $$;
create trigger newest_attempt before insert on commit
    for each row execute function guard_commit();

create function guard_request() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.closed_at is not null and (current_user <> 'lockstep_owner' or old.pipeline = new.pipeline
            or to_jsonb(old) - 'pipeline' <> to_jsonb(new) - 'pipeline') then
        raise exception 'closed_once: request % is closed', old.request_id using errcode = '23514', constraint = 'closed_once';
    end if;
    return new;
end $$;
create trigger closed_once before update on request
    for each row execute function guard_request();

-- What was accepted as lost stays lost: no lane may take it for covered again.
create function guard_loss() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'loss_stays: % of stream % was accepted as lost', old.offsets, old.stream_id
        using errcode = '23514', constraint = 'loss_stays';
end $$;
create trigger loss_stays before delete or update on coverage
    for each row when (old.kind = 'loss') execute function guard_loss();

create function covers(stream integer, wanted int8range) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    first_one bigint;  -- where the row begins that holds the first offset
    covered int8multirange;
begin
    select lower(c.offsets) into first_one from lockstep.coverage c
    where c.stream_id = stream and lower(c.offsets) <= lower(wanted) order by lower(c.offsets) desc limit 1;
    select range_agg(c.offsets) into covered from lockstep.coverage c
    where c.stream_id = stream and lower(c.offsets) >= first_one and lower(c.offsets) < upper(wanted);
    return coalesce(covered @> wanted, false);
end $$;

-- Every segment that a batch owns today. Segments are never split, so a newer one that overlaps an older one holds it whole.
create view segment as
select stream_id, offsets, batch_id, token
from (select r.stream_id, r.offsets, m.batch_id, m.token, max(upper(r.offsets)) over (
          partition by r.stream_id order by lower(r.offsets), upper(r.offsets) desc, m.token desc
          rows between unbounded preceding and 1 preceding) as reached
      from lockstep.batch_range r join lockstep.commit m using (batch_id, stream_id)) committed
where reached is null or reached < upper(offsets);

-- A plan's segments contribute, and nothing is put in place of what was folded: it can never be read again as a whole.
create function guard_contribution() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.batch_id, a.stream_id into stray from (select distinct batch_id, stream_id from added) a
    where not exists (select 1 from lockstep.claim k where k.batch_id = a.batch_id and k.stream_id = a.stream_id) limit 1;
    if found then
        raise exception 'contributes_what_it_claims: batch % claims nothing of stream %', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'contributes_what_it_claims';
    end if;
    select a.batch_id into stray from added a where a.records = 0 or a.folded <> 0 limit 1;
    if found then
        raise exception 'folded_by_update: batch % would contribute records of others', stray.batch_id
            using errcode = '23514', constraint = 'folded_by_update';
    end if;
    select a.batch_id, f.batch_id as before into stray from (select distinct target, batch_id from added) a
    join lockstep.claim k on k.batch_id = a.batch_id
    join lockstep.folded f on f.target = a.target and f.batch_id = k.expects_batch and f.stream_id = k.stream_id limit 1;
    if found then
        raise exception 'folded_stays: batch % would take the place of batch %, whose records are folded', stray.batch_id, stray.before
            using errcode = '23514', constraint = 'folded_stays';
    end if;
    return null;
end $$;
create trigger contributes_what_it_claims after insert on contribution referencing new table as added
    for each statement execute function guard_contribution();

-- Who takes a segment over has taken its contributions out. Upkeep takes nothing over: whose row of coverage only became part
-- of a longer one still owns its offsets, and what it contributed still counts.
create function guard_withdrawn() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select 1 from lockstep.contribution x where x.batch_id = old.batch_id and x.stream_id = old.stream_id) and exists (
        select 1 from (
            select c.batch_id from lockstep.coverage c
            where c.stream_id = old.stream_id and lower(c.offsets) <= lower(old.offsets)
            order by lower(c.offsets) desc limit 1) heir
        join lockstep.batch_range r on r.batch_id = heir.batch_id and r.stream_id = old.stream_id
        where heir.batch_id <> old.batch_id and r.offsets && old.offsets) then
        raise exception 'withdrawn_whole: % of stream % is taken over, and what batch % contributed still counts',
            old.offsets, old.stream_id, old.batch_id using errcode = '23514', constraint = 'withdrawn_whole';
    end if;
    return null;
end $$;
create constraint trigger withdrawn_whole after delete or update on coverage
    deferrable initially deferred for each row when (old.kind = 'batch') execute function guard_withdrawn();

create function guarantee_of(attempt_batch bigint, attempt_token bigint) returns text
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select d.document -> 'guarantee' ->> 'kind' from lockstep.attempt a join lockstep.definition d using (definition_hash)
    where a.batch_id = attempt_batch and a.token = attempt_token
$$;

-- Results first: no offset is committed whose results the store has not confirmed. A look for each statement, not for each row.
create function guard_results() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    early record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
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
create function guard_delivery() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.guarantee_of(new.batch_id, new.token) = 'AtMostOnce' and not exists (
        select 1 from lockstep.commit c where c.batch_id = new.batch_id and c.token = new.token) then
        raise exception 'offsets_first: attempt % of batch % has not committed its offsets', new.token, new.batch_id
            using errcode = '23514', constraint = 'offsets_first';
    end if;
    return new;
end $$;
create trigger offsets_first before insert on delivery
    for each row execute function guard_delivery();

-- What is committed is what all targets were given: no row beside them, and none of a target left out.
create function guard_target_rows() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
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
create trigger every_target before insert on commit
    for each row execute function guard_target_rows();

-- Only a preview is rehearsed: what was shown has changed nothing.
create function guard_rehearsal() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (select 1 from lockstep.request r where r.request_id = new.request_id and r.preview) then
        raise exception 'rehearsed_is_preview: request % is no preview', new.request_id
            using errcode = '23514', constraint = 'rehearsed_is_preview';
    end if;
    return new;
end $$;
create trigger rehearsed_is_preview before insert on rehearsal
    for each row execute function guard_rehearsal();

create function guard_hour() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    last timestamptz;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select max(h.until) into last from lockstep.complete_hour h where h.pipeline = new.pipeline;
    if new.until <> last + interval '1 hour' then
        raise exception 'hours_in_order: the hour until % of % comes behind the one until %', new.until, new.pipeline, last
            using errcode = '23514', constraint = 'hours_in_order';
    end if;
    return new;
end $$;
create trigger hours_in_order before insert on complete_hour
    for each row execute function guard_hour();

-- Nobody reads on in a stream whose partition has another incarnation now.
create function is_gone(stream integer) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select not exists (
        select 1 from lockstep.stream s join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic
            and o.partition = s.partition and o.incarnation = s.incarnation
        where s.stream_id = stream and o.retired_at is null)
$$;

-- Hours tile, stream by stream, and a batch or a loss has each of their offsets. A look for each statement, not for each row.
create function guard_hour_offsets() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.*, l.reached into wrong from added a join lockstep.stream s using (stream_id)
    left join lateral (
        select h.until_offset from lockstep.hour_offsets h
        where h.stream_id = a.stream_id and h.until < a.until order by h.until desc limit 1) p on true
    cross join lateral (
        select coalesce(p.until_offset, case when exists (
            select 1 from lockstep.complete_hour h where h.pipeline = a.pipeline and h.until < a.until)
            then s.start_offset end) as reached) l
    where s.pipeline <> a.pipeline or a.from_offset <> l.reached limit 1;
    if found then
        raise exception 'hours_tile: the hour until % begins at % of stream %, and those before it end at %',
            wrong.until, wrong.from_offset, wrong.stream_id, wrong.reached using errcode = '23514', constraint = 'hours_tile';
    end if;
    select a.*, s.position, m.missing into wrong from added a join lockstep.stream s using (stream_id)
    cross join lateral (
        select int8multirange(int8range(a.from_offset, a.until_offset)) - coalesce(range_agg(c.offsets), '{}') as missing
        from lockstep.coverage c
        where c.stream_id = a.stream_id and (c.kind <> 'skipped' or lockstep.is_gone(a.stream_id))
          and lower(c.offsets) < a.until_offset and lower(c.offsets) >= coalesce((
            select lower(p.offsets) from lockstep.coverage p
            where p.stream_id = a.stream_id and lower(p.offsets) <= a.from_offset order by lower(p.offsets) desc limit 1), 0)) m
    where s.position < a.until_offset or not isempty(m.missing) limit 1;
    if found then
        raise exception 'hour_is_covered: % of stream %, which is at %, is missing in the hour until %',
            wrong.missing, wrong.stream_id, wrong.position, wrong.until
            using errcode = '23514', constraint = 'hour_is_covered';
    end if;
    return null;
end $$;
create trigger hour_is_covered after insert on hour_offsets referencing new table as added
    for each statement execute function guard_hour_offsets();

create function guard_whole_hour() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select 1 from lockstep.stream s where s.pipeline = new.pipeline and s.retired_at is null and not exists (
            select 1 from lockstep.hour_offsets o where o.stream_id = s.stream_id and o.until = new.until)) then
        raise exception 'hour_is_whole: the hour until % of % says nothing of an open stream', new.until, new.pipeline
            using errcode = '23514', constraint = 'hour_is_whole';
    end if;
    return null;
end $$;
create constraint trigger hour_is_whole after insert on complete_hour
    deferrable initially deferred for each row execute function guard_whole_hour();

-- Whether each batch has a partition of the table to itself.
create function is_by_batch(target regclass) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from pg_partitioned_table p join pg_attribute a on a.attrelid = p.partrelid and a.attname = '_batch'
        where p.partrelid = target and p.partstrat = 'l' and p.partnatts = 1 and p.partattrs[0] = a.attnum)
$$;

-- What the batch's partition of a table is called. Only the newest attempt, validated, of a planned batch has one.
create function partition_name(target regclass, of_batch bigint, of_token bigint) returns name
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select 1 from lockstep.batch b join lockstep.attempt a using (batch_id, token)
        where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and a.state = 'validated') then
        raise exception 'newest_attempt: attempt % of batch % is not its newest, or not validated', of_token, of_batch
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    return (select left(relname, 62 - length(of_batch::text)) || '_' || of_batch from pg_class where oid = target);
end $$;

-- An empty partition for the batch. It is made beside the table and attached: readers of the table are not waited for.
create function make_partition(target regclass, of_batch bigint, of_token bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called text := format('%s.%I', (select relnamespace::regnamespace from pg_class where oid = target),
        lockstep.partition_name(target, of_batch, of_token));
begin
    perform lockstep.guard_target(target);
    execute format('create table %s (like %s including defaults including generated including constraints including storage)',
        called, target);
    execute format('alter table %s owner to %s', called, (select relowner::regrole from pg_class where oid = target));
    execute format('alter table %s attach partition %s for values in (%s)', target, called, of_batch);
end $$;

-- The staged table is the ledger's owner's until it lies beside its target: nobody else may create among the staged rows. It is
-- the target's owner's before it is attached: whatever then runs for its indexes runs as that one. Beside it a lake table may
-- be filled, whose name is no relation's: it is not looked for.
create function attach_staged(target regclass, staged regclass, of_batch bigint, of_token bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called name := lockstep.partition_name(target, of_batch, of_token);
    changes text;
    staged_rows bigint;
    won_rows bigint;
begin
    perform lockstep.guard_target(target);
    if (select relnamespace <> 'lockstep_staging'::regnamespace
            or not starts_with(relname || '_', format('attempt_%s_%s_', of_batch, of_token))
        from pg_class where oid = staged) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    execute format('alter table %s owner to %I', staged, current_user);
    execute format('revoke all on %s from lockstep_executor', staged);  -- what is published is no executor's to write
    perform lockstep.guard_plain(staged, target);  -- its stager can change nothing of it any more
    execute format('select count(*) from %s', staged) into staged_rows;
    -- one target has no row in target_rows, and all rows of the result
    select coalesce(
        (select sum(p.rows) from lockstep.target_rows p
         where p.batch_id = of_batch and p.token = of_token and case when p.target !~ '[.].*[.]' then to_regclass(p.target) end = attach_staged.target),
        (select sum(r.rows) from lockstep.result r where r.batch_id = of_batch and r.token = of_token), 0) into won_rows;
    if staged_rows <> won_rows then
        execute format('delete from %s t where t._reason is not null or not exists (
            select 1 from lockstep.manifest m where m.batch_id = %s and m.token = %s and m.task = t._task)',
            staged, of_batch, of_token);
    end if;
    select string_agg(change, ', ') into changes from (
        select format('drop column %I', s.attname) as change from pg_attribute s
        where s.attrelid = staged and s.attnum > 0 and not s.attisdropped and s.attname not in (
            select t.attname from pg_attribute t where t.attrelid = target and t.attnum > 0 and not t.attisdropped)
        union all
        select format('alter column %I set not null', t.attname) from pg_attribute t
        where t.attrelid = target and t.attnum > 0 and not t.attisdropped and t.attnotnull and t.attname <> '_batch') c;
    execute format('alter table %s %s, add column _batch bigint not null default %s, add constraint its_batch check (_batch = %s)',
        staged, changes, of_batch, of_batch);
    execute format('alter table %s set schema %s', staged, (select relnamespace::regnamespace from pg_class where oid = target));
    execute format('alter table %s rename to %I', staged, called);
    execute format('alter table %s owner to %s', staged, (select relowner::regrole from pg_class where oid = target));
    execute format('alter table %s attach partition %s for values in (%s)', target, staged, of_batch);
    execute format('alter table %s drop constraint its_batch', staged);
end $$;

-- What follows was keyed by topic. It goes by the line now: another log of it, of whatever topic, is a newer incarnation.
create function is_replaced(stream integer) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select 1 from lockstep.stream s join lockstep.stream n on n.pipeline = s.pipeline
            and coalesce(n.first_topic, n.topic) = coalesce(s.first_topic, s.topic)
            and n.partition = s.partition and n.incarnation > s.incarnation
        where s.stream_id = stream)
$$;

-- Below this offset a log holds records that an older incarnation, or the pipeline that handed its table over, has read, or
-- copies of them; 0 where there is none.
create function read_before(stream integer) returns bigint language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
    its lockstep.stream := (select s from lockstep.stream s where s.stream_id = stream);
    is_renewed boolean := exists (
        select from lockstep.stream o where o.pipeline = its.pipeline and o.partition = its.partition
            and coalesce(o.first_topic, o.topic) = coalesce(its.first_topic, its.topic) and o.incarnation < its.incarnation);
begin
    return (
        select coalesce(min(i.start_offset), 0) from lockstep.stream i
        where i.pipeline = its.pipeline and i.topic = its.topic and i.partition = its.partition
            and i.incarnation = its.incarnation and case
            when is_renewed then exists (
                select from lockstep.stream o where o.pipeline = its.pipeline and o.partition = its.partition
                    and coalesce(o.first_topic, o.topic) = coalesce(its.first_topic, its.topic)
                    and o.incarnation < its.incarnation and (o.cluster_id, o.topic_id) = (its.cluster_id, its.topic_id))
              or exists (
                select from lockstep.decision d where d.pipeline = its.pipeline and d.kind = 'move'
                    and d.detail #>> '{to,topic_id}' = its.topic_id and d.detail #>> '{to,cluster_id}' = its.cluster_id)
            else exists (
                select from lockstep.decision d where d.pipeline = its.pipeline and d.kind = 'hand-over'
                    and lockstep.name_now(d.detail ->> 'to', d.decision_id) = its.pipeline
                    and (d.detail #>> array['positions', its.partition::text])::bigint = i.start_offset)
            end);
end $$;

-- Few pipelines have a partition that was recreated, or took a table over. Only their claims are compared.
create function guard_claimed_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    with doubtful as materialized (
        select a.stream_id, a.offsets, s.start_offset from added a join lockstep.stream s using (stream_id)
        where exists (
            select from lockstep.stream o where o.pipeline = s.pipeline and o.partition = s.partition
                and coalesce(o.first_topic, o.topic) = coalesce(s.first_topic, s.topic) and o.incarnation <> s.incarnation)
           or exists (select from lockstep.decision d where d.pipeline = s.pipeline and d.kind = 'hand-over'))
    select r.stream_id, r.offsets, r.start_offset, lockstep.is_replaced(r.stream_id) as replaced into wrong
    from doubtful r
    where lockstep.is_replaced(r.stream_id) or lower(r.offsets) < lockstep.read_before(r.stream_id) limit 1;
    if found and wrong.replaced then
        raise exception 'one_log: % of stream % cannot be read again: its partition has a newer incarnation',
            wrong.offsets, wrong.stream_id using errcode = '23514', constraint = 'one_log';
    elsif found then
        raise exception 'one_log: % of stream % begins before its start %: an older incarnation, or a former owner, has read it',
            wrong.offsets, wrong.stream_id, wrong.start_offset using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on claim referencing new table as added
    for each statement execute function guard_claimed_log();

create function guard_resolved_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, a.at into wrong from added a where lockstep.is_replaced(a.stream_id) limit 1;
    if found then
        raise exception 'one_log: % is no time of stream %: its partition has a newer incarnation', wrong.at, wrong.stream_id
            using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on boundary referencing new table as added
    for each statement execute function guard_resolved_log();

-- Losses and skips speak of the log that is there.
create function guard_decided_log() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.is_replaced(new.stream_id) then
        raise exception 'one_log: % of stream % is no % of today''s log: its partition has a newer incarnation',
            new.offsets, new.stream_id, new.kind using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on coverage
    for each row when (new.kind <> 'batch') execute function guard_decided_log();

-- A new incarnation frees what the older ones had claimed, and one incarnation is one log.
create function guard_incarnation() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.stream_id, o.stream_id as other, a.incarnation > o.incarnation as newer into wrong
    from added a join lockstep.stream o on o.pipeline = a.pipeline and o.partition = a.partition
        and coalesce(o.first_topic, o.topic) = coalesce(a.first_topic, a.topic)
    where (o.incarnation = a.incarnation and (o.cluster_id, o.topic_id) <> (a.cluster_id, a.topic_id))
       or o.incarnation > a.incarnation
       or (o.incarnation < a.incarnation and exists (select 1 from lockstep.claim k where k.stream_id = o.stream_id))
    limit 1;
    if found then
        raise exception 'one_log: stream % follows stream %, %', wrong.stream_id, wrong.other,
            case when wrong.newer then 'which a batch still claims' else 'which is of a newer or of another log' end
            using errcode = '23514', constraint = 'one_log';
    end if;
    return null;
end $$;
create trigger one_log after insert on stream referencing new table as added
    for each statement execute function guard_incarnation();

create function guard_fence() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'nonce_with_token: the nonce of batch % changes without its token', old.batch_id
        using errcode = '23514', constraint = 'nonce_with_token';
end $$;
create trigger nonce_with_token before update of nonce on batch
    for each row when (old.nonce is distinct from new.nonce and old.token = new.token) execute function guard_fence();

create function guard_timeline() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (
        select 1 from lockstep.attempt a
        where a.batch_id = new.batch_id and a.token = new.token and a.nonce is not distinct from new.nonce) then
        raise exception 'same_timeline: attempt % of batch % was opened in another timeline of the ledger',
            new.token, new.batch_id using errcode = '23514', constraint = 'same_timeline';
    end if;
    return new;
end $$;
create trigger same_timeline before insert on commit
    for each row execute function guard_timeline();
create trigger same_timeline before insert on delivery
    for each row execute function guard_timeline();

-- The name of an attempt's first staging table; the names of its other tables begin with it.
create function staging_name(of_batch bigint, of_token bigint, its_nonce uuid) returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select format('attempt_%s_%s', of_batch, of_token) || coalesce('_' || left(replace(its_nonce::text, '-', ''), 12), '')
$$;

-- Only the attempt's own tables become partitions.
create function guard_staged(staged regclass, of_batch bigint, of_token bigint) returns regclass
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select 1 from pg_catalog.pg_class c, lockstep.attempt a
        where c.oid = staged and a.batch_id = of_batch and a.token = of_token
          and starts_with(c.relname || '_', lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_')) then
        raise exception 'own_staging: attempt % of batch % has not staged %', of_token, of_batch, staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
    return staged;
end $$;

-- As before, and each feed of the ledger begins a timeline: the whole database was restored, whichever pipeline is named first.
create function pass_over(seen_token bigint, seen_batch bigint, seen_stream bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    room constant bigint := 1000;  -- for what nobody can see, and for who draws meanwhile
    each record;
begin
    if not exists (
        select from lockstep.decision d where d.kind = 'restored' and lockstep.is_of_this_transaction(d.xmin)) then
        raise exception 'passed_over_by_decision: no decision of this transaction says that the ledger was restored'
            using errcode = '23514', constraint = 'passed_over_by_decision';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('lockstep.pass_over', 0));
    for each in
        select s.*, nextval(s.sequence) as at from (values
            ('lockstep.token_seq', seen_token::numeric + room, 2::numeric ^ 40, 2::numeric ^ 62),
            (pg_get_serial_sequence('lockstep.batch', 'batch_id'), seen_batch::numeric + room, 2::numeric ^ 40, 2::numeric ^ 62),
            (pg_get_serial_sequence('lockstep.stream', 'stream_id'), seen_stream::numeric, 2::numeric ^ 24, 2::numeric ^ 30)
        ) as s (sequence, seen, reach, half)
        order by s.seen > s.half desc, s.seen - nextval(s.sequence) - s.reach desc  -- nothing is passed over before a refusal
    loop
        if each.seen > each.at + each.reach or each.seen > each.half then
            raise exception 'passed_over_within_reach: % would go from % to %: at most % numbers are passed over at once, up to %',
                each.sequence, each.at, each.seen, each.reach::bigint, each.half::bigint
                using errcode = '23514', constraint = 'passed_over_within_reach';
        end if;
        if each.seen > each.at then
            perform setval(each.sequence, each.seen::bigint);
        end if;
    end loop;
    -- in the order in which a commit takes them
    for each in select f.target from lockstep.feed f order by f.target collate "C" loop
        update lockstep.feed set timeline = gen_random_uuid() where target = each.target;
    end loop;
end $$;

-- Each session says which version of the ledger its code is made for; code from before migration 0019 says nothing.
create function guard_version() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    found int := (select max(m.version) from lockstep.migration m);
    made_for text := coalesce(nullif(current_setting('lockstep.ledger_version', true), ''), 'a version below 19');
begin
    if made_for <> found::text then
        raise exception 'one_version: the ledger is at version %, this code is made for %: %', found, made_for,
            case when made_for ~ '^\d+$' and made_for::numeric > found then 'run lockstep migrate'
                 else 'update lockstep on this machine' end
            using errcode = '23514', constraint = 'one_version';
    end if;
    return null;
end $$;
create trigger one_version before insert on batch
    for each statement execute function guard_version();
create trigger one_version before insert on request
    for each statement execute function guard_version();
create trigger one_version before insert on decision
    for each statement execute function guard_version();
create trigger one_version before insert on attempt
    for each statement execute function guard_version();
create trigger one_version before insert on verdict
    for each statement execute function guard_version();
create trigger one_version before insert on commit
    for each statement execute function guard_version();
create trigger one_version before insert on coverage
    for each statement execute function guard_version();

-- The partition of a batch that owns no offsets any more: it is empty, and it goes. Whoever reads the table is waited for as
-- long as the caller's lock_timeout says; a partition that holds a row, or several batches' rows, stays.
create function drop_replaced_partition(target regclass, part regclass) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp set row_security = off as $$
declare
    of_batch bigint := (select substring(pg_get_expr(c.relpartbound, c.oid) from $re$^FOR VALUES IN \('?(\d+)'?\)$re$)::bigint
        from pg_class c join pg_inherits i on i.inhrelid = c.oid where c.oid = part and i.inhparent = target);
    is_empty boolean;
begin
    if of_batch is null or not lockstep.is_own_target(target)
            or not exists (select from lockstep.batch b where b.batch_id = of_batch and b.state <> 'planned')
            or exists (select from lockstep.coverage c where c.batch_id = of_batch) then
        return false;
    end if;
    execute format('select not exists (select from %s)', part) into is_empty;
    if not is_empty then
        return false;
    end if;
    execute format('lock table only %s in access exclusive mode', target);
    execute format('lock table only %s in access exclusive mode', part);
    execute format('select not exists (select from %s)', part) into is_empty;
    if is_empty then
        execute format('drop table %s', part);
    end if;
    return is_empty;
end $$;

-- Executors hold the credentials of tasks: a task takes away coverage and claims, and moves a position, only where its own
-- batch has a claim, while the newest attempt of that batch is open and commits stream by stream.
create function guard_task() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    touched int8range;
    is_own boolean;
begin
    if tg_table_name = 'stream' then
        touched := int8range(old.position, new.position);
    else
        touched := old.offsets;
    end if;
    select exists (
        select from lockstep.claim k join lockstep.batch b using (batch_id)
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
        where k.stream_id = old.stream_id and b.state = 'planned' and a.state = 'open' and a.unit = 'stream'
          and case tg_table_name when 'coverage' then k.expects <> 'nothing' and k.offsets && touched
              else k.offsets = touched end) into is_own;
    if not is_own then
        raise exception 'own_range: a task may not change % of stream %: no open attempt that commits by stream claims it',
            tg_table_name, old.stream_id using errcode = '23514', constraint = 'own_range';
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    return new;
end $$;
create trigger own_range before delete on coverage
    for each row when (current_user = 'lockstep_partition'::name or pg_has_role(session_user, 'lockstep_partition'::name,
        'MEMBER') and not pg_has_role(session_user, 'lockstep_committer'::name, 'MEMBER') and not pg_has_role(session_user,
        'lockstep_planner'::name, 'MEMBER')) execute function guard_task();
create trigger own_range before delete on claim
    for each row when (current_user = 'lockstep_partition'::name or pg_has_role(session_user, 'lockstep_partition'::name,
        'MEMBER') and not pg_has_role(session_user, 'lockstep_committer'::name, 'MEMBER') and not pg_has_role(session_user,
        'lockstep_planner'::name, 'MEMBER')) execute function guard_task();
create trigger own_range before update of "position" on stream
    for each row when (current_user = 'lockstep_partition'::name or pg_has_role(session_user, 'lockstep_partition'::name,
        'MEMBER') and not pg_has_role(session_user, 'lockstep_committer'::name, 'MEMBER') and not pg_has_role(session_user,
        'lockstep_planner'::name, 'MEMBER')) execute function guard_task();

-- A commit publishes the contents that were staged. One look for each statement, not for each row.
create function guard_contents() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    where u.rows_digest is null or u.rejects_digest is null limit 1;
    if found then
        raise exception 'contents_known: stream % of batch % has no digest of its contents', wrong.stream_id, wrong.batch_id
            using errcode = '23514', constraint = 'contents_known';
    end if;
    select u.batch_id, u.stream_id into wrong from added a join lockstep.result u using (batch_id, token, stream_id)
    cross join lateral (
        select coalesce(pg_catalog.sum(c.rows_digest), 0) as rows, coalesce(pg_catalog.sum(c.rejects_digest), 0) as rejects
        from lockstep.content c where c.batch_id = u.batch_id and c.stream_id = u.stream_id) p
    cross join lateral (
        select coalesce(pg_catalog.sum(m.rows_digest), 0) as rows, coalesce(pg_catalog.sum(m.rejects_digest), 0) as rejects
        from lockstep.manifest m where m.batch_id = u.batch_id and m.token = u.token and m.stream_id = u.stream_id) s
    where (p.rows, p.rejects) <> (u.rows_digest, u.rejects_digest)
       or (u.quarantined = 0 and (s.rows, s.rejects) <> (u.rows_digest, u.rejects_digest))
    limit 1;
    if found then
        raise exception 'contents_unchanged: the contents of stream % of batch % are not those that were staged',
            wrong.stream_id, wrong.batch_id using errcode = '23514', constraint = 'contents_unchanged';
    end if;
    return null;
end $$;
create trigger contents_unchanged after insert on commit referencing new table as added
    for each statement execute function guard_contents();

-- Owners of one table name one another. Registrations of one table wait for each other. A rename leaves the owner the same.
create function guard_owner() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('lockstep.owner ' || new.store || ' ' || new.target, 0));
    select o.pipeline into other from lockstep.target_owner o
    where o.store = new.store and o.target = new.target and o.pipeline <> new.pipeline
      and (tg_op = 'INSERT' or o.pipeline <> old.pipeline)
      and not (o.pipeline = any(new.shared_with) and new.pipeline = any(o.shared_with)) limit 1;
    if found then
        raise exception 'owned_once: % belongs to %, and % and % do not both say that they share it',
            new.target, other.pipeline, new.pipeline, other.pipeline using errcode = '23514', constraint = 'owned_once';
    end if;
    return new;
end $$;
create trigger owned_once before insert or update on target_owner
    for each row execute function guard_owner();

-- The tables that a definition writes, with the store that they are in; files lie in a folder of the pipeline's name.
create function written_tables(document jsonb) returns table(store text, target text)
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select coalesce(document -> 'store' ->> 'name', ''), t #>> '{}'
    from jsonb_path_query(document, '$.target[*].table') t
    where coalesce(document -> 'store' ->> 'kind', 'Postgres') <> 'Files'
$$;

-- No commit into a table that belongs to other pipelines, whoever was its owner when the batch was planned.
create function guard_owned_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    foreign_table record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select d.pipeline, w.target into foreign_table
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.written_tables(d.document) w
    where exists (select 1 from lockstep.target_owner o where o.store = w.store and o.target = w.target)
      and not exists (
        select 1 from lockstep.target_owner o where o.store = w.store and o.target = w.target and o.pipeline = d.pipeline)
    limit 1;
    if found then
        raise exception 'commit_by_owner: % belongs to another pipeline than %', foreign_table.target, foreign_table.pipeline
            using errcode = '23514', constraint = 'commit_by_owner';
    end if;
    return null;
end $$;
create trigger commit_by_owner after insert on commit referencing new table as added
    for each statement execute function guard_owned_commit();

-- Who has committed into a table, as a ledger knows it that is older than the owners. A pipeline that has ended writes no more.
create view target_writer as
select distinct w.store, w.target, d.pipeline
from lockstep.definition d cross join lateral lockstep.written_tables(d.document) w
where exists (
    select 1 from lockstep.attempt a join lockstep.commit c using (batch_id, token) where a.definition_hash = d.definition_hash)
  and not exists (select 1 from lockstep.pipeline p where p.name = d.pipeline and p.forgotten_by is not null);

-- A deletion is not forgotten while an unfinished batch holds older records that it alone keeps dead. A replay of the deletion
-- itself takes it out and puts it back.
create function guard_tombstone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select 1 from lockstep.claim k
        where k.stream_id = old.stream_id and lower(k.offsets) <= old."offset" and upper(k.offsets) > old."offset") then
        return old;
    end if;
    if exists (
        select 1 from lockstep.claim k join lockstep.stream s using (stream_id)
        join lockstep.stream its on its.stream_id = old.stream_id and its.pipeline = s.pipeline
        where (k.stream_id = old.stream_id and upper(k.offsets) <= old."offset")
           or (coalesce(s.first_topic, s.topic) = coalesce(its.first_topic, its.topic) and s.epoch < its.epoch)) then
        raise exception 'dead_stay_dead: a batch under way reads records older than the deletion at offset % of stream %',
            old."offset", old.stream_id using errcode = '23514', constraint = 'dead_stay_dead';
    end if;
    return old;
end $$;
create trigger dead_stay_dead before delete on tombstone
    for each row execute function guard_tombstone();

-- The functions of the owner that work on a table touch only the owner's: partition keys and policies run code.
create function is_own_target(target regclass) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select lockstep.is_by_batch(target) and (
        select pg_has_role(current_user, c.relowner, 'USAGE') and c.relowner <> all (array[
            'lockstep_planner'::regrole, 'lockstep_stager'::regrole, 'lockstep_committer'::regrole,
            'lockstep_partition'::regrole, 'lockstep_reader'::regrole]::oid[])
        from pg_class c where c.oid = target)
$$;

create function guard_target(target regclass) returns void language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.is_own_target(target) is not true then
        raise exception 'own_target: % is no table of the owner''s that is partitioned by batch', target
            using errcode = '23514', constraint = 'own_target';
    end if;
end $$;

-- What is attached holds rows and nothing else: whatever its stager hung on it would run as the owner.
create function guard_plain(staged regclass, target regclass) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    if not exists (
        select from pg_class c where c.oid = staged and c.relkind = 'r' and not c.relrowsecurity and not c.relhasrules
          and not exists (select from pg_trigger t where t.tgrelid = c.oid)
          and not exists (select from pg_policy p where p.polrelid = c.oid)
          and not exists (select from pg_index i where i.indrelid = c.oid)
          and not exists (select from pg_statistic_ext x where x.stxrelid = c.oid)
          and not exists (select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent))
          and not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype <> 'n')
          and not exists (select from pg_attrdef d where d.adrelid = c.oid)
          and not exists (
            select from pg_attribute a join pg_type y on y.oid = a.atttypid
            where a.attrelid = c.oid and a.attnum > 0 and y.typnamespace <> 'pg_catalog'::regnamespace and not exists (
                select from pg_attribute t
                where t.attrelid = target and t.attname = a.attname and t.atttypid = a.atttypid))) then
        raise exception 'own_staging: % is more than a table of rows', staged
            using errcode = '23514', constraint = 'own_staging';
    end if;
end $$;

-- The login, its address and its program are the server's knowledge, whatever the statement says. The user of the operating
-- system is the client's word: the code asks the kernel for it, not the environment.
create function record_session() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.login := session_user;
    new.client := inet_client_addr();
    new.program := nullif(current_setting('application_name'), '');
    new.os_user := nullif(current_setting('lockstep.os_user', true), '');
    return new;
end $$;
create trigger recorded_session before insert on decision
    for each row execute function record_session();
create trigger recorded_session before insert on request
    for each row execute function record_session();

-- The record of a commit names the process that ran it. Links from before migration 0090 have `form` 1: a record without `ran`.
create view committed_record as
select c.batch_id, c.stream_id, b.pipeline, b.state, c.at, jsonb_build_object(
    'record', 'commit', 'pipeline', coalesce((
        select n.former from lockstep.renaming n
        where n.pipeline = b.pipeline and n.last_batch >= b.batch_id order by n.last_batch, n.decision_id limit 1), b.pipeline),
    'batch', b.batch_id, 'lane', b.lane,
    'cluster_id', s.cluster_id, 'topic', s.topic, 'topic_id', s.topic_id, 'partition', s.partition,
    'stream', s.stream_id, 'from_offset', lower(r.offsets), 'until_offset', upper(r.offsets),
    'attempt', c.token, 'nonce', c.nonce, 'definition', c.definition_hash,
    'ran', jsonb_build_object('owner', a.owner, 'dag', a.dag_id, 'dag_run', a.dag_run_id, 'task', a.task_id,
        'map_index', a.map_index, 'task_instance', a.task_instance_id, 'try', a.try_number),
    'delivered', u.delivered, 'written', u.written, 'filtered', u.filtered, 'rejected', u.rejected, 'rows', u.rows,
    'offsets_digest', u.digest_sum::text || ':' || u.digest_squares::text,
    'rows_digest', u.rows_digest::text, 'rejects_digest', u.rejects_digest::text,
    'targets', coalesce(t.targets, '[]'), 'suite', v.suite, 'passed', v.success,
    'verdict', coalesce(v.erased_digest, encode(sha256(convert_to(v.result::text, 'UTF8')), 'hex')),
    'at', to_char(c.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from commit c
join batch b on b.batch_id = c.batch_id
join stream s on s.stream_id = c.stream_id
join batch_range r on r.batch_id = c.batch_id and r.stream_id = c.stream_id
join attempt a on a.batch_id = c.batch_id and a.token = c.token
join result u on u.batch_id = c.batch_id and u.token = c.token and u.stream_id = c.stream_id
left join verdict v on v.batch_id = c.batch_id and v.token = c.token
left join lateral (
    select jsonb_agg(jsonb_build_object(
        'place', n.place, 'target', h.target, 'rows_digest', n.rows_digest::text,
        'rejects_digest', n.rejects_digest::text, 'target_digest', n.target_digest::text) order by n.place) as targets
    from content n left join shape h using (shape_id)
    where n.batch_id = c.batch_id and n.stream_id = c.stream_id) t on true;

create view decided_record as
select d.decision_id, d.pipeline, d.at, jsonb_build_object(
    'record', 'decision', 'pipeline', coalesce((
        select n.former from lockstep.renaming n
        where n.pipeline = d.pipeline and n.decision_id > d.decision_id order by n.decision_id limit 1), d.pipeline),
    'decision', d.decision_id, 'kind', d.kind, 'who', d.who, 'why', d.why,
    'login', d.login, 'client', d.client, 'program', d.program, 'os_user', d.os_user, 'detail', d.detail, 'at', to_char(d.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from decision d;

create function note_commits() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.unsealed (pipeline, batch_id, stream_id)
    select b.pipeline, a.batch_id, a.stream_id from added a join lockstep.batch b using (batch_id);
    return null;
end $$;
create trigger noted_for_the_chain after insert on commit referencing new table as added
    for each statement execute function note_commits();

create function note_decisions() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.unsealed (pipeline, decision_id) select a.pipeline, a.decision_id from added a;
    return null;
end $$;
create trigger noted_for_the_chain after insert on decision referencing new table as added
    for each statement execute function note_decisions();

-- Links what waits, the oldest first and at most so many; returns how many. A batch that is not closed waits: tasks still
-- commit ranges of it. Only this function writes links: no role may. Its joins are written in the order that suits them, and
-- planned once: a search for another order costs more than the work.
create function seal(of_pipeline text, most integer) returns integer
    language plpgsql security definer set join_collapse_limit = 1 set plan_cache_mode = force_generic_plan
    set search_path = pg_catalog, pg_temp as $$
declare
    last_number bigint;
    last_digest text;
    waits record;
    links int := 0;
    places tid[];
    batches bigint[];
    streams int[];
    decisions bigint[];
    requests bigint[];
    ledgers uuid[];
    digests text[];
begin
    perform from lockstep.pipeline where name = of_pipeline for no key update;
    select number, digest into last_number, last_digest
    from lockstep.link where pipeline = of_pipeline order by number desc limit 1;
    if not found then
        last_number := 0;
        last_digest := '';
    end if;
    for waits in
        select w.ctid as place, w.batch_id, w.stream_id, w.decision_id, w.request_id, w.ledger_id,
            case
                when w.decision_id is not null
                    then (select r.record from lockstep.decided_record r where r.decision_id = w.decision_id)
                when w.request_id is not null
                    then (select r.record from lockstep.requested_record r where r.request_id = w.request_id)
                when w.ledger_id is not null
                    then (select r.record from lockstep.ledger_record r where r.ledger_id = w.ledger_id)
                else (select r.record from lockstep.committed_record r where r.batch_id = w.batch_id and r.stream_id = w.stream_id)
            end as record
        from lockstep.unsealed w
        left join lockstep.commit c on c.batch_id = w.batch_id and c.stream_id = w.stream_id
        left join lockstep.batch b on b.batch_id = w.batch_id
        left join lockstep.decision d on d.decision_id = w.decision_id
        left join lockstep.request q on q.request_id = w.request_id
        where w.pipeline = of_pipeline
          and (num_nonnulls(w.decision_id, w.request_id, w.ledger_id) > 0 or b.state <> 'planned')
        order by w.ledger_id is null, coalesce(c.at, d.at, q.opened_at), w.batch_id, w.stream_id, w.decision_id, w.request_id
        limit most
    loop
        if waits.record is null then
            raise exception 'batch %, stream %, decision %, request %: there is nothing to seal',
                waits.batch_id, waits.stream_id, waits.decision_id, waits.request_id using errcode = 'P0002';
        end if;
        last_digest := encode(sha256(convert_to(last_digest || e'\n' || waits.record, 'UTF8')), 'hex');
        links := links + 1;
        places[links] := waits.place;
        batches[links] := waits.batch_id;
        streams[links] := waits.stream_id;
        decisions[links] := waits.decision_id;
        requests[links] := waits.request_id;
        ledgers[links] := waits.ledger_id;
        digests[links] := last_digest;
    end loop;
    insert into lockstep.link (pipeline, number, batch_id, stream_id, decision_id, request_id, ledger_id, digest)
    select of_pipeline, last_number + n.place, n.batch_id, n.stream_id, n.decision_id, n.request_id, n.ledger_id, n.digest
    from unnest(batches, streams, decisions, requests, ledgers, digests)
        with ordinality n (batch_id, stream_id, decision_id, request_id, ledger_id, digest, place);
    delete from lockstep.unsealed where ctid = any (places);
    return links;
end $$;

create function key_digest(salt bytea, key bytea) returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select encode(sha256(salt || key), 'hex')
$$;

-- As before, with the changes that lost a row. An erasure without such changes keeps its digest.
create function erased_digest(of_erasure bigint) returns text language sql stable set search_path = pg_catalog, pg_temp as $$
    select encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', x.relation, x.target, x.batch_id, x.stream_id, x."offset",
        x.rows, coalesce(x.digest::text, '-')), e'\n'
        order by x.relation collate "C", x.target collate "C", x.batch_id, x.stream_id, x."offset"), '')
        || (select coalesce(string_agg(e'\n' || b.change_set_id || ' ' || b.ordinal, '' order by b.change_set_id, b.ordinal), '')
            from lockstep.blank_change b where b.erasure_id = of_erasure), 'UTF8')), 'hex')
    from lockstep.erased x where x.erasure_id = of_erasure
$$;

create function erasure_decision(of_erasure bigint) returns bigint
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select min(d.decision_id) from lockstep.decision d join lockstep.erasure e using (pipeline)
    where e.erasure_id = of_erasure and d.kind = 'erase' and d.detail ->> 'erasure' = of_erasure::text
$$;

-- No erasure without the decision that says what it took out, in one transaction.
create function guard_erasure() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (
        select from lockstep.decision d
        where d.decision_id = lockstep.erasure_decision(new.erasure_id)
          and d.detail ->> 'erased' = lockstep.erased_digest(new.erasure_id) and d.detail ->> 'key' = new.digest) then
        raise exception 'erasure_is_decided: no decision says what erasure % took out', new.erasure_id
            using errcode = '23514', constraint = 'erasure_is_decided';
    end if;
    return null;
end $$;
create constraint trigger erasure_is_decided after insert on erasure
    deferrable initially deferred for each row execute function guard_erasure();

-- What was erased is recorded while the decision is still open, and never later.
create function guard_undecided(of_erasure bigint) returns void
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if lockstep.erasure_decision(of_erasure) is not null
            or not exists (select from lockstep.erasure where erasure_id = of_erasure) then
        raise exception 'erased_once: erasure % is decided, or is not there', of_erasure
            using errcode = '23514', constraint = 'erased_once';
    end if;
end $$;

create function guard_erased() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform lockstep.guard_undecided(a.erasure_id) from (select distinct erasure_id from added) a;
    return null;
end $$;
create trigger erased_once after insert on erased referencing new table as added
    for each statement execute function guard_erased();
create trigger erased_once after insert on erasure_bound referencing new table as added
    for each statement execute function guard_erased();
create trigger erased_once after insert on blank_change referencing new table as added
    for each statement execute function guard_erased();

-- An attempt that was opened before an erasure may have staged what was erased.
create function guard_erased_key() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    early record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.batch_id, a.token into early
    from added a join lockstep.batch b using (batch_id)
    where exists (select from lockstep.erasure e where e.pipeline = b.pipeline and e.token > a.token) limit 1;
    if found then
        raise exception 'erased_stays_out: attempt % of batch % was opened before a key of its pipeline was erased',
            early.token, early.batch_id using errcode = '23514', constraint = 'erased_stays_out';
    end if;
    return null;
end $$;
create trigger erased_stays_out after insert on commit referencing new table as added
    for each statement execute function guard_erased_key();

create function reject_digest(stream integer, at_offset bigint, stamp timestamptz, key bytea, value bytea, headers text, reason text) returns numeric
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select hashint8extended(hash_record_extended(row(stream, at_offset, stamp, key, value,
        headers collate "C", reason collate "C"), 0), -1)::numeric
$$;

-- Rejects older than the newest definition keeps them lose their bytes, at most so many; returns how many.
create function empty_old_rejects(of_pipeline text, most integer) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    days int := (
        select (d.document ->> 'reject_retention')::int from lockstep.batch b
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token join lockstep.definition d using (definition_hash)
        where b.batch_id = (
            select batch_id from lockstep.batch where pipeline = of_pipeline and state = 'committed' order by batch_id desc limit 1));
    emptied int;
begin
    if days is null then
        return 0;
    end if;
    update lockstep.reject r set key = null, value = null, headers = null, emptied_at = clock_timestamp(),
        removed_digest =
            lockstep.reject_digest(r.stream_id, r."offset", r.timestamp, r.key, r.value, r.headers::text, r.reason)
            - lockstep.reject_digest(r.stream_id, r."offset", r.timestamp, null, null, null, r.reason)
    from (
        select j.stream_id, j."offset" from lockstep.reject j
        join lockstep.stream s using (stream_id) join lockstep.commit c using (batch_id, stream_id)
        where s.pipeline = of_pipeline and j.emptied_at is null and c.at < clock_timestamp() - make_interval(days => days)
        order by j.stream_id, j."offset" limit most) old
    where r.stream_id = old.stream_id and r."offset" = old."offset" and r.emptied_at is null;
    get diagnostics emptied = row_count;
    return emptied;
end $$;

-- An erasure empties the rejects that hold one of these byte strings; a reason that does is replaced, too.
create function erase_rejects(of_erasure bigint, needles bytea[]) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    emptied int;
begin
    perform lockstep.guard_undecided(of_erasure);
    with held as (
        select j.*, exists (select from unnest(needles) n where position(n in convert_to(j.reason, 'UTF8')) > 0) as told
        from lockstep.erasure e join lockstep.stream s on s.pipeline = any(lockstep.line_of(e.pipeline))
        join lockstep.reject j using (stream_id)
        where e.erasure_id = of_erasure and exists (
            select from unnest(needles) n
            where position(n in j.key) > 0 or position(n in j.value) > 0
               or position(n in convert_to(j.headers::text, 'UTF8')) > 0 or position(n in convert_to(j.reason, 'UTF8')) > 0)),
    made as (
        select h.*, case when h.told then 'erased' else h.reason end as kept from held h),
    gone as (
        update lockstep.reject r set key = null, value = null, headers = null, reason = m.kept,
            emptied_at = coalesce(r.emptied_at, clock_timestamp()),
            removed_digest = coalesce(r.removed_digest, 0)
                + lockstep.reject_digest(m.stream_id, m."offset", m.timestamp, m.key, m.value, m.headers::text, m.reason)
                - lockstep.reject_digest(m.stream_id, m."offset", m.timestamp, null, null, null, m.kept)
        from made m where r.stream_id = m.stream_id and r."offset" = m."offset"
        returning r.batch_id, r.stream_id, r."offset")
    insert into lockstep.erased (erasure_id, relation, target, batch_id, stream_id, "offset", rows)
    select of_erasure, 'lockstep.reject', 'lockstep.reject', g.batch_id, g.stream_id, g."offset", 1 from gone g;
    get diagnostics emptied = row_count;
    return emptied;
end $$;

-- Errors, verdicts and previews of the pipeline that match the pattern lose what they say; returns how many.
create function erase_said(of_erasure bigint, pattern text) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    errors int;
    verdicts int;
    previews int;
    line text[] := (select lockstep.line_of(pipeline) from lockstep.erasure where erasure_id = of_erasure);
begin
    perform lockstep.guard_undecided(of_erasure);
    update lockstep.attempt a set error = 'erased' from lockstep.batch b
    where b.batch_id = a.batch_id and b.pipeline = any(line) and a.error ~ pattern;
    get diagnostics errors = row_count;
    update lockstep.verdict v
    set erased_digest = coalesce(v.erased_digest, encode(sha256(convert_to(v.result::text, 'UTF8')), 'hex')),
        result = jsonb_build_object('success', v.success, 'refusals', '[]'::jsonb, 'erased', true,
            'quarantined', coalesce(v.result -> 'quarantined', '0'))
    from lockstep.batch b where b.batch_id = v.batch_id and b.pipeline = any(line) and v.result::text ~ pattern;
    get diagnostics verdicts = row_count;
    update lockstep.rehearsal h
    set erased_digest = coalesce(h.erased_digest, encode(sha256(convert_to(h.difference::text, 'UTF8')), 'hex')),
        difference = jsonb_set(h.difference, '{samples}', '[]')
    from lockstep.request r
    where r.request_id = h.request_id and r.pipeline = any(line) and h.difference -> 'samples' <> '[]'
      and (h.difference -> 'samples')::text ~ pattern;
    get diagnostics previews = row_count;
    return errors + verdicts + previews;
end $$;

-- No pipeline ends, or goes on again, without its newest decision about that. One that ends has nothing under way.
create function guard_forgetting() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest record;
    kept text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if new.forgotten_by is not distinct from old.forgotten_by then
        return new;
    end if;
    select d.decision_id, d.kind into newest from lockstep.decision d
    where d.pipeline = new.name and d.kind in ('forget', 'remember') order by d.decision_id desc limit 1;
    if not coalesce(case when new.forgotten_by is null then newest.kind = 'remember'
            else old.forgotten_by is null and newest.kind = 'forget' and newest.decision_id = new.forgotten_by end, false) then
        raise exception 'forgotten_is_decided: no decision says that % ends, or that it goes on', new.name
            using errcode = '23514', constraint = 'forgotten_is_decided';
    end if;
    kept := case when new.forgotten_by is null then null
        when exists (select from lockstep.batch b where b.pipeline = new.name and b.state = 'planned') then 'a batch under way'
        when exists (select from lockstep.request r where r.pipeline = new.name and r.closed_at is null) then 'an open request'
        when exists (select from lockstep.target_owner o where o.pipeline = new.name) then 'a table' end;
    if kept is not null then
        raise exception 'forgotten_is_idle: % has % and cannot be forgotten', new.name, kept
            using errcode = '23514', constraint = 'forgotten_is_idle';
    end if;
    return new;
end $$;
create trigger forgotten_is_decided before insert or update of forgotten_by on pipeline
    for each row execute function guard_forgetting();

-- Nothing begins under the name of a pipeline that has ended. Its row is shared until the COMMIT, so it does not end meanwhile.
create function guard_forgotten() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    each record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    for each in
        select p.name, p.forgotten_by from lockstep.pipeline p
        where p.name in (select a.pipeline from added a) order by p.name for share
    loop
        if each.forgotten_by is not null then
            raise exception 'forgotten_rests: % was forgotten by decision %', each.name, each.forgotten_by
                using errcode = '23514', constraint = 'forgotten_rests';
        end if;
    end loop;
    return null;
end $$;
create trigger forgotten_rests after insert on batch referencing new table as added
    for each statement execute function guard_forgotten();
create trigger forgotten_rests after insert on request referencing new table as added
    for each statement execute function guard_forgotten();
create trigger forgotten_rests after insert on stream referencing new table as added
    for each statement execute function guard_forgotten();
create trigger forgotten_rests after insert on target_owner referencing new table as added
    for each statement execute function guard_forgotten();

-- What a pipeline is called now that had this name when a decision was made.
create function name_now(name_then text, of_decision bigint) returns text
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select coalesce((
        select r.pipeline from lockstep.renaming r
        where r.former = name_then and r.decision_id > of_decision order by r.decision_id limit 1), name_then)
$$;

-- A name that a pipeline once had leads to that pipeline, and to no other one. Looked at behind the insert, which may have
-- waited for the rename.
create function guard_former_name() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    its text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select r.pipeline into its from lockstep.renaming r
    where r.former = new.name and r.pipeline <> new.name and (tg_op = 'INSERT' or r.pipeline <> old.name)
    order by r.decision_id desc limit 1;
    if its is not null then
        raise exception 'former_name_rests: % is a former name of %', new.name, its
            using errcode = '23514', constraint = 'former_name_rests';
    end if;
    return null;
end $$;
create trigger former_name_rests after insert or update of name on pipeline
    for each row execute function guard_former_name();

-- The one way to another name: no role may write it. Whoever has planned, or commits, under the old name is waited for.
create function rename_pipeline(old_name text, new_name text, who text, why text, more jsonb) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    decided bigint;
    kept text;
begin
    perform from lockstep.pipeline p where p.name = old_name for update;
    kept := case when exists (select from lockstep.batch b where b.pipeline = old_name and b.state = 'planned') then 'a batch under way'
        when exists (select from lockstep.target_owner o where o.pipeline = old_name and o.shared_with <> '{}') then 'a shared table' end;
    if kept is not null then
        raise exception 'renamed_is_idle: % has % and cannot be renamed', old_name, kept
            using errcode = '23514', constraint = 'renamed_is_idle';
    end if;
    update lockstep.pipeline set name = new_name where name = old_name;
    insert into lockstep.decision (pipeline, kind, who, why, detail)
    values (new_name, 'rename', who, why, more || jsonb_build_object('from', old_name, 'to', new_name))
    returning decision_id into decided;
    insert into lockstep.renaming (decision_id, pipeline, former, last_batch)
    select decided, new_name, old_name, coalesce(max(b.batch_id), 0) from lockstep.batch b where b.pipeline = new_name;
    return decided;
end $$;

-- A pipeline, those that have handed a table over to it, and those that gave one of its tables free: their rows are its own
-- now, and so are their erasures.
create function line_of(of_pipeline text) returns text[] language sql stable set search_path = pg_catalog, pg_temp as $$
    with recursive gave (giver, receiver) as not materialized (
        select d.pipeline, lockstep.name_now(d.detail ->> 'to', d.decision_id) from lockstep.decision d
        where d.kind = 'hand-over' and d.pipeline <> lockstep.name_now(d.detail ->> 'to', d.decision_id)
        union all
        select d.pipeline, o.pipeline from lockstep.decision d
        cross join lateral jsonb_to_recordset(d.detail -> 'tables') t (store text, target text)
        join lockstep.target_owner o using (store, target)
        where d.kind = 'forget' and d.pipeline <> o.pipeline),
    line (name) as (select of_pipeline union select g.giver from line l join gave g on g.receiver = l.name)
    select array_agg(name) from line
$$;

-- An hour is told once, and again for a change only, so revisions have no gap. A change under way is waited for: what it has
-- not found told is told behind it.
create function guard_telling() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('lockstep.hours ' || new.pipeline, 0));
    if new.revision <> 1 and not exists (
            select from lockstep.hour_changed c
            where c.pipeline = new.pipeline and c.until = new.until and c.revision = new.revision - 1) then
        raise exception 'told_for_a_change: nothing has changed in the hour until % of % after revision %',
            new.until, new.pipeline, new.revision - 1 using errcode = '23514', constraint = 'told_for_a_change';
    end if;
    return new;
end $$;
create trigger told_for_a_change before insert on hour_told
    for each row execute function guard_telling();

-- Notes the hours whose offsets changed, where they were told. Whoever is telling one is waited for.
create function note_change(streams integer[], ranges int8range[], of_batch bigint, of_erasure bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    perform pg_advisory_xact_lock_shared(hashtextextended('lockstep.hours ' || p.pipeline, 0)) from (
        select distinct s.pipeline from lockstep.stream s where s.stream_id = any(streams) order by 1) p;
    insert into lockstep.hour_changed (pipeline, until, revision, batch_id, erasure_id)
    select o.pipeline, o.until, max(t.revision), of_batch, of_erasure
    from unnest(streams, ranges) as w (stream_id, offsets)
    cross join lateral (  -- hours tile: behind the first that reaches the end there is nothing to look for
        select min(l.until_offset) as last from lockstep.hour_offsets l
        where l.stream_id = w.stream_id and l.until_offset >= upper(w.offsets)) e
    join lockstep.hour_offsets o on o.stream_id = w.stream_id and o.from_offset < o.until_offset
        and o.from_offset < upper(w.offsets) and o.until_offset > lower(w.offsets)
        and o.until_offset <= coalesce(e.last, upper(w.offsets))
    join lockstep.hour_told t on t.pipeline = o.pipeline and t.until = o.until
    group by o.pipeline, o.until order by o.pipeline, o.until
    on conflict do nothing;
end $$;

create function note_replaced() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform lockstep.note_change(array_agg(r.stream_id), array_agg(r.offsets), r.batch_id, null)
    from added a join lockstep.batch b using (batch_id) join lockstep.batch_range r using (batch_id, stream_id)
    where b.lane <> 'live' group by r.batch_id order by r.batch_id;
    return null;
end $$;
create trigger change_is_noted after insert on commit referencing new table as added
    for each statement execute function note_replaced();

-- A reject that loses its bytes is no row of an hour.
create function note_erased() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform lockstep.note_change(array_agg(a.stream_id), array_agg(int8range(a."offset", a."offset" + 1)), null, a.erasure_id)
    from (
        select distinct x.erasure_id, x.stream_id, x."offset" from added x where x.relation <> 'lockstep.reject') a
    group by a.erasure_id order by a.erasure_id;
    return null;
end $$;
create trigger change_is_noted after insert on erased referencing new table as added
    for each statement execute function note_erased();

-- The ledger itself writes the offsets down: where the open streams stand. A commit under way is waited for, and no plan begins
-- meanwhile. Locks are taken in the one order: pipeline, batches, streams.
create function begin_promotion() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stands jsonb;
    newest record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform from lockstep.pipeline p where p.name = new.pipeline for no key update;
    perform from lockstep.batch b where b.pipeline = new.pipeline and b.state = 'planned' order by b.batch_id for no key update;
    select coalesce(jsonb_agg(jsonb_build_object(
        'topic', s.topic, 'partition', s.partition, 'stream', s.stream_id, 'offset', s.position) order by s.stream_id), '[]')
    into stands from (
        select t.topic, t.partition, t.stream_id, t.position from lockstep.stream t
        where t.pipeline = new.pipeline and t.retired_at is null order by t.stream_id for no key update) s;
    new.detail := new.detail || jsonb_build_object('from', stands);
    if new.kind = 'withdraw' then
        select d.decision_id, d.kind into newest from lockstep.decision d
        where d.pipeline = new.pipeline and d.kind in ('promote', 'withdraw') order by d.decision_id desc limit 1;
        if newest.kind is distinct from 'promote' then
            raise exception 'withdrawn_is_promoted: no transform of % is promoted', new.pipeline
                using errcode = '23514', constraint = 'withdrawn_is_promoted';
        end if;
        new.detail := new.detail || jsonb_build_object('promotion', newest.decision_id);
    end if;
    return new;
end $$;
create trigger withdrawn_is_promoted before insert on decision
    for each row when (new.kind in ('promote', 'withdraw')) execute function begin_promotion();

-- While a transform is promoted, no other one commits, whatever the lane. A commit and a promotion wait for each other at the
-- batch's row.
create function guard_promoted() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.batch_id, n.decision_id into other
    from (select distinct batch_id, definition_hash from added) a
    join lockstep.batch b using (batch_id) join lockstep.definition f using (definition_hash)
    cross join lateral (
        select d.decision_id, d.kind, d.detail ->> 'transform' as transform from lockstep.decision d
        where d.pipeline = b.pipeline and d.kind in ('promote', 'withdraw') order by d.decision_id desc limit 1) n
    where n.kind = 'promote'
      and n.transform is distinct from encode(sha256(convert_to(f.document ->> 'transform', 'UTF8')), 'hex') limit 1;
    if found then
        raise exception 'promoted_alone: batch % is not made by the transform that decision % promotes',
            other.batch_id, other.decision_id using errcode = '23514', constraint = 'promoted_alone';
    end if;
    return null;
end $$;
create trigger promoted_alone after insert on commit referencing new table as added
    for each statement execute function guard_promoted();

-- A feed sends for good, or never.
create function guard_feed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if (new.target, new.name, new.key, new.began_empty, new.sends) is distinct from (old.target, old.name, old.key, old.began_empty, old.sends)
            or new.kept_from < old.kept_from
            or (new.last_seq, new.next_number) is distinct from (old.last_seq, old.next_number) and not exists (
                select 1 from lockstep.change_set c where c.target = new.target and c.seq = new.last_seq
                  and c.seq = old.last_seq + 1 and c.first_number = old.next_number
                  and c.first_number + c.changes = new.next_number and c.xid = pg_current_xact_id()) then
        raise exception 'feed_by_one: the feed of % goes from seq % to %, from number % to %',
            new.target, old.last_seq, new.last_seq, old.next_number, new.next_number
            using errcode = '23514', constraint = 'feed_by_one';
    end if;
    return new;
end $$;
create trigger feed_by_one before update on feed
    for each row execute function guard_feed();

-- A set is numbered as before. What was sent stays: nothing that commits takes it back.
create function guard_numbering() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    counted record;
    taken_back record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'INSERT' then
        if new.seq is null and new.xid = pg_current_xact_id() then
            return new;
        end if;
    else
        select * into of_feed from lockstep.feed f where f.target = new.target;
        if old.seq is null and old.xid = pg_current_xact_id()
                and (new.seq, new.first_number) = (of_feed.last_seq + 1, of_feed.next_number)
                and (new.change_set_id, new.target, new.kind, new.batch_id, new.stream_id, new.why, new.at, new.xid)
                    is not distinct from
                    (old.change_set_id, old.target, old.kind, old.batch_id, old.stream_id, old.why, old.at, old.xid) then
            execute format('select count(*) filter (where _change <> ''before'') as changes, max(_ordinal_in_set) as last
                from lockstep_feed.%I where _change_set = $1', of_feed.name) into counted using new.change_set_id;
            if counted.changes <> new.changes or coalesce(counted.last + 1, 0) <> new.changes then
                raise exception 'changes_counted: % changes of % are there, % were told',
                    counted.changes, new.target, new.changes using errcode = '23514', constraint = 'changes_counted';
            end if;
            select * into taken_back from lockstep.unsaid(new.change_set_id) where of_feed.sends;
            if taken_back.changed + taken_back.gone + taken_back.again > 0 or of_feed.sends and new.kind <> 'batch' then
                raise exception 'sent_stays: what was sent of % stays: % rows would be others, % would be gone, % would be sent again',
                    new.target, taken_back.changed, taken_back.gone, taken_back.again
                    using errcode = '23514', constraint = 'sent_stays';
            end if;
            return new;
        end if;
    end if;
    raise exception 'numbered_once: set % of % is not numbered by its own transaction, once and in turn',
        new.change_set_id, new.target using errcode = '23514', constraint = 'numbered_once';
end $$;
create trigger numbered_once before insert or update on change_set
    for each row execute function guard_numbering();

-- What a replay or a person did to each key, in one change: the first image before and the last one after. A key whose values
-- came back as they were has not changed.
create function net_set(of_set bigint) returns void
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

-- Gives a set the feed's next numbers. From here on the feed is this transaction's, until its COMMIT.
create function number_set(of_set bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    told bigint;
begin
    select f.* into of_feed from lockstep.feed f
    where f.target = (select c.target from lockstep.change_set c where c.change_set_id = of_set) for no key update;
    execute format('select coalesce(max(_ordinal_in_set) + 1, 0) from lockstep_feed.%I where _change_set = $1', of_feed.name)
        into told using of_set;
    update lockstep.change_set set seq = of_feed.last_seq + 1, first_number = of_feed.next_number, changes = told
    where change_set_id = of_set;
    update lockstep.feed set last_seq = of_feed.last_seq + 1, next_number = of_feed.next_number + told
    where target = of_feed.target;
end $$;

-- No set is committed without its number. A person's is numbered here, at the COMMIT.
create function guard_numbered() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_set lockstep.change_set;
    of_feed lockstep.feed;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select * into of_set from lockstep.change_set c where c.change_set_id = new.change_set_id;
    if of_set.kind = 'manual' and of_set.seq is null then
        perform lockstep.net_set(new.change_set_id);
        perform lockstep.number_set(new.change_set_id);
        return null;
    end if;
    select * into of_feed from lockstep.feed f where f.target = new.target;
    if of_set.seq is null or of_feed.last_seq < of_set.seq
            or of_feed.next_number < of_set.first_number + of_set.changes then
        raise exception 'change_set_is_numbered: set % of % has no number of the feed''s', new.change_set_id, new.target
            using errcode = '23514', constraint = 'change_set_is_numbered';
    end if;
    return null;
end $$;
create constraint trigger change_set_is_numbered after insert on change_set
    deferrable initially deferred for each row execute function guard_numbered();

-- A commit tells each feed of its pipeline's tables what it did, were it nothing, in its own transaction.
create function guard_told() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    untold record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.batch_id, f.target into untold
    from added a join lockstep.batch b using (batch_id)
    join lockstep.target_owner o on o.pipeline = b.pipeline and o.store = ''
    join lockstep.feed f on f.target = o.target
    where not exists (
        select 1 from lockstep.change_set c where c.target = f.target and c.batch_id = a.batch_id
          and (c.stream_id is null or c.stream_id = a.stream_id) and c.xid = pg_current_xact_id())
    limit 1;
    if found then
        raise exception 'commit_is_told: batch % has not told the feed of % what it did', untold.batch_id, untold.target
            using errcode = '23514', constraint = 'commit_is_told';
    end if;
    return null;
end $$;
create trigger commit_is_told after insert on commit referencing new table as added
    for each statement execute function guard_told();

-- Images as before. Upkeep alone takes rows away that were sent.
create function capture() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    of_set lockstep.change_set;
    base bigint;
    names text;
    keys text;
    moved boolean;
begin
    if tg_relid is distinct from to_regclass(tg_argv[0]) then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select * into of_feed from lockstep.feed f where f.target = tg_argv[0];
    select * into of_set from lockstep.change_set c
    where c.target = tg_argv[0] and c.xid = pg_current_xact_id() and c.seq is null;
    if of_set.change_set_id is null and tg_op = 'DELETE' and exists (
            select from lockstep.trimmed t where t.target = tg_argv[0] and t.xmin = pg_current_xact_id()::xid) then
        return null;  -- upkeep trims rows with the images of their changes
    end if;
    if of_set.change_set_id is null or tg_op = 'TRUNCATE' then
        raise exception 'only_by_commit: % has a feed, and % is no change that it is told of', tg_argv[0], lower(tg_op)
            using errcode = '23514', constraint = 'only_by_commit',
            hint = format('select lockstep.manual_change(%L, ''why'')', tg_argv[0]);
    end if;
    select string_agg(format('%I', attname), ', ' order by attnum) into names
    from pg_attribute where attrelid = tg_relid and attnum > 0 and not attisdropped;
    select string_agg(format('%I', k), ', ' order by ordinality) into keys
    from unnest(of_feed.key) with ordinality u (k, ordinality);
    execute format('select coalesce(max(_ordinal_in_set) + 1, 0) from lockstep_feed.%I where _change_set = $1', of_feed.name)
        into base using of_set.change_set_id;
    if tg_op = 'UPDATE' and of_set.kind = 'manual' then
        execute format('select exists (select %1$s from old_rows except select %1$s from new_rows)', keys) into moved;
        if moved then
            raise exception 'key_stays: a row of % gets another key (%); delete it and insert another', tg_argv[0], keys
                using errcode = '23514', constraint = 'key_stays';
        end if;
    end if;
    if tg_op in ('DELETE', 'UPDATE') then
        execute format('insert into lockstep_feed.%1$I (%2$s, _change, _change_set, _ordinal_in_set)
            select %2$s, $1, $2, $3 + row_number() over (order by %3$s) - 1 from old_rows', of_feed.name, names, keys)
            using case tg_op when 'DELETE' then 'delete' else 'before' end, of_set.change_set_id, base;
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        execute format('insert into lockstep_feed.%1$I (%2$s, _change, _change_set, _ordinal_in_set)
            select %2$s, $1, $2, $3 + row_number() over (order by %3$s) - 1 from new_rows', of_feed.name, names, keys)
            using case tg_op when 'INSERT' then 'insert' else 'after' end, of_set.change_set_id, base;
    end if;
    return null;
end $$;

-- What keeps a table from being followed, in words; null: nothing. Images need the table's columns, and its four triggers.
create function feed_misses(of_target text) returns text
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select case
        when f.target is null then 'it has no feed yet'
        when to_regclass(of_target) is null then 'it is not there'
        when (select count(*) from pg_trigger t where t.tgrelid = to_regclass(of_target) and t.tgfoid = 'lockstep.capture'::regproc
              and t.tgenabled in ('O', 'A') and t.tgargs = convert_to(of_target, 'UTF8') || '\x00'::bytea) <> 4
            then 'its changes are not caught: a trigger is gone or disabled'
        else (
            select 'its column ' || a.attname || ' is not that of the feed' from pg_attribute a
            where a.attrelid = to_regclass(of_target) and a.attnum > 0 and not a.attisdropped and not exists (
                select from pg_attribute i
                where i.attrelid = to_regclass(format('lockstep_feed.%I', f.name)) and not i.attisdropped
                  and (i.attname, i.atttypid, i.atttypmod) = (a.attname, a.atttypid, a.atttypmod))
            union all
            select 'it has lost the column ' || i.attname || ', which its feed tells of' from pg_attribute i
            where i.attrelid = to_regclass(format('lockstep_feed.%I', f.name)) and i.attnum > 0 and not i.attisdropped
              and i.attname not in ('_change', '_change_set', '_ordinal_in_set') and not exists (
                select from pg_attribute a
                where a.attrelid = to_regclass(of_target) and not a.attisdropped and a.attname = i.attname)
            limit 1) end
    from (select of_target as wanted) w left join lockstep.feed f on f.target = w.wanted
$$;

-- Opens the set of a commit for one target, before its first row is written. Under commits by range it is a range's.
create function open_changes(of_target text, of_batch bigint, of_stream integer) returns text
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    misses text := lockstep.feed_misses(of_target);
begin
    if misses is null then
        insert into lockstep.change_set (target, kind, batch_id, stream_id) values (of_target, 'batch', of_batch, of_stream);
    end if;
    return misses;
end $$;

-- Replaces what this transaction's open sets caught by its net effect.
create function net_changes() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform lockstep.leave_trimmed(c.change_set_id) from lockstep.change_set c where c.xid = pg_current_xact_id() and c.seq is null;
    perform lockstep.net_set(c.change_set_id) from lockstep.change_set c where c.xid = pg_current_xact_id() and c.seq is null;
end $$;

-- The last statement of a commit: numbers this transaction's open sets, in the one order of the targets' names.
create function number_changes() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    each record;
begin
    for each in
        select c.change_set_id from lockstep.change_set c where c.xid = pg_current_xact_id() and c.seq is null
        order by c.target collate "C"
    loop
        perform lockstep.number_set(each.change_set_id);
    end loop;
end $$;

-- Opens a set for a person's own statements in this transaction. The decision says who and why.
create function manual_change(of_target text, why text) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    misses text := lockstep.feed_misses(of_target);
    owner text := (select min(o.pipeline) from lockstep.target_owner o where o.store = '' and o.target = of_target);
    opened bigint;
    stated text := current_setting('lockstep.ledger_version', true);
begin
    if misses is not null or owner is null then
        raise exception 'no_feed: %: %', of_target, coalesce(misses, 'no pipeline owns it') using errcode = '23514', constraint = 'no_feed';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('lockstep.target ' || of_target, 0));
    insert into lockstep.change_set (target, kind, why) values (of_target, 'manual', why) returning change_set_id into opened;
    -- A person's session states no version of a code: this one is the ledger's own.
    perform set_config('lockstep.ledger_version', (select max(m.version) from lockstep.migration m)::text, true);
    insert into lockstep.decision (pipeline, kind, who, why, detail)
    values (owner, 'manual-change', session_user, why, jsonb_build_object('target', of_target, 'change_set', opened));
    perform set_config('lockstep.ledger_version', coalesce(stated, ''), true);
    return opened;
end $$;

-- As before, but for those offsets. Upkeep stays quick where rejects are many: a stream with more than 10,000 ranges takes
-- whole ones.
create function trim_feed(of_target text, most bigint) returns bigint
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    most_ranges constant int := 10000;
    of_feed lockstep.feed;
    sent bigint := (select r.confirmed from lockstep.relay r where r.target = of_target);
    until bigint;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('lockstep.trim ' || of_target, 0)) then
        return 0;
    end if;
    select * into of_feed from lockstep.feed f where f.target = of_target;
    select max(s.ends) into until from (
        select c.first_number + c.changes as ends, row_number() over (order by c.first_number) as place,
            bool_and(c.at < clock_timestamp() - of_feed.keep and c.first_number + c.changes <= coalesce(sent, of_feed.next_number))
                over (order by c.first_number) as is_old
        from lockstep.change_set c
        where c.target = of_target and c.changes > 0 and c.first_number >= of_feed.kept_from
          and c.first_number < of_feed.kept_from + most) s
    where s.is_old and (s.place = 1 or s.ends <= of_feed.kept_from + most);
    if until is null then
        return 0;
    end if;
    if of_feed.sends then
        execute format('with whole as (
                select r.stream_id, range_agg(r.offsets) as offsets
                from lockstep.change_set c join lockstep.batch_range r using (batch_id)
                where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
                group by r.stream_id),
            unsent as (
                select w.stream_id, range_agg(int8range(j."offset", j."offset" + 1)) as offsets
                from whole w join lockstep.reject j on j.stream_id = w.stream_id and w.offsets @> j."offset"
                where not exists (
                    select from lockstep_feed.%I i join lockstep.change_set c on c.change_set_id = i._change_set
                    where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
                      and (i._stream, i._offset) = (j.stream_id, j."offset"))
                group by w.stream_id),
            trims as (
                select w.stream_id, w.offsets as whole, w.offsets - coalesce(u.offsets, ''{}'') as exact
                from whole w left join unsent u using (stream_id))
            insert into lockstep.trimmed as t (target, stream_id, offsets, with_rejects)
            select $1, s.stream_id, case when m.many then s.whole else s.exact end, m.many and s.whole <> s.exact
            from trims s left join lockstep.trimmed k on k.target = $1 and k.stream_id = s.stream_id
            cross join lateral (
                select count(*) > $4 as many from unnest(s.exact + coalesce(k.offsets, ''{}''))) m
            on conflict (target, stream_id) do update set offsets = t.offsets + excluded.offsets,
                with_rejects = t.with_rejects or excluded.with_rejects', of_feed.name)
            using of_target, of_feed.kept_from, until, most_ranges;
        execute format('delete from %s t using lockstep_feed.%I i, lockstep.change_set c
            where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
              and i._change_set = c.change_set_id and (t._stream, t._offset, t._ordinal) = (i._stream, i._offset, i._ordinal)',
            of_target::regclass, of_feed.name) using of_target, of_feed.kept_from, until;
    end if;
    execute format('delete from lockstep_feed.%I i using lockstep.change_set c
        where c.target = $1 and c.changes > 0 and c.first_number >= $2 and c.first_number < $3
          and i._change_set = c.change_set_id', of_feed.name) using of_target, of_feed.kept_from, until;
    update lockstep.feed set kept_from = until where target = of_target;
    return until - of_feed.kept_from;
end $$;

-- What is confirmed stays so, of the same log. A person's decision alone begins anew elsewhere.
create function guard_relay() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select * into of_feed from lockstep.feed f where f.target = new.target;
    if tg_op = 'INSERT' then
        if (new.began_at, new.confirmed, new.token) = (of_feed.kept_from, of_feed.kept_from, 0) and new.intent is null then
            return new;
        end if;
    elsif (new.target, new.transactional_id) = (old.target, old.transactional_id) and new.token >= old.token
            and new.confirmed <= of_feed.next_number and (new.intent is null or new.intent <= of_feed.next_number) then
        if new.restarted_by is distinct from old.restarted_by then
            if new.began_at = new.confirmed and new.confirmed >= of_feed.kept_from and new.intent is null and exists (
                    select from lockstep.decision d where d.decision_id = new.restarted_by and d.kind = 'restart-relay'
                      and d.detail ->> 'target' = new.target and (d.detail ->> 'number')::bigint = new.confirmed) then
                return new;
            end if;
        elsif new.confirmed >= old.confirmed and (new.topic, new.began_at) = (old.topic, old.began_at)
                and (old.topic_id is null or (new.cluster_id, new.topic_id, new.partitions)
                    is not distinct from (old.cluster_id, old.topic_id, old.partitions)) then
            return new;
        end if;
    end if;
    raise exception 'confirmed_rises: the relay of % goes from % (number %) to % (number %) without a decision',
        new.target, old.topic, old.confirmed, new.topic, new.confirmed
        using errcode = '23514', constraint = 'confirmed_rises';
end $$;
create trigger confirmed_rises before insert or update on relay
    for each row execute function guard_relay();

-- What the relay has not sent is not trimmed.
create function guard_trimmed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (select from lockstep.relay r where r.target = new.target and r.confirmed < new.kept_from) then
        raise exception 'told_before_trimmed: changes of % below number % are trimmed, and not all of them are sent',
            new.target, new.kept_from using errcode = '23514', constraint = 'told_before_trimmed';
    end if;
    return new;
end $$;
create trigger told_before_trimmed before update of kept_from on feed
    for each row execute function guard_trimmed();

-- What was trimmed once is never known again.
create function guard_trimmed_offsets() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' and (new.target, new.stream_id) = (old.target, old.stream_id) and new.offsets @> old.offsets then
        return new;
    end if;
    raise exception 'trimmed_stays: the offsets % of stream % of % are trimmed', old.offsets, old.stream_id, old.target
        using errcode = '23514', constraint = 'trimmed_stays';
end $$;
create trigger trimmed_stays before delete or update on trimmed
    for each row execute function guard_trimmed_offsets();

-- What a set would take back of rows that were sent: how many would be others, be gone, or be sent again. A replay may send
-- records of which nothing was sent, and only those: trimmed ones cannot be compared, and a record is sent whole.
create function unsaid(of_set bigint, out changed bigint, out gone bigint, out again bigint) returns record
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
    lane text;
begin
    select f.* into of_feed from lockstep.feed f join lockstep.change_set c using (target) where c.change_set_id = of_set;
    select b.lane into lane from lockstep.change_set c join lockstep.batch b using (batch_id) where c.change_set_id = of_set;
    execute format('select count(*) filter (where _change = ''after''), count(*) filter (where _change = ''delete'')
        from lockstep_feed.%I where _change_set = $1', of_feed.name) into changed, gone using of_set;
    again := 0;
    if lane = 'replay' then
        execute format('with new as (
                select _stream, _offset, count(*) as rows from lockstep_feed.%1$I
                where _change_set = $1 and _change = ''insert'' group by 1, 2)
            select coalesce(sum(rows), 0) from new
            where rows <> (select count(*) from %2$s t where t._stream = new._stream and t._offset = new._offset)
              or exists (select from lockstep.trimmed x
                  where x.target = $2 and x.stream_id = new._stream and x.offsets @> new._offset)',
            of_feed.name, of_feed.target::regclass) into again using of_set, of_feed.target;
    end if;
end $$;

-- Time rises, and no further than what the open streams have seen.
create function guard_watermark() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    allowed timestamptz;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' and new.watermark < old.watermark then
        raise exception 'watermark_rises: that of % would go back from % to %', new.pipeline, old.watermark, new.watermark
            using errcode = '23514', constraint = 'watermark_rises';
    end if;
    if new.watermark > '-infinity' and (tg_op = 'INSERT' or new.watermark > old.watermark) then
        select min(greatest(coalesce(t.opened_with, '-infinity'), t.seen, t.idle_at)) into allowed
        from lockstep.stream s left join lockstep.stream_time t using (stream_id)
        where s.pipeline = new.pipeline and s.retired_at is null;
        if allowed is null or new.watermark > allowed then
            raise exception 'watermark_by_streams: that of % would be %, and its streams have come to %',
                new.pipeline, new.watermark, coalesce(allowed::text, 'nothing')
                using errcode = '23514', constraint = 'watermark_by_streams';
        end if;
    end if;
    return new;
end $$;
create trigger watermark_rises before insert or update of watermark on event_time
    for each row execute function guard_watermark();

-- A partition comes to no time that is not over. What it came to before the clock was stepped back stays, and is not asked
-- again.
create function guard_stream_time() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    risen timestamptz := greatest(new.seen, new.idle_at);
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' then
        if (new.stream_id, new.opened_with) is distinct from (old.stream_id, old.opened_with)
                or coalesce(new.seen, '-infinity') < coalesce(old.seen, '-infinity')
                or coalesce(new.idle_at, '-infinity') < coalesce(old.idle_at, '-infinity') then
            raise exception 'time_rises: that of stream % would go back', new.stream_id
                using errcode = '23514', constraint = 'time_rises';
        end if;
        risen := greatest(
            case when new.seen is distinct from old.seen then new.seen end,
            case when new.idle_at is distinct from old.idle_at then new.idle_at end);
    end if;
    if risen > clock_timestamp() then
        raise exception 'not_ahead_of_clock: stream % would have come to %', new.stream_id, risen
            using errcode = '23514', constraint = 'not_ahead_of_clock';
    end if;
    return new;
end $$;
create trigger time_rises before insert or update on stream_time
    for each row execute function guard_stream_time();

-- A plan writes down the watermark of its moment, or a lower one that has risen meanwhile, and nobody changes it.
create function guard_batch_watermark() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    of_pipeline timestamptz := (select e.watermark from lockstep.event_time e where e.pipeline = new.pipeline and new.lane = 'live');
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if (case when tg_op = 'UPDATE' then new.watermark is distinct from old.watermark
            when of_pipeline is null then new.watermark is not null
            else new.watermark is null or new.watermark > of_pipeline end) then
        raise exception 'watermark_of_plan: batch % is not judged by the watermark of its plan', new.batch_id
            using errcode = '23514', constraint = 'watermark_of_plan';
    end if;
    return new;
end $$;
create trigger watermark_of_plan before insert or update of watermark on batch
    for each row execute function guard_batch_watermark();

-- Offsets are judged by the batch that claims them for the first time: a live one by its plan's watermark, a fill by none.
create function guard_judging() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op <> 'INSERT' then
        if tg_op = 'UPDATE' and old.admitted_by is null and new.admitted_by is not null
                and (old.stream_id, old.offsets, old.watermark) = (new.stream_id, new.offsets, new.watermark)
                and exists (select from lockstep.decision d join lockstep.stream s using (pipeline)
                    where d.decision_id = new.admitted_by and d.kind = 'admit-late' and s.stream_id = new.stream_id) then
            return new;
        end if;
        raise exception 'judged_stays: % of stream % is judged', old.offsets, old.stream_id
            using errcode = '23514', constraint = 'judged_stays';
    end if;
    if new.admitted_by is not null or not exists (
            select from lockstep.claim k join lockstep.batch b using (batch_id)
            where k.stream_id = new.stream_id and k.offsets @> new.offsets
              and new.watermark = case b.lane when 'live' then coalesce(b.watermark, '-infinity') when 'fill' then '-infinity' end) then
        raise exception 'judged_by_plan: % of stream % is not judged by the watermark of a plan that claims it',
            new.offsets, new.stream_id using errcode = '23514', constraint = 'judged_by_plan';
    end if;
    return new;
end $$;
create trigger judged_stays before insert or delete or update on judged
    for each row execute function guard_judging();

-- Only what was judged is late, and it is late by that judgement.
create function guard_late() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.* into stray from added a left join lateral (
        select j.* from lockstep.judged j where j.stream_id = a.stream_id and lower(j.offsets) <= a."offset"
        order by lower(j.offsets) desc limit 1) j on true
    where not coalesce(j.offsets @> a."offset" and j.watermark = a.watermark and j.admitted_by is null
        and a.window_end <= j.watermark, false) limit 1;
    if found then
        raise exception 'late_by_judgement: offset % of stream % was not judged late for the window until %',
            stray."offset", stray.stream_id, stray.window_end using errcode = '23514', constraint = 'late_by_judgement';
    end if;
    return null;
end $$;
create trigger late_by_judgement after insert on late referencing new table as added
    for each statement execute function guard_late();

-- A late record stays, until a replay judges its segment again, or an erasure takes its key out.
create function guard_late_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select g.* into stray from gone g where tg_op = 'UPDATE' or not exists (
        select from lockstep.claim k
        where k.stream_id = g.stream_id and k.offsets @> g."offset" and k.expects = 'batch')
        and not lockstep.is_being_erased(g.target, g.key) limit 1;
    if found then
        raise exception '%: offset % of stream %', tg_name, stray."offset", stray.stream_id
            using errcode = '23514', constraint = tg_name;
    end if;
    return null;
end $$;
create trigger late_stays after delete on late referencing old table as gone
    for each statement execute function guard_late_gone();
create trigger late_is_not_changed after update on late referencing old table as gone
    for each statement execute function guard_late_gone();

-- The moment at which the wall clock of a zone shows a reading: the first of two, or the moment of the change that leaves it
-- out.
create function first_moment(reading timestamp without time zone, zone text) returns timestamptz
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select case when earlier.moment at time zone zone = reading then least(earlier.moment, usual.moment) else usual.moment end
    from (select reading at time zone zone as moment) usual
    cross join lateral (
        select (reading - ((usual.moment - interval '3 hours') at time zone zone
            - (usual.moment - interval '3 hours') at time zone 'UTC')) at time zone 'UTC' as moment) earlier
$$;

create function open_emission(of_target text) returns text
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    misses text := lockstep.feed_misses(of_target);
begin
    if misses is null then
        insert into lockstep.change_set (target, kind) values (of_target, 'emission');
    end if;
    return misses;
end $$;

-- How the row of this name writes the key of a column, as SQL: a uuid without its hyphens.
create function key_text(of_row text, of_column text, as_uuid boolean) returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select format(case when as_uuid then 'lower(translate(%I.%I::text, ''{}-'', ''''))' else '%I.%I::text' end, of_row, of_column)
$$;

-- An image stays as it was caught. Only an erasure makes it blank, while it is not decided: of a change that it names and that
-- is sent, and if the image holds the key, by its digest. The other image of such an update becomes a change of its own.
create function guard_image() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    its record;
    same record;
    holder text;
    holds boolean := false;
begin
    if tg_table_schema <> 'lockstep_feed' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
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

-- Takes one key out of a feed, as if its rows had never been in the table: an update that loses one of its rows inserts or
-- deletes the other one. Changes of a row wait while one of them is not sent, and stay while another pipeline's row has the
-- key. So the table is its feed folded, at any time. Returns how many changes lost a row, and how many wait.
create function blank_images(of_erasure bigint, of_target text, key text, out changes bigint, out waiting bigint) returns record
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
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

-- A window's records stay as many. What is folded can never be read again: it ends at or before a log start that a committed
-- batch has seen, nobody claims it, and the window is over. What a segment gives up is counted without a join: see
-- guard_showing.
create function guard_folding() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select coalesce(w.target, b.target) as target, coalesce(w.key, b.key) as key into stray
    from was w full join becomes b using (batch_id, stream_id, target, key)
    where not coalesce((b."offset", b.ordinal) = (w."offset", w.ordinal) and (
        (b.records = 0 and b.totals = '{}')
        or (b.records - b.folded = w.records - w.folded
            and (b.folded > w.folded or (b.folded = w.folded and b.totals = w.totals)))), false) limit 1;
    if not found then
        select m.target, m.key into stray from (
            select target, key, records from was union all select target, key, -records from becomes) m
        group by m.target, m.key having sum(m.records) <> 0 limit 1;
    end if;
    if found then
        raise exception 'folded_whole: window % of % would have other records', stray.key, stray.target
            using errcode = '23514', constraint = 'folded_whole';
    end if;
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    left join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    where (upper(r.offsets) <= (
        select u.log_start_after from lockstep.coverage c join lockstep.commit m using (batch_id, stream_id)
        join lockstep.result u using (batch_id, token, stream_id)
        where c.stream_id = w.stream_id and c.kind = 'batch' order by lower(c.offsets) desc limit 1)) is not true limit 1;
    if found then
        raise exception 'folded_below_log_start: batch % of stream % can be read again', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_below_log_start';
    end if;
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    join lockstep.claim k on k.stream_id = r.stream_id and k.offsets && r.offsets limit 1;
    if found then
        raise exception 'folded_unclaimed: batch % of stream % is claimed', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_unclaimed';
    end if;
    select w.target, w.key into stray from (select distinct target, key from was) w
    where not exists (
        select from lockstep.window_state s
        where s.target = w.target and s.key = w.key and lockstep.window_passed(s.target, s.key, s.ends)) limit 1;
    if found then
        raise exception 'folded_when_passed: window % of % is not over', stray.key, stray.target
            using errcode = '23514', constraint = 'folded_when_passed';
    end if;
    insert into lockstep.folded as f (target, batch_id, stream_id, records)
    select g.target, g.batch_id, g.stream_id, sum(g.own) from (
        select target, batch_id, stream_id, records - folded as own from was
        union all select target, batch_id, stream_id, folded - records from becomes) g
    group by g.target, g.batch_id, g.stream_id having sum(g.own) > 0
    on conflict on constraint folded_once do update set records = f.records + excluded.records;
    return null;
end $$;
create trigger folded_whole after update on contribution referencing old table as was new table as becomes
    for each statement execute function guard_folding();

-- What counts in a window goes with a claim on its segment, or when it has given up its records. What took in others' stays.
create function guard_contribution_gone() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select g.batch_id, g.stream_id, g.key into stray from gone g
    where g.records > 0 and exists (select from lockstep.window_state s where s.target = g.target and s.key = g.key)
      and (g.folded > 0 or not exists (
        select from lockstep.claim k where k.stream_id = g.stream_id and k.expects_batch = g.batch_id)) limit 1;
    if found then
        raise exception 'contribution_stays: batch % counts in window %', stray.batch_id, stray.key
            using errcode = '23514', constraint = 'contribution_stays';
    end if;
    return null;
end $$;
create trigger contribution_stays after delete on contribution referencing old table as gone
    for each statement execute function guard_contribution_gone();

-- Whether the watermark of each pipeline that contributes to a window has passed its end. A forgotten pipeline owns no table.
create function window_passed(of_target text, of_key jsonb, ends timestamptz) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select coalesce(bool_and(coalesce(e.watermark >= ends, false)), false)
    from lockstep.contribution c join lockstep.stream s using (stream_id) left join lockstep.event_time e using (pipeline)
    where c.target = of_target and c.key = of_key
$$;

-- Whether a window's key holds what the newest erasure of its table's owner takes out, while that is not decided.
create function is_being_erased(of_target text, of_key jsonb) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.target_owner o join lockstep.erasure_salt z using (pipeline)
        cross join lateral (
            select e.* from lockstep.erasure e where e.pipeline = o.pipeline order by e.erasure_id desc limit 1) e
        cross join jsonb_array_elements_text(of_key) with ordinality as k (value, place)
        where o.store = '' and o.target = of_target and k.place > 1 and e.digest = lockstep.key_digest(
                z.salt, convert_to(case when e.as_uuid then replace(k.value, '-', '') else k.value end, 'UTF8'))
          and lockstep.erasure_decision(e.erasure_id) is null)
$$;

-- Another reader's offsets are a beginning. A pipeline that has streams, open or closed, has begun. No plan begins meanwhile.
create function guard_adoption() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform from lockstep.pipeline p where p.name = new.pipeline for no key update;
    if exists (select from lockstep.stream s where s.pipeline = new.pipeline) then
        raise exception 'adopted_first: % has planned already', new.pipeline
            using errcode = '23514', constraint = 'adopted_first';
    end if;
    return new;
end $$;
create trigger adopted_first before insert on decision
    for each row when (new.kind = 'adopt') execute function guard_adoption();

-- At the COMMIT, the streams begin where the decision says, all of them and no others.
create function check_adoption() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select coalesce(s.partition, f.partition) as partition into other
    from (select topic, partition, start_offset from lockstep.stream where pipeline = new.pipeline) s
    full join jsonb_to_recordset(new.detail -> 'from') f (topic text, partition int, "offset" bigint)
        on f.topic = s.topic and f.partition = s.partition
    where s.start_offset is distinct from f."offset" limit 1;
    if found then
        raise exception 'adopted_as_decided: partition % of % does not begin where decision % says',
            other.partition, new.pipeline, new.decision_id using errcode = '23514', constraint = 'adopted_as_decided';
    end if;
    return null;
end $$;
create constraint trigger adopted_as_decided after insert on decision
    deferrable initially deferred for each row when (new.kind = 'adopt') execute function check_adoption();

-- A pipeline other than this one whose records count in a table's windows, or are late there. Null for a table without windows.
create function windows_of_another(of_target text, of_pipeline text) returns text
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select s.pipeline from (
        select c.stream_id from lockstep.contribution c where c.target = of_target
        union all select l.stream_id from lockstep.late l where l.target = of_target) k
    join lockstep.stream s using (stream_id)
    where s.pipeline <> of_pipeline and exists (select from lockstep.window_state w where w.target = of_target) limit 1
$$;

-- Windows are shown by the event time of the pipeline whose records count in them. So no other one becomes the table's owner.
create function guard_windows_owner() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    other text := case when new.store = '' then lockstep.windows_of_another(new.target, new.pipeline) end;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if other is not null then
        raise exception 'windows_of_one: % has windows of %, and % would own it', new.target, other, new.pipeline
            using errcode = '23514', constraint = 'windows_of_one';
    end if;
    return new;
end $$;
create trigger windows_of_one before insert on target_owner
    for each row execute function guard_windows_owner();

-- A pipeline that owns a table alone was looked at when it became the owner. Only without an owner a commit reads the table's
-- contributions: a condition beside the other one is asked first, so it stands in a case.
create function guard_windows_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select w.target, d.pipeline, o.other into stray
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.written_tables(d.document) w
    cross join lateral (select case when w.store = '' and not exists (
        select from lockstep.target_owner o
        where o.store = '' and o.target = w.target and o.pipeline = d.pipeline and o.shared_with = '{}')
        then lockstep.windows_of_another(w.target, d.pipeline) end as other) o
    where o.other is not null limit 1;
    if found then
        raise exception 'windows_of_one: % has windows of %, and % would write it', stray.target, stray.other, stray.pipeline
            using errcode = '23514', constraint = 'windows_of_one';
    end if;
    return null;
end $$;
create trigger windows_of_one after insert on commit referencing new table as added
    for each statement execute function guard_windows_commit();

-- A topic is new to a pipeline that reads others: the decision stands before its streams, and says where they begin.
create function guard_topics() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    with lines as materialized (
        select l.*, exists (
                select from lockstep.stream o where o.pipeline = l.pipeline
                    and coalesce(o.first_topic, o.topic) <> l.line) as reads_others,
            exists (
                select from lockstep.stream o where o.pipeline = l.pipeline and coalesce(o.first_topic, o.topic) = l.line
                    and not exists (select from added n where n.stream_id = o.stream_id)) as was_read
        from (select distinct pipeline, coalesce(first_topic, topic) as line from added) l)
    select a.pipeline, a.topic, a.partition, a.start_offset into wrong
    from added a join lines l on l.pipeline = a.pipeline and l.line = coalesce(a.first_topic, a.topic)
    where l.reads_others and not l.was_read and not exists (
        select from lockstep.decision d where d.pipeline = a.pipeline and d.kind = 'topic'
            and d.detail #> array['topics', a.topic, a.partition::text] = to_jsonb(a.start_offset))
    limit 1;
    if found then
        raise exception 'topic_by_decision: no decision lets % read %-% from offset %',
            wrong.pipeline, wrong.topic, wrong.partition, wrong.start_offset
            using errcode = '23514', constraint = 'topic_by_decision';
    end if;
    return null;
end $$;
create trigger topic_by_decision after insert on stream referencing new table as added
    for each statement execute function guard_topics();

-- Within one incarnation the next stream begins where the one before it ended: no offset is left out, none is read twice.
create function guard_succession() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    select a.topic, a.partition, a.start_offset, o.position into wrong
    from added a cross join lateral (
        select s.position from lockstep.stream s
        where s.pipeline = a.pipeline and s.topic = a.topic and s.partition = a.partition
          and s.incarnation = a.incarnation and s.epoch < a.epoch
        order by s.epoch desc limit 1) o
    where o.position <> a.start_offset limit 1;
    if found then
        raise exception 'begins_where_it_ended: %-% begins at %, and the stream before it ended at %',
            wrong.topic, wrong.partition, wrong.start_offset, wrong.position
            using errcode = '23514', constraint = 'begins_where_it_ended';
    end if;
    return null;
end $$;
create trigger begins_where_it_ended after insert on stream referencing new table as added
    for each statement execute function guard_succession();

-- Two topics of a pipeline say nothing about which record of a key is newer, so a deletion stays with its topic.
create function guard_key_of_topic() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    moved record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select o.topic, n.topic as other into moved
    from lockstep.stream o join lockstep.stream n on n.pipeline = o.pipeline
        and coalesce(n.first_topic, n.topic) <> coalesce(o.first_topic, o.topic)
    where o.stream_id = old.stream_id and n.stream_id = new.stream_id
      and coalesce(new."order" <= old."order", true);
    if found then
        raise exception 'key_of_one_topic: a key of % was deleted in topic % and stands in topic %',
            old.target, moved.topic, moved.other using errcode = '23514', constraint = 'key_of_one_topic';
    end if;
    return new;
end $$;
create trigger key_of_one_topic before update of stream_id on tombstone
    for each row when (new.stream_id <> old.stream_id) execute function guard_key_of_topic();

-- The stream that opened the log of this one.
create function opened_log(stream integer) returns integer language sql stable set search_path = pg_catalog, pg_temp as $$
    select min(o.stream_id) from lockstep.stream s join lockstep.stream o on o.pipeline = s.pipeline
        and o.topic = s.topic and o.partition = s.partition and o.incarnation = s.incarnation
    where s.stream_id = stream
$$;

-- The offsets of a stream's log that the archive holds.
create function archive_of(stream integer) returns int8multirange
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select coalesce(range_agg(a.offsets), '{}') from lockstep.archived a
    where a.stream_id = lockstep.opened_log(stream)
      and not exists (select from lockstep.archive_drop d where d.archived_id = a.archived_id)
$$;

create function guard_archived() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    -- Upkeep holds this lock, too: what it has let go of is known here.
    perform from lockstep.pipeline p join lockstep.stream s on s.pipeline = p.name where s.stream_id = new.stream_id
        for no key update of p;
    if lockstep.opened_log(new.stream_id) <> new.stream_id or lockstep.is_replaced(new.stream_id) then
        raise exception 'archived_of_one_log: stream % did not open the log of today', new.stream_id
            using errcode = '23514', constraint = 'archived_of_one_log';
    end if;
    if exists (
        select from lockstep.stream s
        where lockstep.opened_log(s.stream_id) = new.stream_id and s.upkept_below > lower(new.offsets)) then
        raise exception 'archived_in_time: upkeep has let go of offsets of % of stream %', new.offsets, new.stream_id
            using errcode = '23514', constraint = 'archived_in_time';
    end if;
    return new;
end $$;
create trigger archived_in_time before insert on archived
    for each row execute function guard_archived();

-- A file is dropped by a decision of its pipeline, when its records are committed and no batch under way reads them.
create function guard_archive_drop() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    gone lockstep.archived;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select * into gone from lockstep.archived a where a.archived_id = new.archived_id;
    if not exists (
        select from lockstep.decision d join lockstep.stream s on s.pipeline = d.pipeline
        where d.decision_id = new.decision_id and d.kind = 'drop-archived' and s.stream_id = gone.stream_id) then
        raise exception 'dropped_by_decision: % has no decision that drops it', gone.path
            using errcode = '23514', constraint = 'dropped_by_decision';
    end if;
    if exists (
        select from lockstep.stream s where lockstep.opened_log(s.stream_id) = gone.stream_id
          and ((s.retired_at is null and s.position < upper(gone.offsets)) or exists (
            select from lockstep.claim k where k.stream_id = s.stream_id and k.offsets && gone.offsets))) then
        raise exception 'dropped_when_done: % holds records that are not committed, or that a batch reads', gone.path
            using errcode = '23514', constraint = 'dropped_when_done';
    end if;
    return new;
end $$;
create trigger dropped_when_done before insert on archive_drop
    for each row execute function guard_archive_drop();

-- What the archive holds can be replayed, so its segments stay apart: a merged stretch is no batch's own.
create function guard_archived_segments() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    merged record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.stream_id, a.offsets into merged from added a
    where a.kind = 'batch' and not exists (
        select from lockstep.batch_range r
        where r.batch_id = a.batch_id and r.stream_id = a.stream_id and r.offsets = a.offsets)
      and lockstep.archive_of(a.stream_id) && a.offsets limit 1;
    if found then
        raise exception 'archived_stays_apart: % of stream % is archived', merged.offsets, merged.stream_id
            using errcode = '23514', constraint = 'archived_stays_apart';
    end if;
    return null;
end $$;
create trigger archived_stays_apart after insert on coverage referencing new table as added
    for each statement execute function guard_archived_segments();

create function guard_folded_archive() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select w.batch_id, w.stream_id into stray from (select distinct batch_id, stream_id from was) w
    join lockstep.batch_range r on r.batch_id = w.batch_id and r.stream_id = w.stream_id
    where lockstep.archive_of(w.stream_id) && r.offsets limit 1;
    if found then
        raise exception 'folded_unarchived: batch % of stream % can be read from the archive', stray.batch_id, stray.stream_id
            using errcode = '23514', constraint = 'folded_unarchived';
    end if;
    return null;
end $$;
create trigger folded_unarchived after update on contribution referencing old table as was
    for each statement execute function guard_folded_archive();

-- Nobody is shown a window at first. Then each change is one revision more, and none is used twice.
create function refuse_revision() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    raise exception 'revision_by_one: window % of % would have revision %', new.key, new.target, new.revision
        using errcode = '23514', constraint = 'revision_by_one';
end $$;
create trigger revision_begins_at_0 before insert on window_state
    for each row when (new.revision <> 0) execute function refuse_revision();
create trigger revision_by_one before update on window_state
    for each row when (new.revision <> old.revision and new.revision <> (old.revision + 1) or new.target <> old.target
        or new.key <> old.key or new.ends <> old.ends) execute function refuse_revision();

-- A window is shown once the watermark of each pipeline that contributes to it has passed its end. What it was before is not
-- asked: two transition tables are joined row with row where the first statement of a session changed nothing.
create function guard_showing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    stray record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select b.target, b.key, b.ends into stray from becomes b
    left join lockstep.contribution c on c.target = b.target and c.key = b.key
    left join (select s.stream_id, e.watermark from lockstep.stream s join lockstep.event_time e using (pipeline)) t
        on t.stream_id = c.stream_id
    where b.revision = 1 and (t.watermark >= b.ends) is not true limit 1;
    if found then
        raise exception 'shown_when_passed: window % of % ends at %, which the watermark has not passed',
            stray.key, stray.target, stray.ends using errcode = '23514', constraint = 'shown_when_passed';
    end if;
    return null;
end $$;
create trigger shown_when_passed after update on window_state referencing new table as becomes
    for each statement execute function guard_showing();

-- A window goes with the key that an erasure takes out.
create function guard_window_gone() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.is_being_erased(old.target, old.key) then
        return old;
    end if;
    raise exception 'window_stays: % of %', old.key, old.target using errcode = '23514', constraint = 'window_stays';
end $$;
create trigger window_stays before delete on window_state
    for each row execute function guard_window_gone();

-- Nothing is under way while a pipeline moves, and nothing begins meanwhile.
create function guard_move() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    perform from lockstep.pipeline p where p.name = new.pipeline for no key update;
    if exists (select from lockstep.batch b where b.pipeline = new.pipeline and b.state = 'planned')
        or exists (select from lockstep.request r where r.pipeline = new.pipeline and r.closed_at is null and not r.preview) then
        raise exception 'moved_at_rest: a batch or a request of % is not finished', new.pipeline
            using errcode = '23514', constraint = 'moved_at_rest';
    end if;
    return new;
end $$;
create trigger moved_at_rest before insert on decision
    for each row when (new.kind = 'move') execute function guard_move();

-- At the COMMIT, every open stream is the successor of a closed one, where the decision says, and of the next incarnation.
create function check_move() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    other int;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select coalesce(m.partition, n.partition) into other
    from jsonb_to_recordset(new.detail -> 'moved') m (stream_id int, partition int, position bigint, "offset" bigint)
    left join lockstep.stream o on o.stream_id = m.stream_id and o.pipeline = new.pipeline and o.partition = m.partition
        and o.position = m.position and o.retired_at >= now()  -- closed by this transaction
    full join (select * from lockstep.stream s where s.pipeline = new.pipeline and s.retired_at is null) n
        on n.partition = m.partition
    where (n.partition = o.partition and n.start_offset = m.offset and n.position = m.offset
        and n.incarnation = o.incarnation + 1 and n.epoch > o.epoch
        and coalesce(n.first_topic, n.topic) = coalesce(o.first_topic, o.topic)
        and (n.cluster_id, n.topic, n.topic_id) = (new.detail #>> '{to,cluster_id}', new.detail #>> '{to,topic}',
            new.detail #>> '{to,topic_id}')) is not true
    limit 1;
    if found then
        raise exception 'moved_as_decided: partition % of % does not go on where decision % says',
            other, new.pipeline, new.decision_id using errcode = '23514', constraint = 'moved_as_decided';
    end if;
    return null;
end $$;
create constraint trigger moved_as_decided after insert on decision
    deferrable initially deferred for each row when (new.kind = 'move') execute function check_move();

-- A line of logs goes on in another topic by a decision that names the offset, and a topic stays with its line.
create function guard_line() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    first_added int := (select min(stream_id) from added);
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    with lines as materialized (
        select l.*, (
            select o.topic from lockstep.stream o
            where o.pipeline = l.pipeline and coalesce(o.first_topic, o.topic) = l.line and o.stream_id < first_added
            order by o.stream_id desc limit 1) as last,
            exists (
                select from lockstep.stream o where o.pipeline = l.pipeline and o.topic = l.topic
                    and coalesce(o.first_topic, o.topic) <> l.line) as is_of_another
        from (select distinct pipeline, topic, coalesce(first_topic, topic) as line from added) l)
    select a.pipeline, a.topic, a.partition, a.start_offset into wrong
    from added a join lines l on l.pipeline = a.pipeline and l.topic = a.topic and l.line = coalesce(a.first_topic, a.topic)
    where l.is_of_another or (coalesce(l.last, l.line) <> a.topic and not exists (
        select from lockstep.decision d cross join jsonb_to_recordset(d.detail -> 'moved') m (partition int, "offset" bigint)
        where d.decision_id = (
            select max(n.decision_id) from lockstep.decision n where n.pipeline = a.pipeline and n.kind = 'move')
            and d.detail #>> '{to,topic}' = a.topic
            and m.partition = a.partition and m.offset = a.start_offset))
    limit 1;
    if found then
        raise exception 'moved_by_decision: no decision lets % go on in %-% at offset %',
            wrong.pipeline, wrong.topic, wrong.partition, wrong.start_offset
            using errcode = '23514', constraint = 'moved_by_decision';
    end if;
    return null;
end $$;
create trigger moved_by_decision after insert on stream referencing new table as added
    for each statement execute function guard_line();

-- The floor falls for nobody but a replay of the truncation itself, which takes it out and puts it back.
create function guard_source_truncation() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'DELETE' and exists (
        select from lockstep.claim k
        where k.stream_id = old.stream_id and k.offsets @> old."offset" and k.expects = 'batch') then
        return old;
    end if;
    raise exception 'truncation_stays: rows from before the truncation at offset % of stream % would come back to %',
        old."offset", old.stream_id, old.target using errcode = '23514', constraint = 'truncation_stays';
end $$;
create trigger truncation_stays before delete or update on source_truncation
    for each row execute function guard_source_truncation();

-- At the COMMIT of a truncation no row of the target lies before it. It looks with the rights of the role that commits.
create function guard_emptied() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    older boolean;
begin
    if to_regclass(new.target) is null then
        return null;
    end if;
    execute format('select exists (select from %s t where (t._source_order >= $1) is not true)', to_regclass(new.target))
        into older using new."order";
    if older then
        raise exception 'truncated_is_empty: % has rows from before the truncation at offset % of stream %',
            new.target, new."offset", new.stream_id using errcode = '23514', constraint = 'truncated_is_empty';
    end if;
    return null;
end $$;
create constraint trigger truncated_is_empty after insert on source_truncation
    deferrable initially deferred for each row execute function guard_emptied();

-- The table behind a view that leaves hidden batches out, or null. Only the ledger's owner makes such a view.
create function rows_behind(shown regclass) returns regclass language sql stable set search_path = pg_catalog, pg_temp as $$
    select t.oid::regclass
    from pg_class v join pg_class t on t.relnamespace = v.relnamespace and t.relname = v.relname || '_rows' and t.relkind = 'r'
    where v.oid = shown and v.relkind = 'v' and v.relowner = 'lockstep_owner'::regrole
      and 2 = (
        select count(distinct d.refobjid) from pg_rewrite r join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        where r.ev_class = v.oid and d.refclassid = 'pg_class'::regclass
          and d.refobjid in (t.oid, 'lockstep.hidden_batch'::regclass))
$$;

-- Only an unfinished batch that may be committed is hidden, and only where a view leaves its rows out.
create function guard_hiding() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    found text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select b.state into found from lockstep.batch b where b.batch_id = new.batch_id for share;
    if found is distinct from 'planned' or exists (
        select from lockstep.batch b join lockstep.request r using (request_id) where b.batch_id = new.batch_id and r.preview) then
        raise exception 'hidden_is_planned: batch % is %, or a preview', new.batch_id, coalesce(found, 'not there')
            using errcode = '23514', constraint = 'hidden_is_planned';
    end if;
    if lockstep.rows_behind(to_regclass(left(new.rows_table, -5))) is distinct from to_regclass(new.rows_table)
            or to_regclass(new.rows_table) is null then
        raise exception 'hidden_by_view: no view leaves the hidden rows of % out', new.rows_table
            using errcode = '23514', constraint = 'hidden_by_view';
    end if;
    return new;
end $$;
create trigger hidden_is_planned before insert on hidden_batch
    for each row execute function guard_hiding();

-- What hides a batch hides it in one table, until it goes.
create function guard_hidden() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    raise exception 'hidden_stays: batch % is hidden in %', old.batch_id, old.rows_table
        using errcode = '23514', constraint = 'hidden_stays';
end $$;
create trigger hidden_stays before update on hidden_batch
    for each row execute function guard_hidden();

-- Rows are shown by the commit of their batch. Without one the batch is over, and all of its rows are gone.
create function guard_shown() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp set enable_seqscan = off set row_security = off as $$
declare
    found text := (select b.state from lockstep.batch b where b.batch_id = old.batch_id);
    is_left boolean := found is distinct from 'abandoned';
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (select from lockstep.hidden_batch h where h.batch_id = old.batch_id) or (
            found = 'committed' and exists (select from lockstep.commit c where c.batch_id = old.batch_id)) then
        return null;
    end if;
    if not is_left and to_regclass(old.rows_table) is not null then
        execute format('select exists (
            select from lockstep.batch_range r join %s t
                on t._stream = r.stream_id and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets)
            where r.batch_id = $1 and t._batch = $1)', to_regclass(old.rows_table)) into is_left using old.batch_id;
    end if;
    if is_left then
        raise exception 'shown_with_commit: batch % is %, and its rows would be seen', old.batch_id, found
            using errcode = '23514', constraint = 'shown_with_commit';
    end if;
    return null;
end $$;
create constraint trigger shown_with_commit after delete on hidden_batch
    deferrable initially deferred for each row execute function guard_shown();

-- A committed batch is not hidden.
create function guard_shown_commit() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (select from lockstep.hidden_batch h where h.batch_id = new.batch_id) then
        raise exception 'shown_by_commit: batch % is committed and still hidden', new.batch_id
            using errcode = '23514', constraint = 'shown_by_commit';
    end if;
    return null;
end $$;
create constraint trigger shown_by_commit after insert on commit
    deferrable initially deferred for each row execute function guard_shown_commit();

-- The fence of a task that copies: the batch is this attempt's until the transaction ends, its rows are hidden or a part, and
-- the offsets are its. Of a range without rows there is nothing to hide.
create function guard_landing() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = new.batch_id for share;
    if newest is distinct from new.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', new.token, new.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if new.rows <> 0 and not exists (select from lockstep.hidden_batch h where h.batch_id = new.batch_id) and not exists (
            select from lockstep.part p where (p.batch_id, p.token, p.stream_id) = (new.batch_id, new.token, new.stream_id)) then
        raise exception 'landed_is_hidden: rows of batch % would be seen before its commit', new.batch_id
            using errcode = '23514', constraint = 'landed_is_hidden';
    end if;
    if isempty(new.offsets) or not exists (
            select from lockstep.batch_range r
            where (r.batch_id, r.stream_id) = (new.batch_id, new.stream_id) and r.offsets @> new.offsets) then
        raise exception 'landed_within: batch % reads no offsets % of stream %', new.batch_id, new.offsets, new.stream_id
            using errcode = '23514', constraint = 'landed_within';
    end if;
    return new;
end $$;
create trigger landed_is_hidden before insert on landed
    for each row execute function guard_landing();

-- An attempt whose tasks have copied has copied all offsets of each of its ranges, and as many rows as were validated.
create function guard_landed() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    missing record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select a.batch_id, a.stream_id into missing
    from added a join lockstep.result u using (batch_id, token, stream_id) join lockstep.batch_range r using (batch_id, stream_id)
    where exists (select from lockstep.landed l where l.batch_id = a.batch_id and l.token = a.token)
      and (
        select (pg_catalog.range_agg(l.offsets), pg_catalog.sum(l.rows)) from lockstep.landed l
        where (l.batch_id, l.token, l.stream_id) = (a.batch_id, a.token, a.stream_id))
        is distinct from (int8multirange(r.offsets), u.rows::numeric) limit 1;
    if found then
        raise exception 'landed_whole: the rows of stream % of batch % are not those that its tasks copied',
            missing.stream_id, missing.batch_id using errcode = '23514', constraint = 'landed_whole';
    end if;
    return null;
end $$;
create trigger landed_whole after insert on commit referencing new table as added
    for each statement execute function guard_landed();

-- No pipeline writes the table behind another one's view.
create function guard_behind_view() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if new.store = '' and new.target like '%\_rows' and new.target !~ '[.].*[.]'  -- a table of the lake is no relation
            and lockstep.rows_behind(to_regclass(left(new.target, -5))) = to_regclass(new.target) then
        raise exception 'owned_through_view: % holds the rows of the view %', new.target, left(new.target, -5)
            using errcode = '23514', constraint = 'owned_through_view';
    end if;
    return new;
end $$;
create trigger owned_through_view before insert on target_owner
    for each row execute function guard_behind_view();

create function tell_pointer() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    was text := case when tg_op <> 'INSERT' then old.metadata_location end;
    becomes text := case when tg_op <> 'DELETE' then new.metadata_location end;
    found lockstep_lake.iceberg_tables := case when tg_op = 'DELETE' then old else new end;
begin
    if tg_table_schema <> 'lockstep_lake' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if was is distinct from becomes then
        insert into lockstep.lake_pointer (catalog, namespace, name, before, after, role, application)
        values (found.catalog_name, found.table_namespace, found.table_name, was, becomes,
            pg_catalog.current_setting('role'), pg_catalog.current_setting('application_name'));
    end if;
    return null;
end $$;
create trigger pointer_told after insert or delete or update on lockstep_lake.iceberg_tables
    for each row execute function tell_pointer();

-- The tables of the lake that a definition writes, by place.
create function lake_tables(document jsonb) returns table(place integer, target text)
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select (n - 1)::int, t #>> '{}' from jsonb_path_query(document, '$.target[*].table') with ordinality as each (t, n)
    where t #>> '{}' ~ '^lockstep[.][^.]+[.][^.]+$'
$$;

-- No offsets without their rows: a commit moves the pointer of each of its lake tables, in this very transaction.
create function guard_lake_offsets() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select c.batch_id, w.target into wrong
    from (select distinct batch_id, token from added) c
    join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
    cross join lateral lockstep.lake_tables(d.document) w
    where not exists (
        select from lockstep.lake_commit m
        join lockstep.lake_pointer p using (catalog, namespace, name, before, after)
        where m.batch_id = c.batch_id and m.token = c.token and m.place = w.place
          and w.target = concat_ws('.', m.catalog, m.namespace, m.name) and p.xid = pg_current_xact_id())
    limit 1;
    if found then
        raise exception 'pointer_with_offsets: batch % would commit offsets, and % has not moved with them',
            wrong.batch_id, wrong.target using errcode = '23514', constraint = 'pointer_with_offsets';
    end if;
    return null;
end $$;
create trigger pointer_with_offsets after insert on commit referencing new table as added
    for each statement execute function guard_lake_offsets();

-- No rows without their offsets: what the committer moves is what a commit of this transaction says, or its decision of upkeep.
create function guard_lake_pointer() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    mine bigint := pg_current_xact_id()::text::bigint % 4294967296;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select from lockstep.lake_commit m join lockstep.commit c using (batch_id, token)
        where (m.catalog, m.namespace, m.name) = (new.catalog, new.namespace, new.name)
          and m.before = new.before and m.after = new.after) then
        return null;
    end if;
    if exists (
        select from lockstep.decision d
        where d.kind = 'upkeep' and d.xmin::text::bigint = mine
          and d.detail ->> 'table' = concat_ws('.', new.catalog, new.namespace, new.name)
          and d.detail ->> 'before' = new.before and d.detail ->> 'after' = new.after
          and exists (
            select from lockstep.lake_upkeep u
            where (u.catalog, u.namespace, u.name) = (new.catalog, new.namespace, new.name)
              and u.xmin::text::bigint = mine and u.ended_at is not null and u.swept_at is null
              and strpos(new.after, u.commit_uuid::text) > 0)) then
        return null;
    end if;
    raise exception 'offsets_with_pointer: %.%.% moves without offsets, and without a decision of upkeep',
        new.catalog, new.namespace, new.name using errcode = '23514', constraint = 'offsets_with_pointer';
end $$;
create constraint trigger offsets_with_pointer after insert on lake_pointer
    deferrable initially deferred for each row when (new.role = 'lockstep_committer' or pg_has_role(session_user,
        'lockstep_committer'::name, 'MEMBER') and not pg_has_role(session_user, 'lockstep_owner'::name, 'MEMBER'))
        execute function guard_lake_pointer();

-- A table for the rows of one range, with the columns and checks of its target. Only the newest attempt's task gets one, for
-- its pipeline's table, and only this transaction may fill it.
create function make_part(target regclass, of_batch bigint, of_token bigint, of_stream integer) returns regclass
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called text := (
        select lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_part_' || r.stream_id
        from lockstep.batch b join lockstep.attempt a using (batch_id, token) join lockstep.batch_range r using (batch_id)
        where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and r.stream_id = of_stream);
    made regclass;
begin
    perform lockstep.guard_target(target);
    if called is null then
        raise exception 'newest_attempt: attempt % of batch % is not its newest, or has no range of stream %', of_token, of_batch, of_stream
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if not exists (
        select from lockstep.batch b join lockstep.target_owner o using (pipeline)
        where b.batch_id = of_batch and o.store = ''
          and case when o.target !~ '[.].*[.]' then to_regclass(o.target) end = make_part.target) then
        raise exception 'own_target: % is no target of the pipeline of batch %', target, of_batch
            using errcode = '23514', constraint = 'own_target';
    end if;
    execute format('create table lockstep_staging.%I (like %s including defaults including constraints including storage,
        constraint its_part check (_batch = bigint %L and _stream = int %L))', called, target, of_batch, of_stream);
    made := to_regclass(format('lockstep_staging.%I', called));
    execute format('grant select, insert on %s to lockstep_partition', made);
    insert into lockstep.part (batch_id, token, stream_id, target, relation)
    values (of_batch, of_token, of_stream, target::text, made);
    return made;
end $$;

-- The keys of a target, for a table that is filled. No key may run an author's code here: it would run as the ledger's owner.
create function add_keys(filled regclass, target regclass) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp as $$
declare
    begins text;
    key record;
begin
    for key in
        select x.relname as name, t.relname as of_table, t.relnamespace::regnamespace as beside, i.indisunique as is_unique,
            pg_get_indexdef(i.indexrelid) as definition, pg_get_constraintdef(k.oid) as as_constraint,
            i.indexprs is null and i.indpred is null as is_plain
        from pg_index i join pg_class x on x.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
        left join pg_constraint k on k.conindid = i.indexrelid and k.conrelid = i.indrelid and k.contype in ('p', 'u')
        where i.indrelid = target order by i.indexrelid
    loop
        begins := format('CREATE %sINDEX %I ON ONLY %s.%I ', case when key.is_unique then 'UNIQUE ' else '' end,
            key.name, key.beside, key.of_table);
        if not key.is_plain or key.as_constraint is null and not starts_with(key.definition, begins) then
            raise exception 'plain_keys: index % of % has an expression or a condition', key.name, target
                using errcode = '23514', constraint = 'plain_keys';
        end if;
        execute case when key.as_constraint is not null then format('alter table %s add %s', filled, key.as_constraint)
            else format('create %s index on %s %s', case when key.is_unique then 'unique' else '' end, filled,
                substr(key.definition, length(begins) + 1)) end;
    end loop;
end $$;

-- The end of a part's filling. Its keys are built of all of its rows at once.
create function close_part(of_batch bigint, of_token bigint, of_stream integer) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    its regclass;
    its_target regclass;
begin
    select p.relation::regclass, to_regclass(p.target) into its, its_target
    from lockstep.part p where (p.batch_id, p.token, p.stream_id) = (of_batch, of_token, of_stream);
    if its is null or exists (
        select from lockstep.landed l where (l.batch_id, l.token, l.stream_id) = (of_batch, of_token, of_stream)) then
        raise exception 'part_stays: attempt % of batch % has closed its part of stream %, or has none', of_token, of_batch, of_stream
            using errcode = '23514', constraint = 'part_stays';
    end if;
    execute format('revoke insert on %s from lockstep_partition', its);
    perform lockstep.add_keys(its, its_target);
end $$;

-- The parts of the newest, validated attempt, as the batch's partition: nothing is copied, scanned or built. Several parts are
-- partitions by stream of the batch's. A part of another attempt has no way in.
create function attach_parts(target regclass, of_batch bigint, of_token bigint) returns integer
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called name := lockstep.partition_name(target, of_batch, of_token);
    its_owner regrole := (select relowner::regrole from pg_class where oid = target);
    beside regnamespace := (select relnamespace::regnamespace from pg_class where oid = target);
    whole text := format('%s.%I', beside, called);
    parts int := (select count(*) from lockstep.part p where p.batch_id = of_batch and p.token = of_token);
    one record;
begin
    perform lockstep.guard_target(target);
    if parts > 1 then
        execute format('create table %s (like %s including defaults including constraints including storage) partition by list (_stream)',
            whole, target);
        execute format('alter table %s owner to %s', whole, its_owner);
        execute format('alter table %s attach partition %s for values in (%s)', target, whole, of_batch);
    end if;
    for one in
        select p.stream_id, p.relation::regclass as its, c.relnamespace = 'lockstep_staging'::regnamespace
                and c.relname = lockstep.staging_name(a.batch_id, a.token, a.nonce) || '_part_' || p.stream_id
                and to_regclass(p.target) = attach_parts.target as is_own,
            case when parts = 1 then called
                else left(t.relname, 56 - length(of_batch::text) - length(p.stream_id::text)) || '_' || of_batch || '_part_' || p.stream_id
                end as renamed
        from lockstep.part p join lockstep.attempt a using (batch_id, token) join pg_class t on t.oid = attach_parts.target
        left join pg_class c on c.oid = p.relation
        where p.batch_id = of_batch and p.token = of_token order by p.stream_id
    loop
        if one.is_own is not true then
            raise exception 'own_part: attempt % of batch % has no part % for %', of_token, of_batch, one.stream_id, target
                using errcode = '23514', constraint = 'own_part';
        end if;
        execute format('revoke all on %s from lockstep_partition', one.its);
        execute format('alter table %s set schema %s', one.its, beside);
        execute format('alter table %s rename to %I', one.its, one.renamed);
        execute format('alter table %s owner to %s', one.its, its_owner);
        execute format('alter table %s attach partition %s for values in (%s)',
            case when parts = 1 then target::text else whole end, one.its, case when parts = 1 then of_batch else one.stream_id end);
        execute format('alter table %s drop constraint its_part', one.its);
    end loop;
    return parts;
end $$;

-- The batch of a partition that consists of parts, if it is committed. What a person has attached there stays as it is.
create function batch_of_parts(target regclass, whole regclass) returns bigint
    language sql stable security definer
    set search_path = pg_catalog, pg_temp as $$
    select b.batch_id from pg_class c join pg_inherits i on i.inhrelid = c.oid and i.inhparent = target
    join lockstep.batch b on b.state = 'committed'
        and b.batch_id = substring(pg_get_expr(c.relpartbound, c.oid) from $re$^FOR VALUES IN \('?(\d+)'?\)$re$)::bigint
    where c.oid = whole and c.relkind = 'p' and lockstep.is_own_target(target) and not exists (
        select from pg_inherits n join pg_class p on p.oid = n.inhrelid
        where n.inhparent = whole and (p.relname !~ '_part_[0-9]+$' or p.relkind <> 'r'))
$$;

-- Upkeep: a table for the rows of all parts, filled by this transaction. From now on nobody changes the parts.
create function begin_merge(target regclass, whole regclass) returns regclass
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    called text := (select format('%s.%I', relnamespace::regnamespace, left(relname, 56) || '_merged') from pg_class where oid = whole);
begin
    if lockstep.batch_of_parts(target, whole) is null then
        return null;
    end if;
    execute format('lock table %s in share row exclusive mode', whole);
    execute format('create table %s (like %s including defaults including constraints including storage,
        constraint its_part check (_batch = bigint %L))', called, target, lockstep.batch_of_parts(target, whole));
    execute format('grant insert on %s to lockstep_committer', called);
    return to_regclass(called);
end $$;

-- That table in place of the parts. Its rows are the batch's, all that its commit has counted: with fewer, an older snapshot
-- could miss what was deleted since.
create function end_merge(target regclass, whole regclass, merged regclass) returns boolean
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    of_batch bigint := lockstep.batch_of_parts(target, whole);
    called name := (select relname from pg_class where oid = whole);
    held bigint;
begin
    if of_batch is null or not exists (
        select from pg_class c where c.oid = merged and c.xmin = pg_current_xact_id()::xid and c.relname = left(called, 56) || '_merged') then
        raise exception 'own_merge: % is no copy of % that this transaction makes', merged, whole
            using errcode = '23514', constraint = 'own_merge';
    end if;
    execute format('select count(*) from %s', merged) into held;
    if held <> (select sum(l.rows) from lockstep.landed l join lockstep.commit c using (batch_id, token, stream_id) where l.batch_id = of_batch) then
        return false;
    end if;
    execute format('revoke insert on %s from lockstep_committer', merged);
    perform lockstep.add_keys(merged, target);
    execute format('alter table %s owner to %s', merged, (select relowner::regrole from pg_class where oid = target));
    execute format('lock table only %s in access exclusive mode', target);
    execute format('drop table %s', whole);
    execute format('alter table %s rename to %I', merged, called);
    execute format('alter table %s attach partition %s for values in (%s)', target, merged, of_batch);
    execute format('alter table %s drop constraint its_part', merged);
    return true;
end $$;

-- Nobody fills a part any more that is counted.
create function guard_closed_part() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select from lockstep.part p where (p.batch_id, p.token, p.stream_id) = (new.batch_id, new.token, new.stream_id)
          and has_table_privilege('lockstep_partition', p.relation, 'insert')) then
        raise exception 'part_is_closed: the part of stream % of batch % may still be filled', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'part_is_closed';
    end if;
    return new;
end $$;
create trigger part_is_closed before insert on landed
    for each row execute function guard_closed_part();

-- No part is kept without its counts.
create function guard_landed_part() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (
        select from lockstep.landed l where (l.batch_id, l.token, l.stream_id) = (new.batch_id, new.token, new.stream_id)) then
        raise exception 'part_landed: the part of stream % of batch % was not counted', new.stream_id, new.batch_id
            using errcode = '23514', constraint = 'part_landed';
    end if;
    return null;
end $$;
create constraint trigger part_landed after insert on part
    deferrable initially deferred for each row execute function guard_landed_part();

-- A commit has attached each part of its attempt.
create function guard_attached() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    missing record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select p.batch_id, p.stream_id into missing from added a join lockstep.part p using (batch_id, token, stream_id)
    where not exists (select from pg_inherits i where i.inhrelid = p.relation) limit 1;
    if found then
        raise exception 'part_is_attached: the part of stream % of batch % is no partition', missing.stream_id, missing.batch_id
            using errcode = '23514', constraint = 'part_is_attached';
    end if;
    return null;
end $$;
create trigger part_is_attached after insert on commit referencing new table as added
    for each statement execute function guard_attached();

-- What a task has copied of a range only shrinks, by the newest attempt and while the batch is hidden.
create function guard_landed_rows() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    newest bigint;
    found text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select b.token, b.state into newest, found from lockstep.batch b where b.batch_id = old.batch_id for share;
    if newest is distinct from old.token or found is distinct from 'planned' then
        raise exception 'newest_attempt: attempt % of batch % is not its newest', old.token, old.batch_id
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if (new.batch_id, new.token, new.stream_id, new.offsets, new.shape_id)
                is distinct from (old.batch_id, old.token, old.stream_id, old.offsets, old.shape_id)
            or new.rows > old.rows
            or not exists (select from lockstep.hidden_batch h where h.batch_id = old.batch_id) then
        raise exception 'landed_shrinks: the range of stream % was copied with % rows by attempt % of batch %',
            old.stream_id, old.rows, old.token, old.batch_id using errcode = '23514', constraint = 'landed_shrinks';
    end if;
    return new;
end $$;
create trigger landed_shrinks before update on landed
    for each row execute function guard_landed_rows();

-- An ended step stays ended: a process that was taken for dead moves no pointer to files that are swept.
create function guard_lake_upkeep() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if old.ended_at is not null and new.ended_at is distinct from old.ended_at then
        raise exception 'upkeep_ends_once: step % of upkeep has ended', old.commit_uuid
            using errcode = '23514', constraint = 'upkeep_ends_once';
    end if;
    return new;
end $$;
create trigger upkeep_ends_once before update on lake_upkeep
    for each row execute function guard_lake_upkeep();

-- Files of tasks are counted by the store, and staged rows by the database. What is committed is the same in all tables.
create function guard_fan_out() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    with attempts as (select distinct batch_id, token from added),
    told as (select p.* from attempts join lockstep.target_rows p using (batch_id, token)),
    held as (
        select f.batch_id, f.token, f.place, s.key::int as stream_id, sum((s.value ->> 0)::bigint) as rows,
            sum((s.value ->> 1)::numeric) as offsets
        from attempts join lockstep.lake_file f using (batch_id, token) cross join lateral jsonb_each(f.streams) s
        where f.digests is not null and exists (select from told t where (t.batch_id, t.token) = (f.batch_id, f.token))
        group by 1, 2, 3, 4),
    into_lake as (
        select t.* from told t where t.target ~ '^lockstep[.][^.]+[.][^.]+$'
          and exists (select from held h where (h.batch_id, h.token) = (t.batch_id, t.token)))
    select batch_id, stream_id into wrong from (
        select batch_id, stream_id from into_lake t full join held h using (batch_id, token, place, stream_id)
        where t.offsets is null or (t.rows, t.offsets) <> (coalesce(h.rows, 0), coalesce(h.offsets, 0))
        union all
        select batch_id, stream_id from told where offsets is not null
        group by batch_id, token, stream_id having count(distinct (rows, offsets)) > 1) w
    limit 1;
    if found then
        raise exception 'tables_agree: the tables of batch % do not have the same records of stream %',
            wrong.batch_id, wrong.stream_id using errcode = '23514', constraint = 'tables_agree';
    end if;
    return null;
end $$;
create trigger tables_agree after insert on commit referencing new table as added
    for each statement execute function guard_fan_out();

create function guard_unit() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (select from lockstep.commit c where c.batch_id = new.batch_id) then
        raise exception 'one_unit: batch % is committed range by range, and attempt % would commit it as a whole',
            new.batch_id, new.token using errcode = '23514', constraint = 'one_unit';
    end if;
    return new;
end $$;
create trigger one_unit before insert or update of unit on attempt
    for each row when (new.unit = 'batch') execute function guard_unit();

-- Whether this transaction wrote a row, by the row's xmin. A row of a savepoint has the number of that savepoint.
create function is_of_this_transaction(its xid) returns boolean language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    ours bigint := pg_current_xact_id()::text::bigint;
    later bigint := ((its::text::bigint - ours) % 4294967296 + 4294967296) % 4294967296;
begin
    if later = 0 then
        return true;
    end if;
    -- a savepoint's number is a later one; what lies far ahead is an old one, from before the numbers began again
    if its::text::bigint < 3 or later > 1000000000 then
        return false;
    end if;
    begin
        return pg_xact_status((ours + later)::text::xid8) = 'in progress';
    exception when invalid_parameter_value then
        return false;  -- no transaction has that number yet
    end;
end $$;

-- Which offsets a decision gives up.
create function given_up(of_kind text, detail jsonb) returns int8range
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select case
        when of_kind in ('skip', 'accept-loss') and detail ->> 'stream_id' ~ '^[0-9]{1,9}$' and detail ->> 'from_offset' ~ '^[0-9]{1,18}$'
            and detail ->> 'until_offset' ~ '^[0-9]{1,18}$'
        then case when (detail ->> 'from_offset')::bigint < (detail ->> 'until_offset')::bigint
            then int8range((detail ->> 'from_offset')::bigint, (detail ->> 'until_offset')::bigint) end end
$$;

-- A row that this transaction itself has written was never decided.
create function note_lifted() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.lifted (stream_id, offsets)
    select c.stream_id, c.offsets from lockstep.coverage c
    where int4range(c.stream_id, c.stream_id, '[]') && int4range(old.stream_id, old.stream_id, '[]')
      and c.offsets && old.offsets and c.offsets = old.offsets and not lockstep.is_of_this_transaction(c.xmin);
    return case tg_op when 'DELETE' then old else new end;
end $$;
create trigger lifted_is_noted before delete or update on coverage
    for each row when (old.kind = 'skipped') execute function note_lifted();

create function guard_given_up() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    decided int8multirange;
    of_kind text := case new.kind when 'loss' then 'accept-loss' else 'skip' end;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select coalesce(range_agg(o.offsets), '{}') into decided from (
        select lockstep.given_up(d.kind, d.detail) as offsets
        from lockstep.decision d join lockstep.stream s on s.pipeline = d.pipeline
        where s.stream_id = new.stream_id and d.kind in ('skip', 'accept-loss') and d.kind = of_kind
          and d.detail ->> 'stream_id' = new.stream_id::text and lockstep.is_of_this_transaction(d.xmin)
        union all
        select l.offsets from lockstep.lifted l
        where new.kind = 'skipped' and l.stream_id = new.stream_id and l.xid = pg_current_xact_id()
          and lockstep.is_of_this_transaction(l.xmin)) o;
    if not decided @> new.offsets then
        raise exception 'given_up_by_decision: no decision of this transaction gives up % of stream %: lockstep % names offsets and a reason',
            int8multirange(new.offsets) - decided, new.stream_id, of_kind
            using errcode = '23514', constraint = 'given_up_by_decision';
    end if;
    return null;
end $$;
create constraint trigger given_up_by_decision after insert or update on coverage
    deferrable initially deferred for each row when (new.kind <> 'batch') execute function guard_given_up();

-- Whether the newest attempt of an unfinished batch is open, and the batch claims this offset. `again`: of what is committed.
create function is_under_way(stream integer, at_offset bigint, again boolean) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.claim k join lockstep.batch b using (batch_id)
        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
        where k.stream_id = stream and lower(k.offsets) <= at_offset and upper(k.offsets) > at_offset
          and (k.expects = 'batch' or not again) and b.state = 'planned' and a.closed_at is null)
$$;

-- Whether an erasure of this transaction takes the key out.
create function is_erased_now(of_key jsonb) returns boolean language sql set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.erasure e join lockstep.erasure_salt z using (pipeline)
        cross join jsonb_array_elements_text(of_key) as k (value)
        where lockstep.is_of_this_transaction(e.xmin) and lockstep.erasure_decision(e.erasure_id) is null
          and e.digest = lockstep.key_digest(
            z.salt, convert_to(case when e.as_uuid then lower(replace(k.value, '-', '')) else k.value end, 'UTF8')))
$$;

-- A deletion goes when its record is read again, when upkeep has passed it, or when its key is erased. It moves to records of
-- the batch under way.
create function guard_remembered_deletion() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' then
        if (new.target, new.key) = (old.target, old.key) and lockstep.is_under_way(new.stream_id, new."offset", false) then
            return new;
        end if;
    elsif lockstep.is_under_way(old.stream_id, old."offset", true) or lockstep.is_erased_now(old.key)
            or lockstep.is_passed(old.stream_id, old."offset") then
        return old;
    end if;
    raise exception 'memory_stays: no attempt under way takes the deletion at offset % of stream % from %',
        old."offset", old.stream_id, old.target using errcode = '23514', constraint = 'memory_stays';
end $$;
create trigger memory_stays before delete or update on tombstone
    for each row when (current_user <> 'lockstep_owner'::name) execute function guard_remembered_deletion();

create function guard_remembered_reject() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.is_under_way(old.stream_id, old."offset", true) then
        return old;
    end if;
    raise exception 'memory_stays: no attempt under way reads the reject at offset % of stream % again', old."offset", old.stream_id
        using errcode = '23514', constraint = 'memory_stays';
end $$;
create trigger memory_stays before delete on reject
    for each row when (current_user <> 'lockstep_owner'::name) execute function guard_remembered_reject();

-- A table has its owner until it is handed over, or its owner is forgotten.
create function guard_owner_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (
        select from lockstep.target_owner o where (o.store, o.target, o.pipeline) = (old.store, old.target, old.pipeline))
       and not exists (
        select from lockstep.decision d
        where d.pipeline = old.pipeline and lockstep.is_of_this_transaction(d.xmin) and case d.kind
            when 'hand-over' then (d.detail ->> 'store', d.detail ->> 'target', d.detail ->> 'from') = (old.store, old.target, old.pipeline)
            when 'forget' then d.detail -> 'tables' @> jsonb_build_array(jsonb_build_object('store', old.store, 'target', old.target))
            else false end) then
        raise exception 'owner_stays: no decision of this transaction takes % from %', old.target, old.pipeline
            using errcode = '23514', constraint = 'owner_stays';
    end if;
    return null;
end $$;
create constraint trigger owner_stays after delete on target_owner
    deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name)
        execute function guard_owner_gone();

create function guard_paused() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if (tg_op = 'INSERT' and not new.paused) or (tg_op = 'UPDATE' and new.paused = old.paused) or exists (
        select from lockstep.decision d
        where d.pipeline = new.name and d.kind = case when new.paused then 'pause' else 'unpause' end
          and lockstep.is_of_this_transaction(d.xmin)) then
        return null;
    end if;
    raise exception 'paused_by_decision: no decision of this transaction % %', case when new.paused then 'pauses' else 'unpauses' end,
        new.name using errcode = '23514', constraint = 'paused_by_decision';
end $$;
create constraint trigger paused_by_decision after insert or update of paused on pipeline
    deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name)
        execute function guard_paused();

-- Whether an address is below a folder as it is written: no part of it leads elsewhere.
create function is_below(address text, folder text) returns boolean
    language sql immutable
    set search_path = pg_catalog, pg_temp as $$
    select coalesce(length(folder) > 0 and starts_with(address, rtrim(folder, '/') || '/')
        and substr(address, length(rtrim(folder, '/')) + 1) !~* '//|/[.]{1,2}(/|$)|/$|%(2[ef]|5c)|[\\[:cntrl:]]', false)
$$;

-- The folder of a table of the lake, by its pointer.
create function lake_folder(of_namespace text, of_name text) returns text
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select regexp_replace(t.metadata_location, '/metadata/[^/]+$', '') from lockstep_lake.iceberg_tables t
    where (t.catalog_name, t.table_namespace, t.table_name) = ('lockstep', of_namespace, of_name)
      and t.metadata_location ~ '/metadata/[^/]+$'
$$;

-- An open attempt's files are in the folder of its number, in the folder of the table that its definition writes there.
create function guard_lake_prefix() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    folder text;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if tg_op = 'UPDATE' then
        if (new.batch_id, new.token, new.place, new.location) = (old.batch_id, old.token, old.place, old.location) then
            return new;
        end if;
    else
        select lockstep.lake_folder(split_part(w.target, '.', 2), split_part(w.target, '.', 3)) into folder
        from lockstep.batch b join lockstep.attempt a using (batch_id, token) join lockstep.definition d using (definition_hash)
        cross join lateral lockstep.lake_tables(d.document) w
        where b.batch_id = new.batch_id and b.token = new.token and b.state = 'planned' and a.closed_at is null
          and w.place = new.place;
        if lockstep.is_below(new.location, folder)
                and new.location = format('%s/data/lockstep/%s.%s', rtrim(folder, '/'), new.batch_id, new.token) then
            return new;
        end if;
    end if;
    raise exception 'own_folder: attempt % of batch % has no folder % of table %', new.token, new.batch_id, new.location, new.place
        using errcode = '23514', constraint = 'own_folder';
end $$;
create trigger own_folder before insert or update on lake_prefix
    for each row execute function guard_lake_prefix();

-- Files of metadata are beside those of the table that the preparation is about.
create function guard_lake_prepared() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    folder text := (
        select regexp_replace(x.location, '/data/lockstep/[^/]+$', '') from lockstep.lake_prefix x
        where (x.batch_id, x.token, x.place) = (new.batch_id, new.token, new.place));
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.is_below(new.before, folder || '/metadata') then
        return new;
    end if;
    raise exception 'own_folder: % is not a metadata file of the table in %', new.before, folder
        using errcode = '23514', constraint = 'own_folder';
end $$;
create trigger own_folder before insert or update of before, batch_id, token, place on lake_prepared
    for each row execute function guard_lake_prepared();

create function guard_upkeep_folder() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    folder text := lockstep.lake_folder(new.namespace, new.name);
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if lockstep.is_below(new.before, folder || '/metadata')
            and new.prefix = format('%s/data/lockstep/upkeep.%s', rtrim(folder, '/'), new.commit_uuid) then
        return new;
    end if;
    raise exception 'own_folder: step % of %.% has no folder %', new.commit_uuid, new.namespace, new.name, new.prefix
        using errcode = '23514', constraint = 'own_folder';
end $$;
create trigger own_folder before insert
        or update of before, prefix, catalog, namespace, name, commit_uuid on lake_upkeep
    for each row execute function guard_upkeep_folder();

-- A file goes with the decision of upkeep about its table, which this transaction writes.
create function guard_lake_gone() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    folder text := lockstep.lake_folder(new.namespace, new.name);
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not lockstep.is_below(new.path, folder) then
        raise exception 'own_folder: % is not in the folder of %.%', new.path, new.namespace, new.name
            using errcode = '23514', constraint = 'own_folder';
    end if;
    if not exists (
        select from lockstep.decision d where d.decision_id = new.decision_id and d.kind = 'upkeep'
          and lockstep.is_of_this_transaction(d.xmin)
          and d.detail ->> 'table' = concat_ws('.', new.catalog, new.namespace, new.name)) then
        raise exception 'gone_by_decision: no decision of this transaction takes % out of %.%', new.path, new.namespace, new.name
            using errcode = '23514', constraint = 'gone_by_decision';
    end if;
    return new;
end $$;
create trigger own_folder before insert or update of path, catalog, namespace, name, decision_id on lake_gone
    for each row execute function guard_lake_gone();

create function name_request() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    new.opened_as := new.pipeline;
    return new;
end $$;
create trigger opened_as_named before insert on request
    for each row execute function name_request();

create view requested_record as
select q.request_id, q.pipeline, q.opened_at as at, jsonb_build_object(
    'record', 'request', 'pipeline', q.opened_as, 'request', q.request_id, 'lane', q.lane, 'preview', q.preview, 'token', q.token,
    'who', q.who, 'why', q.why, 'login', q.login, 'client', q.client, 'program', q.program, 'os_user', q.os_user,
    'windows', coalesce((
        select jsonb_agg(jsonb_build_object(
            'stream', w.stream_id, 'from_offset', lower(w.offsets), 'until_offset', upper(w.offsets))
            order by w.stream_id, lower(w.offsets))
        from request_window w where w.request_id = q.request_id), '[]'),
    'at', to_char(q.opened_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from request q;

create view ledger_record as
select l.ledger_id, l.at, jsonb_build_object(
    'record', 'ledger', 'ledger', l.ledger_id,
    'at', to_char(l.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text as record
from ledger l;

create function note_requests() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.unsealed (pipeline, request_id) select a.pipeline, a.request_id from added a;
    return null;
end $$;
create trigger noted_for_the_chain after insert on request referencing new table as added
    for each statement execute function note_requests();

create function note_ledger() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    insert into lockstep.unsealed (pipeline, ledger_id) select a.name, l.ledger_id from added a cross join lockstep.ledger l;
    return null;
end $$;
create trigger noted_for_the_chain after insert on pipeline referencing new table as added
    for each statement execute function note_ledger();

-- Whether a decision says where a stream begins. A log that goes on in another stream needs none: begins_where_it_ended.
create function names_start(of_kind text, detail jsonb, of_decision bigint, its stream) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select coalesce(case of_kind
        when 'topic' then detail #> array['topics', its.topic, its.partition::text] = to_jsonb(its.start_offset)
        when 'adopt' then detail -> 'from' @> jsonb_build_array(
            jsonb_build_object('topic', its.topic, 'partition', its.partition, 'offset', its.start_offset))
        when 'retire' then detail -> 'opened' @> jsonb_build_array(
                jsonb_build_object('partition', its.partition, 'start_offset', its.start_offset))
            and exists (
                select from lockstep.stream o where o.pipeline = its.pipeline and o.topic = its.topic
                    and detail -> 'retired' @> jsonb_build_array(jsonb_build_object('stream_id', o.stream_id)))
        when 'move' then (detail #>> '{to,cluster_id}', detail #>> '{to,topic}', detail #>> '{to,topic_id}')
                = (its.cluster_id, its.topic, its.topic_id)
            and detail -> 'moved' @> jsonb_build_array(
                jsonb_build_object('partition', its.partition, 'offset', its.start_offset))
        when 'hand-over' then lockstep.name_now(detail ->> 'to', of_decision) = its.pipeline
            and detail #> array['positions', its.partition::text] = to_jsonb(its.start_offset)
        end, false)
$$;

-- Whether a decision closes a stream. Older hand-overs name the positions alone.
create function names_end(of_kind text, detail jsonb, of_decision bigint, its stream) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select coalesce(case
        when of_kind = 'move' then detail -> 'moved' @> jsonb_build_array(jsonb_build_object('stream_id', its.stream_id))
        when of_kind = 'hand-over' and not detail ? 'retired' then detail -> 'positions' ? its.partition::text
            and lockstep.name_now(detail ->> 'to', of_decision) = its.pipeline
        when of_kind in ('retire', 'hand-over')
        then detail -> 'retired' @> jsonb_build_array(jsonb_build_object('stream_id', its.stream_id))
        end, false)
$$;

-- Whether the log of a stream that growth has closed goes on in a newer one.
create function goes_on(its stream) returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.stream n where n.pipeline = its.pipeline and n.topic = its.topic and n.partition = its.partition
            and n.incarnation = its.incarnation and n.epoch > its.epoch and n.start_offset = its.position)
$$;

-- The first streams of a line of logs begin where the definition says, which is not here yet.
create function guard_beginnings() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    wrong record;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    with before as materialized (
        select s.* from lockstep.stream s
        where s.pipeline in (select a.pipeline from added a) and not exists (select from added n where n.stream_id = s.stream_id))
    -- a partition that is there again in another log, from its first record on, is new
    select a.pipeline, a.topic, a.partition, a.start_offset, o.position, o.topic as was into wrong
    from added n join lockstep.stream a using (stream_id) left join lateral (
        select b.* from before b where b.pipeline = a.pipeline and b.partition = a.partition
            and coalesce(b.first_topic, b.topic) = coalesce(a.first_topic, a.topic)
        order by b.incarnation desc, b.epoch desc limit 1) o on true
    where exists (
            select from before b where b.pipeline = a.pipeline
                and coalesce(b.first_topic, b.topic) = coalesce(a.first_topic, a.topic))
      and case when o.stream_id is null or (o.cluster_id, o.topic_id) <> (a.cluster_id, a.topic_id) then a.start_offset > 0
        else o.incarnation <> a.incarnation end
      and not exists (
        select from lockstep.decision d
        where d.pipeline = a.pipeline and d.kind in ('topic', 'retire', 'move', 'hand-over')
          and lockstep.names_start(d.kind, d.detail, d.decision_id, a) and lockstep.is_of_this_transaction(d.xmin))
    order by a.topic, a.partition limit 1;
    if found then
        raise exception 'begins_by_decision: no decision of this transaction lets % read %-% from offset %, %: lockstep retire %',
            wrong.pipeline, wrong.topic, wrong.partition, wrong.start_offset, coalesce(
                'and its stream of ' || wrong.was || ' ended at ' || wrong.position, 'and the partition is new'), wrong.pipeline
            using errcode = '23514', constraint = 'begins_by_decision';
    end if;
    return null;
end $$;
create trigger begins_by_decision after insert on stream referencing new table as added
    for each statement when (current_user <> 'lockstep_owner'::name) execute function guard_beginnings();

create function guard_end() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    its lockstep.stream;
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    select s.* into its from lockstep.stream s where s.stream_id = new.stream_id;
    if not exists (
        select from lockstep.decision d
        where d.pipeline = its.pipeline and d.kind in ('retire', 'move', 'hand-over', 'grow')
          and case d.kind when 'grow' then lockstep.goes_on(its) else lockstep.names_end(d.kind, d.detail, d.decision_id, its) end
          and lockstep.is_of_this_transaction(d.xmin)) then
        raise exception 'ends_by_decision: no decision of this transaction closes stream % of %-%, which stands at %: lockstep retire %',
            its.stream_id, its.topic, its.partition, its.position, its.pipeline
            using errcode = '23514', constraint = 'ends_by_decision';
    end if;
    return null;
end $$;
create constraint trigger ends_by_decision after update of retired_at on stream
    deferrable initially deferred for each row when (old.retired_at is distinct from new.retired_at and current_user <>
        'lockstep_owner'::name) execute function guard_end();

create function guard_upkept() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception 'upkept_stays: upkeep has passed offset % of stream %, and goes on from there', old.upkept_below, old.stream_id
        using errcode = '23514', constraint = 'upkept_stays';
end $$;
create trigger upkept_stays before update of upkept_below on stream
    for each row when (new.upkept_below < old.upkept_below) execute function guard_upkept();

-- Whether upkeep has passed an offset of a stream's log, or the log is read no more. Growth closes a stream and keeps its log.
create function is_passed(stream integer, at_offset bigint) returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select exists (
        select from lockstep.stream s left join lockstep.stream o on o.pipeline = s.pipeline and o.topic = s.topic
            and o.partition = s.partition and o.incarnation = s.incarnation and o.retired_at is null
        where s.stream_id = stream and (s.retired_at is not null and o.stream_id is null
            or greatest(s.upkept_below, o.upkept_below) > at_offset))
$$;

-- At the COMMIT, a batch of this transaction has read the record. One that gave up has read nothing.
create function guard_read_again() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if exists (
        select from lockstep.coverage c
        where int4range(c.stream_id, c.stream_id, '[]') && int4range(old.stream_id, old.stream_id, '[]')
          and c.offsets @> old."offset" and c.kind = 'batch' and lockstep.is_of_this_transaction(c.xmin)) then
        return null;
    end if;
    if tg_relid = 'lockstep.tombstone'::regclass then
        if lockstep.is_passed(old.stream_id, old."offset") or exists (
            select from lockstep.erasure e join lockstep.erasure_salt z using (pipeline)
            cross join jsonb_array_elements_text(old.key) as k (value)
            where lockstep.is_of_this_transaction(e.xmin) and e.digest = lockstep.key_digest(
                z.salt, convert_to(case when e.as_uuid then lower(replace(k.value, '-', '')) else k.value end, 'UTF8'))) then
            return null;
        end if;
    end if;
    raise exception 'read_again: offset % of stream % was taken out of %, and no batch of this transaction has read it again',
        old."offset", old.stream_id, tg_relid::regclass using errcode = '23514', constraint = 'read_again';
end $$;
create constraint trigger read_again after delete on tombstone
    deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name)
        execute function guard_read_again();
create constraint trigger read_again after delete on reject
    deferrable initially deferred for each row when (current_user <> 'lockstep_owner'::name)
        execute function guard_read_again();

create function guard_feed_timeline() returns trigger
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_schema <> 'lockstep' then
        raise exception 'own_table: % is not a table of this trigger', tg_relid::regclass
            using errcode = '23514', constraint = 'own_table';
    end if;
    if not exists (
        select from lockstep.decision d where d.kind = 'restored' and lockstep.is_of_this_transaction(d.xmin)) then
        raise exception 'timeline_by_decision: no decision of this transaction says that the ledger was restored, and the timeline of the feed of % changes',
            old.target using errcode = '23514', constraint = 'timeline_by_decision';
    end if;
    return new;
end $$;
create trigger timeline_by_decision before update on feed
    for each row when (new.timeline is distinct from old.timeline) execute function guard_feed_timeline();

-- A replay reads whole segments. Where it brings rows of which nothing was sent, those beside them that were sent and are
-- trimmed stay as they were sent: nobody can compare them. Without such rows, or where rejects may be trimmed, it is refused as
-- before.
create function leave_trimmed(of_set bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    of_feed lockstep.feed;
begin
    select f.* into of_feed
    from lockstep.change_set c join lockstep.feed f using (target) join lockstep.batch b using (batch_id)
    where c.change_set_id = of_set and c.seq is null and c.xid = pg_current_xact_id() and f.sends and b.lane = 'replay';
    if not found then
        return;
    end if;
    execute format('with new as (
            select i._stream, i._offset, i._ordinal, x.with_rejects, coalesce(x.offsets @> i._offset, false) as is_trimmed
            from lockstep_feed.%1$I i left join lockstep.trimmed x on x.target = $2 and x.stream_id = i._stream
            where i._change_set = $1 and i._change = ''insert'' and not exists (
                select from lockstep_feed.%1$I d where d._change_set = $1 and d._change = ''delete''
                  and (d._stream, d._offset) = (i._stream, i._offset)))
        delete from %2$s t using new n
        where n.is_trimmed and (t._stream, t._offset, t._ordinal) = (n._stream, n._offset, n._ordinal)
          and exists (select from new where not is_trimmed)
          and not exists (select from new where is_trimmed and with_rejects)',
        of_feed.name, of_feed.target::regclass) using of_set, of_feed.target;
end $$;

-- The rows of the newest attempt, which is staged and not validated, as pg_temp.judged_rows: those in its first staging table,
-- or those that its tasks have copied behind a view.
create function show_to_judge(of_batch bigint, of_token bigint) returns void
    language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    staged text := (
        select format('lockstep_staging.%I', lockstep.staging_name(a.batch_id, a.token, a.nonce))
        from lockstep.batch b join lockstep.attempt a using (batch_id, token)
        where b.batch_id = of_batch and b.token = of_token and b.state = 'planned' and a.state = 'staged');
    rows_table text := (
        select h.rows_table from lockstep.hidden_batch h where h.batch_id = of_batch and exists (
            select from lockstep.landed l where l.batch_id = of_batch and l.token = of_token));
    columns text;
begin
    if staged is null then
        raise exception 'newest_attempt: attempt % of batch % is not its newest, or is not at its judgement', of_token, of_batch
            using errcode = '23514', constraint = 'newest_attempt';
    end if;
    if rows_table is null then
        execute format('create temp view judged_rows as select t.* from %s t
            where t._reason is null and not coalesce(t._deleted, false) and t._task in (
                select m.task from lockstep.manifest m where m.batch_id = %s and m.token = %s)', staged, of_batch, of_token);
    else
        if lockstep.rows_behind(to_regclass(left(rows_table, -5))) is distinct from to_regclass(rows_table) then
            raise exception 'hidden_by_view: no view leaves the hidden rows of % out', rows_table
                using errcode = '23514', constraint = 'hidden_by_view';
        end if;
        columns := (
            select string_agg(format('t.%I', s.attname), ', ' order by s.attnum)
            from pg_attribute s join pg_attribute r on r.attrelid = to_regclass(rows_table) and r.attname = s.attname
            where s.attrelid = to_regclass(staged) and s.attnum > 0 and r.attnum > 0 and not s.attisdropped);
        execute format('create temp view judged_rows as select %s from %s t join lockstep.batch_range r
                on t._stream = r.stream_id and t._offset >= lower(r.offsets) and t._offset < upper(r.offsets)
            where r.batch_id = %s and t._batch = %s', columns, to_regclass(rows_table), of_batch, of_batch);
        perform set_config('enable_seqscan', 'off', true);  -- the key finds the rows
    end if;
    grant select on pg_temp.judged_rows to lockstep_judge;
end $$;
