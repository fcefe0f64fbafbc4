"""Gives this process a home of Airflow's own, when imported and before Airflow is.

A process of xdist inherits the environment of the first one, and would share its database.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile

assert "airflow" not in sys.modules, "Airflow is imported already, and has taken its home"
HOME, OWNER = tempfile.mkdtemp(prefix="airflow-"), os.getpid()
os.environ["AIRFLOW_HOME"] = HOME


@atexit.register
def remove() -> None:
    """Removes the home with the process that made it, and not with a copy of that process."""
    if os.getpid() == OWNER:
        shutil.rmtree(HOME, ignore_errors=True)


os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
