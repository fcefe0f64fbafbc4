create table if not exists public.heartbeats (
    device text,
    battery smallint,
    at timestamptz,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null,
    primary key (_stream, _offset, _ordinal)
);
