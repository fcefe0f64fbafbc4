-- name: open_relay
-- From here on, what is not sent is not trimmed.
insert into lockstep.relay (target, topic, transactional_id, began_at, confirmed)
select f.target, %(topic)s, 'lockstep.' || substr(md5(gen_random_uuid()::text), 1, 8) || '.' || f.target, f.kept_from, f.kept_from
from lockstep.feed f where f.target = %(target)s
on conflict (target) do nothing

-- name: relay
-- What is known of a relay; no row: the feed is sent nowhere.
select r.target, r.topic, r.cluster_id, r.topic_id, r.partitions, r.transactional_id, r.token, r.held_by, r.began_at,
    r.confirmed, r.intent, f.kept_from, f.next_number
from lockstep.relay r join lockstep.feed f using (target) where r.target = %(target)s

-- name: was_restarted
-- A relay that a person has let begin anew.
select from lockstep.relay where target = %(target)s and restarted_by is not null

-- name: hold
-- A lease saves work. What makes it safe is that Kafka ends the transactions of an earlier relay.
update lockstep.relay set held_by = %(owner)s, held_until = clock_timestamp() + %(seconds)s * interval '1 second'
where target = %(target)s and (held_until < clock_timestamp() or held_by in (%(owner)s, %(gone)s))

-- name: draw_token
-- An earlier relay that wakes up has another token, and writes nothing more.
update lockstep.relay set token = token + 1, held_by = %(owner)s where target = %(target)s returning token

-- name: know_sink
-- The log of the first transaction, and of all others.
update lockstep.relay set cluster_id = %(cluster_id)s, topic_id = %(topic_id)s, partitions = %(partitions)s
where target = %(target)s and token = %(token)s

-- name: intend
-- Where the transaction that begins now will end.
update lockstep.relay set intent = %(until)s, held_until = clock_timestamp() + %(seconds)s * interval '1 second'
where target = %(target)s and token = %(token)s

-- name: confirm
-- Kafka has acknowledged the transaction, or its cursor has told of it.
update lockstep.relay set confirmed = %(until)s, intent = null, moved_at = clock_timestamp()
where target = %(target)s and token = %(token)s

-- name: release
-- The next relay need not wait for the lease to end.
update lockstep.relay set held_until = clock_timestamp() where target = %(target)s and held_by = %(owner)s

-- name: begin_anew
-- A person says where, and why.
update lockstep.relay set topic = %(topic)s, cluster_id = %(cluster_id)s, topic_id = %(topic_id)s,
    partitions = %(partitions)s, began_at = %(number)s, confirmed = %(number)s, intent = null,
    restarted_by = %(decision)s, moved_at = clock_timestamp()
where target = %(target)s and token = %(token)s
