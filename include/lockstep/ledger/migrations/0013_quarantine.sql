-- Records that tasks reported as written and an expectation turned away: they count among the rejects.

alter table result
    add column quarantined bigint not null default 0,
    add constraint quarantined_are_rejected check (quarantined between 0 and rejected);
