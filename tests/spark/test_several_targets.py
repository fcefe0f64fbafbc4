"""Several targets of one pipeline: a function each, one read of the log, one transaction, every record accounted for once."""

from __future__ import annotations

import itertools
import json
from contextlib import closing

import pytest

from checker import check
from conftest import Loaded
from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.bounds import Bound
from lockstep.core.decisions import Caller
from lockstep.core.errors import BadData
from lockstep.core.requests import Asked
from lockstep.ledger import tracing
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.verify import verify
