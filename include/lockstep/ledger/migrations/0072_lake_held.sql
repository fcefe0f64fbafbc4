-- Upserted tables of the lake. What a table holds of each batch is told by the commits that change its rows.

-- Rows of a keyed table by the batch and stream that brought them, and the sum of their hashes. Each commit adds what it brings
-- and takes out what it replaces, under the lock of the table's pointer.
create table lake_held (
    target text not null,
    batch_id bigint not null references batch,
    stream_id int not null references stream,
    rows bigint not null,
    digest numeric not null,
    primary key (target, batch_id, stream_id)
);

grant select on lake_held to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
grant insert, delete on lake_held to lockstep_committer;
grant update (rows, digest) on lake_held to lockstep_committer;
