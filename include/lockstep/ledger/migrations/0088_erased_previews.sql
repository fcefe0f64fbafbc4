-- A preview keeps rows as they are and as they would be. An erasure empties those that hold the key.

-- The digest of a difference whose rows were erased.
alter table rehearsal add column erased_digest text check (erased_digest ~ '^[0-9a-f]{64}$');

-- Errors, verdicts and previews of the pipeline that match the pattern lose what they say; returns how many.
create or replace function erase_said(of_erasure bigint, pattern text) returns int
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
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
