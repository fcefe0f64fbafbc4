create table if not exists public.baskets (
    basket_id text primary key,
    customer text,
    placed_at timestamptz,
    lines int,
    seen_at timestamptz,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null
);
create table if not exists public.basket_lines (
    basket_id text,
    sku text,
    quantity int,
    price numeric(10, 2),
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null,
    primary key (_stream, _offset, _ordinal)
);
