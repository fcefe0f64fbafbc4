-- `verify --deep` keeps a SHA-256 over the rows of each segment, in their order, by a decision. Decisions are links of the chain.
-- The digests of contents are sums of 64-bit hashes, and somebody who makes up rows finds others with the same sum.

-- One kind of decisions more, beside whatever kinds there are.
do $$
declare
    kinds text := (select pg_get_constraintdef(oid) from pg_constraint
        where conrelid = 'lockstep.decision'::regclass and conname = 'decision_kind_check');
begin
    if strpos(kinds, '''upkeep''::text') = 0 then
        raise exception 'decision_kind_check is not as earlier migrations made it: %', kinds;
    end if;
    alter table decision drop constraint decision_kind_check;
    execute format('alter table decision add constraint decision_kind_check %s',
        replace(kinds, '''upkeep''::text', '''upkeep''::text, ''hash-rows''::text'));
end $$;
alter table decision add constraint hashes_are_told check (kind <> 'hash-rows' or (
    coalesce(jsonb_typeof(detail -> 'target') = 'string' and jsonb_typeof(detail -> 'columns') = 'array', false)
    and coalesce(jsonb_path_exists(detail, '$.segments[*]'), false)
    and not jsonb_path_exists(detail, '$.segments[*] ? (!(@.batch.type() == "number" && @.stream.type() == "number"
        && @.erasure.type() == "number" && @.rows.type() == "number" && @.sha256 like_regex "^[0-9a-f]{64}$"))')));
create index hashes_of_pipeline on decision (pipeline) where kind = 'hash-rows';
