-- A deletion keeps its place in the source's log, as bytes that sort as the log does. Nothing has filled this column yet.

alter table tombstone alter column "order" type bytea using null::bytea;
