-- Tasks write files of the lake while they read. The stager records them, with the digests of their values.

-- {"columns": ["id", ...], "streams": {"17": sum of the hashes of its rows}}. Null: written out of staging, by the committer.
alter table lake_file add column digests jsonb;

grant insert on lake_prefix, lake_file to lockstep_stager;
