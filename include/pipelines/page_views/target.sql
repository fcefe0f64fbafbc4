-- No unique index: after a crash the same rows are appended once more.
create table if not exists public.page_views (
    page text,
    visitor text,
    at timestamptz,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null
);
