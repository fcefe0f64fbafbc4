create table if not exists public.payments (
    payment_id text,
    order_id text,
    amount numeric(12, 2),
    currency text,
    method text,
    paid_at timestamptz,
    extra jsonb,
    account text,
    headers jsonb,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null,
    primary key (_stream, _offset, _ordinal)
);
