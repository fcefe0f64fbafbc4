create table if not exists public.sales_by_hour (
    window_start timestamptz,
    window_end timestamptz not null,
    shop text,
    sales bigint not null,
    revenue numeric,
    _revision int not null,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null,
    primary key (window_start, shop)
);
