"""Holds the laws of the ledger in SQL. Each query finds the rows that break one."""

# The owner of an offset: the newest commit over it. Coverage merged below log start names one batch of many.
OWNED = """(select c.batch_id, c.stream_id, c.token, r.offsets
    from lockstep.commit c join lockstep.batch_range r using (batch_id, stream_id) where not exists (
        select 1 from lockstep.commit d join lockstep.batch_range n using (batch_id, stream_id)
        where d.stream_id = c.stream_id and d.token > c.token and n.offsets && r.offsets))"""
LEDGER = {
    "a batch was committed by two attempts": """
        select c.batch_id from lockstep.commit c join lockstep.attempt using (batch_id, token) where unit = 'batch'
        group by 1 having count(distinct c.token) > 1""",
    "a batch was committed by an attempt that was not its newest": """
        select c.batch_id, c.token from lockstep.commit c join lockstep.attempt n using (batch_id, token)
        where exists (select 1 from lockstep.attempt a where a.batch_id = c.batch_id and a.token > c.token
            and (n.unit = 'batch' or a.opened_at < c.at))""",
    "an attempt was opened after its batch was closed": """
        select a.batch_id, a.token from lockstep.attempt a join lockstep.batch b using (batch_id)
        where b.closed_at < a.opened_at""",
    "a committed batch lacks a commit row": """
        select r.batch_id, r.stream_id from lockstep.batch b join lockstep.batch_range r using (batch_id)
        left join lockstep.commit c using (batch_id, stream_id) where b.state = 'committed' and c.token is null""",
    "a batch that is not committed has a commit row": """
        select c.batch_id from lockstep.commit c join lockstep.attempt a using (batch_id, token)
        join lockstep.batch b on b.batch_id = c.batch_id where b.state <> 'committed' and a.unit = 'batch'""",
    "a closed batch still claims offsets": """
        select k.batch_id from lockstep.claim k join lockstep.batch b using (batch_id) where b.state <> 'planned'""",
    "counts do not reconcile": """
        select batch_id, stream_id from lockstep.result where delivered <> written + filtered + rejected""",
    "what batches cover is not what they were planned to read and have committed": f"""
        select * from (select stream_id, range_agg(offsets) as offsets from lockstep.coverage where kind = 'batch' group by 1) c
        full join (select stream_id, range_agg(offsets) as offsets from {OWNED} x group by 1) o using (stream_id)
        where c.offsets is distinct from o.offsets""",
    "coverage names a batch that owns nothing in it": f"""
        select * from lockstep.coverage v left join {OWNED} o using (batch_id, stream_id)
        where v.kind = 'batch' and not coalesce(o.offsets <@ v.offsets, false)""",
}
LEFT_BEHIND = {
    "a staging table is left": "select tablename from pg_tables where schemaname = 'lockstep_staging'",
    "a prepared transaction is left": "select gid from pg_prepared_xacts where database = current_database()",
    "a session is idle in a transaction": """
        select pid from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'
        and application_name <> 'onlooker'  -- a test's own reader, whose snapshots stay open""",
}
