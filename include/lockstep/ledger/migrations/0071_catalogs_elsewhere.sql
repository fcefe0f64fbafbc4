-- A table of a catalog elsewhere has an owner as others have: the catalog is its store, and stands in front of its name, too.
alter table target_owner drop constraint target_is_qualified;
alter table target_owner add constraint target_is_qualified check (
    target ~ '^(lockstep\.)?[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$'
    or (target ~ '^[A-Z][A-Z0-9_]*\.[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$' and split_part(target, '.', 1) = store));
