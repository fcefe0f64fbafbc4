create table if not exists public.signups (
    signup_id text,
    email text,
    country text,
    at timestamptz,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null,
    primary key (_stream, _offset, _ordinal)
);
