create table if not exists public.reviews (
    review_id text,
    product_id text,
    author text,
    country text,
    body text,
    fewest_stars int,
    posted_at timestamptz,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null,
    primary key (_stream, _offset, _ordinal)
);
create table if not exists public.review_ratings (
    review_id text,
    aspect text,
    stars int,
    _stream int4 not null,
    _offset int8 not null,
    _ordinal int4 not null,
    _batch int8 not null,
    primary key (_stream, _offset, _ordinal)
);
