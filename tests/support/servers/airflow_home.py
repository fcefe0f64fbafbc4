"""Gives this process a home of Airflow's own, when imported and before Airflow is.

A process of xdist inherits the environment of the first one, and would share its database.
"""

from __future__ import annotations

import os
import sys
import tempfile

assert "airflow" not in sys.modules, "Airflow is imported already, and has taken its home"
os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-")
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
