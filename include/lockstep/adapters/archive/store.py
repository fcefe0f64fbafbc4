"""Writes, reads, lists and removes the files of an archive, in a folder or in S3 by pyarrow."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote, urlsplit

from lockstep.adapters.archive.disk import put_whole
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.lake.within import is_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem

_AWS_ERROR = re.compile(r"AWS Error (\w+)")  # the rest of its text may repeat what a caller signed
PARQUET = ".parquet"
UNFINISHED = ".unfinished"


class ArchiveStore:
    """The place of an archive, such as `file:///srv/archive` or `s3://bucket/prefix`.

    Keys come from the environment, as the AWS SDK takes them. Paths are relative to the place.
    """

    def __init__(self, place: str) -> None:
        parts = urlsplit(place)
        self.place = place
        self.shown = place.partition("?")[0].rstrip("/")
        self._folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._root = PurePosixPath(parts.netloc + parts.path)

    def __reduce__(self) -> tuple[type[ArchiveStore], tuple[str]]:
        """Pickles the place alone. Executors find their own keys."""
        return ArchiveStore, (self.place,)

    def put(self, path: str, local: Path) -> None:
        """Copies a local file to this path. It is there as a whole, or not at all."""
        with self._answers(path):
            if self._folder is not None:
                place = self._local(path)
                place.parent.mkdir(parents=True, exist_ok=True)
                put_whole(local, place, place.with_name(place.name + UNFINISHED))
                return
            with local.open("rb") as source, self._s3.open_output_stream(self._key(path)) as out:
                while piece := source.read(2**20):
                    out.write(piece)

    def content(self, path: str) -> bytes | None:
        """Returns the bytes of a file, or None if it is not there."""
        with self._answers(path):
            try:
                if self._folder is not None:
                    return self._local(path).read_bytes()
                with self._s3.open_input_stream(self._key(path)) as source:
                    return bytes(source.read())
            except FileNotFoundError:
                return None

    def remove(self, path: str) -> bool:
        """Removes a file. Returns False if it was not there."""
        with self._answers(path):
            try:
                if self._folder is not None:
                    self._local(path).unlink()
                else:
                    self._s3.delete_file(self._key(path))
            except FileNotFoundError:
                return False
        return True

    def paths(self, below: str) -> list[str]:
        """Returns the paths of all archived files below a folder, in order."""
        with self._answers(below):
            if self._folder is not None:
                found = (self._folder / below).rglob(f"*{PARQUET}")
                return sorted(str(each.relative_to(self._folder)) for each in found)
            from pyarrow.fs import FileSelector  # noqa: PLC0415 - as below

            asked = FileSelector(self._key(below), recursive=True, allow_not_found=True)
            names = [each.path for each in self._s3.get_file_info(asked) if each.path.endswith(PARQUET)]
            return sorted(str(PurePosixPath(name).relative_to(self._root)) for name in names)

    @cached_property
    def _s3(self) -> FileSystem:
        from pyarrow.fs import FileSystem  # noqa: PLC0415 - a folder needs none of it

        return FileSystem.from_uri(self.place)[0]

    def _key(self, path: str) -> str:
        if not is_below(f"/archive/{path}", "/archive"):
            self._refuse(path)
        return str(self._root / path)

    def _local(self, path: str) -> Path:
        """Returns a file's path on this machine. Refuses one that leaves the archive's folder, also by a link."""
        folder = self._folder or Path()
        place = folder / path
        if not is_below(f"/archive/{path}", "/archive") or not place.parent.resolve().is_relative_to(folder.resolve()):
            self._refuse(path)
        return place

    def _refuse(self, path: str) -> NoReturn:
        raise Refusal(
            f"archive {self.shown}: {path!r} is not a file below it; nothing there was read, written or removed",
            next_command="find out who wrote this path into lockstep.archived",
        )

    @contextmanager
    def _answers(self, path: str) -> Iterator[None]:
        """Turns errors of the store into one line without a secret."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            where = f"{self.shown}/{path}"
            if self._folder is not None:
                why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
                raise Refusal(f"archive {where}: {why}", next_command=f"look at {self.shown}") from None
            found = _AWS_ERROR.search(str(error))
            why = found[1] if found else type(error).__name__
            next_command = "look at the place, its region and AWS_ACCESS_KEY_ID"
            raise Unreachable(f"archive {where}: the store answered {why}", next_command=next_command) from None
