-- name: blank_images
-- How many changes have lost a row that held the key, and how many wait until they are sent.
select changes, waiting from lockstep.blank_images(%(erasure_id)s, %(target)s, %(key)s)

-- name: still_in_feed
-- How many changes of a feed hold the key, before or after, in any column of the table.
select count(distinct (i._change_set, i._ordinal_in_set)) as changes from {rows} i
where exists (select from jsonb_each_text(to_jsonb(i.*) - %(ours)s::text[]) v where v.value ~ %(pattern)s)

-- name: erased_numbers
-- The changes from a number on that an erasure took a row out of.
select distinct s.first_number + b.ordinal as number from lockstep.blank_change b join lockstep.change_set s using (change_set_id)
where s.target = %(target)s and s.first_number + b.ordinal >= %(begin)s
