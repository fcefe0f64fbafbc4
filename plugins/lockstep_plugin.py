"""Registers Lockstep's pages with Airflow where no installed package does. Else it would be a second registration."""

from lockstep.web import plugin

if not plugin.comes_with_package():
    LockstepPlugin = plugin.LockstepPlugin
