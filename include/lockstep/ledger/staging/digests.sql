-- name: row_digest
-- A row as one number. Without the outer hash a value could change places with another row's: a record's hash is linear.
hashint8extended(hash_record_extended(row(t._stream, t._offset, t._ordinal, {deleted} {values}), 0), {place})

-- name: staged_reject
-- A staged reject as one number: its coordinates, its bytes and its reason.
hashint8extended(hash_record_extended(row(t._stream, t._offset, t._timestamp, t._key, t._value,
    t._headers collate "C", t._reason collate "C"), 0), -1)

-- name: kept_reject
-- The same of a reject in the ledger.
hashint8extended(hash_record_extended(row(t.stream_id, t."offset", t.timestamp, t.key, t.value,
    t.headers::text collate "C", t.reason collate "C"), 0), -1)

-- name: columns_of
-- A table's columns and types, without those that Lockstep fills.
select a.attname as name, format_type(a.atttypid, a.atttypmod) as type from pg_attribute a
where a.attrelid = to_regclass(%(table)s) and a.attnum > 0 and not a.attisdropped and not a.attname = any(%(reserved)s)
order by a.attnum
