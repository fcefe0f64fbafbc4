"""Keeps a second process that has Great Expectations imported, and judges a batch's rows there.

Its import takes seconds of a processor. It begins during the read, and serves every later batch of this process. A thread would
not do. Both would import PySpark, and a second thread may see half of a module.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

from lockstep.core.pipeline.guarantees import commit_unit
from lockstep.core.pipeline.violations import Judgement
from lockstep.core.states import CommitUnit

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId

JUDGE = "lockstep.steps.batch.expectations"


class JudgeBeside:
    """The process, if it was begun. It ends with this one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Returns the process's number, or None if it does not run."""
        return self._process.pid if self._process is not None else None

    def begin(self) -> None:
        """Starts the process unless it runs, and waits for nothing."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", JUDGE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is this process's, which ends the other
            )

    def ask(self, dsn: str, folder: PipelineFolder, attempt: AttemptId) -> Judgement | None:
        """Returns the judgement. Returns None if nothing was begun, or if the process cannot judge."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        found = None
        try:
            pickle.dump((dsn, folder, attempt), process.stdin)
            process.stdin.flush()
            found = pickle.load(process.stdout)  # noqa: S301 - from our own process, over its own pipe
        except (OSError, EOFError, TypeError, AttributeError, pickle.PickleError):  # the last three: it is no value
            pass
        finally:
            if not isinstance(found, Judgement):  # an answer that is still to come would be taken for the next one's
                self.end()
        return found

    def end(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


@cache
def judge_beside() -> JudgeBeside:
    """Returns the judge of this process."""
    return JudgeBeside()


def begin_judge(folder: PipelineFolder) -> None:
    """Starts the judge if the pipeline's batches will need one."""
    if folder.expectations and commit_unit(folder.pipeline.guarantee) == CommitUnit.BATCH:
        judge_beside().begin()
