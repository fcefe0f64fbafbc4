create table if not exists public.orders (
    order_id text primary key,
    customer text,
    amount numeric(12, 2),
    status text,
    placed_at timestamptz,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null
);
