create table if not exists public.spend (
    customer text primary key,
    orders bigint not null,
    amount numeric,
    first_at timestamptz,
    last_at timestamptz,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null
);
