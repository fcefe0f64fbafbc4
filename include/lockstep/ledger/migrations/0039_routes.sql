-- Each attempt says which way its records took, and why.
alter table attempt add column route jsonb,
    add constraint route_says_why check (route is null
        or coalesce(route ->> 'way' in ('process', 'tasks', 'spark') and route ->> 'because' <> '', false));
grant update (route) on attempt to lockstep_stager;
