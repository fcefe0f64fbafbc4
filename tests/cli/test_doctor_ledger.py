"""Tests the doctor with a real Postgres: logins, grants and migrations that deviate, and remedies that repair them."""

from __future__ import annotations

OF_A_RUN = ", ".join(f"lockstep_{role}" for role in ("planner", "stager", "committer", "partition", "reader"))


def test_what_a_login_or_a_database_sets_is_told_and_the_remedy_undoes_it(sound, admin, login, database, findings):
    name, where = login(), database.rpartition("/")[2]
    for setting, wrong in {
        "synchronous_commit": "off",
        "default_transaction_isolation": "'repeatable read'",
        "idle_in_transaction_session_timeout": "'1s'",
    }.items():
        for place in (f'role "{name}"', f'role "{name}" in database "{where}"', f'database "{where}"'):
            admin(f"alter {place} set {setting} = {wrong}")
            found = findings("orders")
            assert set(found) == {setting}
            assert place.replace('"', "") in found[setting]["found"]
            admin(found[setting]["remedy"])
    assert findings("orders") == {}
    admin(f"alter role {name} connection limit 5")
    found = findings("orders")
    assert set(found) == {"max_connections"}
    assert found["max_connections"]["severity"] == "problem"
    assert f"role {name}" in found["max_connections"]["remedy"]
    assert sound


def test_a_missing_membership_is_told_and_granting_it_is_enough(sound, admin, login, findings):
    name = login("lockstep_planner, lockstep_stager, lockstep_reader")

    found = findings("orders")

    assert set(found) == {"membership"}
    assert found["membership"]["subject"] == f"role {name}"
    assert "lockstep_committer, lockstep_partition" in found["membership"]["found"]
    admin(found["membership"]["remedy"])
    assert findings("orders") == {}
    login("pg_read_all_settings")  # none of ours: nothing else is guessed
    assert set(findings("orders")) == {"membership"}
    assert sound


def test_grants_that_deviate_are_told_and_what_is_said_puts_them_right(sound, admin, findings):
    for wrong, check, words in (
        ("grant update on lockstep.commit to lockstep_committer", "history", "lockstep_committer update commit"),
        ("grant update (token) on lockstep.result to lockstep_stager", "history", "lockstep_stager update result"),
        ("grant delete on lockstep.decision to public", "history", "public delete decision"),
        ("revoke insert on lockstep.coverage from lockstep_committer", "grants", "lockstep_committer insert coverage"),
    ):
        admin(wrong)
        found = findings("orders")
        assert set(found) == {check}
        assert words in found[check]["found"]
        admin(found[check]["remedy"])
    # Facts that may not be read are reported, too, and stop nothing.
    for wrong in (
        "usage on schema lockstep from lockstep_reader",
        "select on lockstep.stream from lockstep_reader",
        f"select on lockstep.migration from {OF_A_RUN}",
    ):
        admin(f"revoke {wrong}")
        found = findings("orders")
        assert set(found) == {"grants"}
        for _ in range(2):  # three grants are shown at a time
            admin(found["grants"]["remedy"])
            found = findings("orders") or found
    assert findings("orders") == {}
    assert sound


def test_a_target_that_cannot_be_published_to_is_told(sound, admin, findings):
    admin("alter table public.orders set unlogged")
    assert findings("orders")["target"]["found"] == "unlogged"
    admin("revoke insert on public.orders from lockstep_committer")
    assert "not granted" in findings("orders")["target"]["found"]
    admin("drop table public.orders")
    assert findings("orders")["target"]["remedy"] == "lockstep migrate orders"
    assert sound


def test_migrations_that_deviate_are_told_apart(sound, admin, findings):
    admin("insert into lockstep.migration (version, name, checksum) values (99, 'future', 'x')")
    assert "0099 applied, which this code does not have" in findings("orders")["migrations"]["found"]
    admin("update lockstep.migration set checksum = 'other' where version = 1")
    found = findings("orders")
    assert set(found) == {"migrations"}
    assert "0001 applied with other content" in found["migrations"]["found"]
    assert sound


def test_a_database_without_a_ledger_is_told_to_migrate(lockstep, sound, empty_database, findings):
    lockstep.environ(LOCKSTEP_DSN=empty_database)
    found = findings("orders")
    assert set(found) == {"migrations", "target"}
    assert found["migrations"]["remedy"] == "lockstep migrate"
    assert sound


def test_a_login_that_may_more_than_a_run_is_told(lockstep, sound, admin, login):
    def told():
        found = lockstep("doctor", "orders", "--json").document["findings"]
        return [f["found"] for f in found if f["check"] == "privileges"]

    assert told() == ["more than a run needs: createrole, createdb, owner of the database, member of lockstep_owner"]
    name = login()
    assert told() == []
    admin(f"alter role {name} createrole")
    admin(f"grant lockstep_owner to {name}")
    assert told() == ["more than a run needs: createrole, member of lockstep_owner"]
    admin(f"alter role {name} nocreaterole superuser")
    assert told() == ["more than a run needs: superuser"]
    assert sound


def test_a_guard_that_was_taken_away_is_told_by_doctor_and_verify(lockstep, here, admin):
    here.drain()
    admin("alter table lockstep.commit disable trigger same_timeline")

    doctor = lockstep("doctor", "drill", "--json")
    verify = lockstep("verify", "drill")

    (found,) = [f for f in doctor.document["findings"] if f["check"] == "catalog"]
    assert (doctor.code, found["severity"]) == (1, "problem")
    assert found["found"] == "trigger lockstep.commit.same_timeline is disabled"
    assert verify.code == 1
    assert "trigger lockstep.commit.same_timeline is disabled" in " ".join(verify.out.split())
    admin(found["remedy"])
    assert lockstep("verify", "drill").code == 0
