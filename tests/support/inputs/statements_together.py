"""Holds statements that do harm together, in one transaction: what a guard lets through if another was misled."""

STREAM = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch,
        start_offset, position)
    select pipeline, cluster_id, topic, {topic}, {partition}, incarnation + {more}, epoch + {more}, {start}, {start}
    from lockstep.stream where stream_id = {s}"""
FREE = """delete from lockstep.claim where stream_id = {s};
    update lockstep.batch set state = 'abandoned', closed_at = clock_timestamp()
    where pipeline = 'orders' and state = 'planned'"""
RETIRE = FREE + "; update lockstep.stream set retired_at = clock_timestamp() where stream_id = {s}"
OPEN_REPLAY = """with r as (
        insert into lockstep.request (pipeline, lane, token, who, why) values ('orders', 'replay', 1000, 'me', 'x')
        returning request_id),
    b as (insert into lockstep.batch (pipeline, lane, request_id, owner, lease_until, token)
        select 'orders', 'replay', request_id, 'me', now(), 1001 from r returning batch_id),
    g as (insert into lockstep.batch_range select batch_id, {s}, '[0, 10)' from b),
    k as (insert into lockstep.claim (stream_id, offsets, batch_id, expects, expects_batch)
        select {s}, '[0, 10)', batch_id, 'batch', {b} from b)
    insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until)
    select batch_id, 1001, 'd1', 'me', now() from b"""
GIVE_UP = """delete from lockstep.claim k using lockstep.batch b where b.batch_id = k.batch_id and b.token = 1001;
    update lockstep.attempt set state = 'abandoned', closed_at = clock_timestamp() where token = 1001;
    update lockstep.batch set state = 'abandoned', closed_at = clock_timestamp() where token = 1001"""
COVER = """insert into lockstep.coverage (stream_id, offsets, kind) values ({s}, '[14, 15)', '{{kind}}');
    update lockstep.stream set position = 15 where stream_id = {s}"""
PREFIX = (
    """insert into lockstep.lake_prefix (batch_id, token, place, location) values ({later}, {t2}, 1, '{{folder}}')"""
)
TOGETHER = {
    "a loss without a decision": f"{FREE}; {COVER}".replace("{{kind}}", "loss"),
    "a skip without a decision": f"{FREE}; {COVER}".replace("{{kind}}", "skipped"),
    "a log that begins after the position": f"{RETIRE}; " + STREAM.format(
        topic="topic_id", partition="partition", more=1, start="position + 5", s="{s}"),
    "a log that begins after the position under another id": f"{RETIRE}; " + STREAM.format(
        topic="'topic-9'", partition="partition", more=1, start="position + 5", s="{s}"),
    "a log that is read from its start again": f"{RETIRE}; " + STREAM.format(
        topic="topic_id", partition="partition", more=1, start="0", s="{s}"),
    "a new partition that begins late": STREAM.format(topic="topic_id", partition="7", more=0, start="1000", s="{s}"),
    "deletions below what upkeep is said to have passed":
        "update lockstep.stream set upkept_below = 1000000 where stream_id = {s}; delete from lockstep.tombstone",
    "deletions of a stream that is retired": f"{RETIRE}; delete from lockstep.tombstone",
    "deletions that a replay takes out and gives up": f"{OPEN_REPLAY}; delete from lockstep.tombstone; {GIVE_UP}",
    "rejects that a replay takes out and gives up": f"{OPEN_REPLAY}; delete from lockstep.reject; {GIVE_UP}",
    "totals below what upkeep is said to have passed":
        "update lockstep.stream set upkept_below = 1000000 where stream_id = {s}; delete from lockstep.contribution",
    "a deletion that no record made":
        """insert into lockstep.tombstone (target, key, stream_id, "offset") values ('public.orders', '["k"]', {s}, 1000000)""",
    "a watermark that the clock has not come to": """insert into lockstep.stream_time (stream_id, seen)
        select stream_id, clock_timestamp() from lockstep.stream where pipeline = 'orders' and retired_at is null
        on conflict (stream_id) do update set seen = excluded.seen;
        update lockstep.event_time set watermark = clock_timestamp() - interval '1 minute' where pipeline = 'orders'""",
    "a batch of others that is given up": FREE.replace("stream_id = {s}", "true").replace("pipeline = 'orders'", "true"),
    "a batch that is closed as committed":
        FREE.replace("'abandoned'", "'committed'"),
    "an attempt that says it has committed rows": """update lockstep.attempt
        set state = 'committed', closed_at = clock_timestamp(), effect = '{{"inserted": 1000}}' where token = {t2}""",
    "a pause without a decision": "update lockstep.pipeline set paused = not paused",
    "a table that changes hands": "delete from lockstep.target_owner where pipeline = 'orders';"
        " insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.orders', 'others')",
    "a folder of somebody else's": PREFIX.replace("{{folder}}", "file:///etc"),
    "a file of somebody else's": "insert into lockstep.lake_gone (path, catalog, namespace, name, decision_id)"
        " select 'file:///etc/passwd', 'lockstep', 'sales', 'orders', max(decision_id) from lockstep.decision",
    "sequences that end": "select lockstep.pass_over(9223372036854774807, 9223372036854774807, 2147483647)",
    "an erasure that nobody decides": "insert into lockstep.erasure (pipeline, column_name, as_uuid, digest)"
        " values ('orders', 'id', false, repeat('1', 64)); select lockstep.erase_rejects(max(erasure_id), array['a'::bytea])"
        " from lockstep.erasure",
    "a decision in another's name": "insert into lockstep.decision (pipeline, kind, who, why, detail)"
        " values ('orders', 'recount', 'somebody', 'x', '{{\"target\": \"public.orders\", \"rows\": 5}}')",
    "a trigger of the owner's on rows of one's own": "create temp table mine (pipeline text, decision_id bigint);"
        " create trigger t after insert on mine referencing new table as added for each statement"
        " execute function lockstep.note_decisions(); insert into mine values ('orders', 99)",
}  # fmt: skip
