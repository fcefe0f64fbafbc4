"""Tests the way on from a lake table that a restore has lost: its records are read into another one, by a clone."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace

from cli.pairs.kinds import Record
from cli.pairs.scene import WHY
from support.oracles.next_commands import commands_in, faults_of
from support.scenes.command_line import assert_refused
from support.servers.timelines import copied

PLACEHOLDER = "ANOTHER_NAME"


def test_a_table_of_a_backup_older_than_upkeep_is_read_anew_by_the_commands_that_restored_names(pair, postgres):
    made = pair("lake append")
    made.drain()
    with copied(postgres, made.dsn) as survivor:
        for n in range(10, 16):
            made.put(Record("e", n))
            made.drain()
        time.sleep(1.1)
        made.lockstep.environ(LOCKSTEP_LAKE_KEEP="1s")
        made.say("upkeep", "drill", "--lake")
        made.dsn = survivor
        made.lockstep.environ(LOCKSTEP_DSN=survivor)

        (lost,) = [need for need in made.say("restored", "drill", *WHY, "--json").document["needs"] if "sales" in need]
        assert faults_of(lost) == []
        assert_refused(made.lockstep("run", "drill"), "a file is missing", "Next: ")
        commands = [command for command in commands_in(lost) if PLACEHOLDER in command]
        assert len(commands) == 4, lost
        for command in commands:
            made.say(*shlex.split(command.replace(PLACEHOLDER, "other"))[1:])

        made.kind = replace(made.kind, look="sales.other")
        assert made.rows() == made.expected()
