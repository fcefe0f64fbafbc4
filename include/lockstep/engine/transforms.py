"""Runs the functions of a pipeline's transform.py, found by name, on a batch's records or on an empty frame."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from lockstep.core.capture.debezium import UNAVAILABLE_COLUMN
from lockstep.core.errors import BadDefinition, Refusal, spark_lost
from lockstep.core.pipeline.columns import Column
from lockstep.core.pipeline.folder import TRANSFORM
from lockstep.core.pipeline.targets import History
from lockstep.core.records import GIVEN_COLUMNS, RESERVED, UNAVAILABLE
from lockstep.core.staging import Run
from lockstep.deadline import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from pyspark.sql import SparkSession

    from lockstep.core.pipeline.definition import Target
    from lockstep.core.pipeline.folder import PipelineFolder

TRANSFORM_NAME = "transform"
TIMESTAMP = "_timestamp"
# The class by which a Python function becomes Spark's, of a session of this process and of one on a Connect server.
UDF_MODULES = {"pyspark.sql.udf", "pyspark.sql.connect.udf"}
_seconds: ContextVar[float | None] = ContextVar("seconds", default=None)
SPARK_TYPES = {
    "string": "string",
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "date": "date",
    "timestamp": "timestamp",
    "binary": "binary",
}


class Transforms:
    """The transforms of a pipeline as its folder was loaded. A module runs once, on first need."""

    def __init__(self, folder: PipelineFolder) -> None:
        self._folder = folder
        self._module: ModuleType | None = None

    def function(self, target: Target) -> Callable[..., DataFrame] | None:
        """Returns the function that makes the target's rows, or None if the decoded columns are the rows."""
        if target.transform is None and self._folder.transform is None:
            return None
        wanted = target.transform or TRANSFORM_NAME
        known = vars(self._loaded(wanted)).items()
        has: dict[str, Callable[..., DataFrame]] = {
            name: value for name, value in known if callable(value) and not inspect.isclass(value)
        }
        if wanted in has:
            return has[wanted]
        targets = self._folder.pipeline.targets
        if target.transform is None and any(each.transform in has for each in targets if each.transform):
            return None
        raise BadDefinition(
            f"{self._where}: {self._folder.transform_file} has no function {wanted}, which makes the rows of {target.table}; "
            f"it has: {', '.join(sorted(name for name in has if not name.startswith('_'))) or 'none'}",
            next_command=f"lockstep check {self._where}",
        )

    def columns(self, target: Target, spark: SparkSession) -> tuple[Column, ...]:
        """Returns the columns that reach the target, found by running its function on an empty frame."""
        if self.function(target) is None:
            return self._folder.pipeline.staged_columns
        frame = self.on_nothing(target, spark)
        try:
            types = frame.dtypes  # Spark Connect looks at the names of columns only here
        except Exception as error:
            raise self._fails(error) from error
        for name in ("_stream", "_offset"):
            if name not in [column for column, _ in types]:
                raise BadDefinition(f"{self._where}: the transform drops {name}, and every row answers for its record")
        self._require_mark([column for column, _ in types])
        if _begins_at_times(target) and TIMESTAMP not in [column for column, _ in types]:
            raise BadDefinition(
                f"{self._where}: the transform drops {TIMESTAMP}, from which the versions of {target.table} are valid: hand it "
                "on, or name order_by"
            )
        return tuple(self._column(name, type_) for name, type_ in types if name not in RESERVED)

    @property
    def given_columns(self) -> tuple[tuple[str, str], ...]:
        """Returns the columns of a transform's input with their types."""
        return (*GIVEN_COLUMNS, *((column.name, column.type) for column in self._folder.pipeline.staged_columns))

    @property
    def given(self) -> str:
        """Returns the schema of a transform's input."""
        return ", ".join(f"`{name}` {type_}" for name, type_ in self.given_columns)

    def on_nothing(self, target: Target, spark: SparkSession) -> DataFrame:
        """Returns the output of the target's function for an empty frame."""
        return self.applied(target, spark.createDataFrame([], self.given), Run(self._where))

    def applied(self, target: Target, records: DataFrame, run: Run) -> DataFrame:
        """Returns the target's rows for decoded records. A function with a second parameter also takes `run`.

        They have `_timestamp` only for a history whose versions begin at the records' times.
        """
        made = self._made(target, records, run)
        return made if _begins_at_times(target) else made.drop(TIMESTAMP)

    def _made(self, target: Target, records: DataFrame, run: Run) -> DataFrame:
        function = self.function(target)
        if function is None:
            return records
        try:
            with self._watched():
                made = function(records, run) if _takes_run(function) else function(records)
        except Exception as error:
            raise self._fails(error) from error
        if not isinstance(made, DataFrame):
            raise BadDefinition(
                f"{self._where}: {self._folder.transform_file} returns {type(made).__name__}, and must return a DataFrame"
            )
        return made

    def _loaded(self, wanted: str) -> ModuleType:
        """Loads the module from the source that the definition's hash covers."""
        if self._folder.transform is None:
            raise BadDefinition(f"{self._where}: there is no transform.py, and a target names its function {wanted}")
        if self._module is None:
            file = self._folder.transform_file
            path = self._folder.path / file if file == TRANSFORM else file
            spec = importlib.util.spec_from_file_location(f"pipelines.{self._where}.transform", path)
            if spec is None:
                raise BadDefinition(f"{self._where}: {file} cannot be loaded")
            module = importlib.util.module_from_spec(spec)
            try:
                with self._watched():
                    exec(compile(self._folder.transform, path, "exec"), vars(module))  # noqa: S102 - the pipeline's own code
            except Exception as error:
                raise self._fails(error) from error
            self._module = module
        return self._module

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Gives a deadline to each Python function that becomes Spark's within the block: by `udf`, `mapInArrow` and others."""
        for name in UDF_MODULES & sys.modules.keys():
            _change(sys.modules[name].UserDefinedFunction)
        token = _seconds.set(self._folder.pipeline.record_limits.seconds)
        try:
            yield
        finally:
            _seconds.reset(token)

    def _fails(self, error: Exception) -> Refusal:
        if lost := spark_lost(self._where, error):
            return lost
        line = (str(error).strip().splitlines() or [""])[0]
        file = self._folder.transform_file
        here = [row.lineno for row in extract_tb(error.__traceback__) if Path(row.filename).name == file.name]
        at = f" (line {here[-1]})" if here else ""  # a SyntaxError names its line itself
        return BadDefinition(f"{self._where}: {file} fails: {type(error).__name__}: {line}{at}")

    def _require_mark(self, names: Sequence[str]) -> None:
        """Refuses to lose the mark of unavailable values, or to make one up."""
        is_marked = UNAVAILABLE_COLUMN in self._folder.pipeline.staged_columns
        if is_marked and UNAVAILABLE not in names:
            raise BadDefinition(
                f"{self._where}: the transform drops {UNAVAILABLE}, which says what a row keeps: hand it on as it is"
            )
        if not is_marked and UNAVAILABLE in names:
            raise BadDefinition(f"{self._where}: the transform's column {UNAVAILABLE} is reserved: Lockstep fills it")

    def _column(self, name: str, type_: str) -> Column:
        known = type_ if type_.startswith("decimal") else SPARK_TYPES.get(type_)
        if known is None:
            raise BadDefinition(f"{self._where}: the transform's column {name} is {type_}; cast it, or use to_json")
        return Column(name, known)

    @property
    def _where(self) -> str:
        return self._folder.pipeline.name


@cache
def _change(class_: Any) -> None:
    """Lets functions become Spark's with the deadline of a block. Outside of any they become so as they are."""
    made = class_.__init__

    @wraps(made)
    def begun(self: Any, func: Any, *more: Any, **named: Any) -> None:
        seconds = _seconds.get()
        made(self, func if seconds is None else watched(func, seconds), *more, **named)

    class_.__init__ = begun


def _begins_at_times(target: Target) -> bool:
    """Returns True for a history whose versions begin at the times of their records."""
    return isinstance(target, History) and target.order_by is None


def _takes_run(function: Callable[..., DataFrame]) -> bool:
    """Returns True if the second parameter is the run, by its name or as a positional one without a default."""
    _, *more = inspect.signature(function).parameters.values()
    if not more:
        return False
    positional = more[0].kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return positional and (more[0].name == "run" or more[0].default is inspect.Parameter.empty)
