"""Leads an address of the lake to a file system of Arrow, for folders or for an object store.

Tasks use it, and have no pyiceberg.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, S3FileSystem

from lockstep.adapters.archive.disk import to_disk
from lockstep.adapters.connection.options import content_of, options_of
from lockstep.core.errors import BadDefinition, Refusal, Unreachable
from lockstep.core.lake import lake_options as names
from lockstep.core.lake.lake_options import LakeOptions, lake_options
from lockstep.core.lake.store_words import NO_BUCKET, NO_STORE, TO_CORRECT, StoreAnswer, store_answer
from lockstep.core.settings import LAKE_CONFIG, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

S3 = ("s3", "s3a", "s3n")  # the names that readers have for one kind of store
STORE_CONNECT_SECONDS = 5
STORE_REQUEST_SECONDS = 30


def configured_lake() -> LakeOptions:
    """Returns the options of LOCKSTEP_LAKE_CONFIG: a JSON object, or the path of a file with one.

    The certificate that they name is read here, so that the receiver of the options needs no file. A file that was
    written anew is read anew, because keys expire.
    """
    given = settings_of().lake_options
    return _options(given, _written_at(given))


def _written_at(given: str) -> int | None:
    """Returns the time of the file that holds the options, or None if none does."""
    if given.startswith("{"):
        return None
    try:
        return Path(given).stat().st_mtime_ns
    except OSError:
        return None


@cache
def _options(given: str, _written: int | None) -> LakeOptions:
    try:
        found = lake_options(options_of(LAKE_CONFIG, given))
    except BadDefinition as error:
        raise BadDefinition(f"{LAKE_CONFIG}: {error.message}", next_command=TO_CORRECT) from None
    return found.inlined(lambda path: content_of(LAKE_CONFIG, path))


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A file or a folder of the lake. Its path is the file system's own."""

    fs: FileSystem
    path: str

    @property
    def local(self) -> Path | None:
        """Returns the path on this machine, or None if the place is in an object store."""
        return Path(self.path) if isinstance(self.fs, LocalFileSystem) else None

    @property
    def name(self) -> str:
        """Returns the last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> LakePlace:
        """Returns the folder that the place is in."""
        return LakePlace(self.fs, self.path.rpartition("/")[0])

    @property
    def unfinished(self) -> LakePlace:
        """Returns the place where a file is written. A store shows it when it is whole, and needs no other name."""
        return LakePlace(self.fs, f"{self.parent.path}/.{self.name}") if self.local else self

    def finish(self) -> None:
        """Forces a written file to disk, and then gives it its name. A store has done both when the file was closed."""
        if (path := self.local) is not None:
            to_disk(path.with_name(self.unfinished.name))
            path.with_name(self.unfinished.name).rename(path)
            to_disk(path.parent)

    def settle(self) -> None:
        """Forces a file or a folder to disk. A store needs nothing for it."""
        if (path := self.local) is not None:
            to_disk(path)

    def make(self, above: int) -> None:
        """Makes a folder, durably, with so many above it. A store has no folders."""
        if (path := self.local) is not None:
            path.mkdir(parents=True, exist_ok=True)
            for folder in list(path.parents)[:above]:
                to_disk(folder)

    def size(self) -> int:
        """Returns the bytes of a file, and 0 of one that is not there."""
        return int(self.fs.get_file_info(self.path).size or 0)

    def files(self) -> Iterator[LakePlace]:
        """Yields the files of a folder, and none of a folder that is not there."""
        for found in self.fs.get_file_info(FileSelector(self.path, allow_not_found=True)):
            if found.type == FileType.File and not found.path.endswith("/"):
                yield LakePlace(self.fs, found.path)

    def delete(self) -> None:
        """Deletes a file. It may have gone already."""
        try:
            self.fs.delete_file(self.path)
        except FileNotFoundError:
            return

    def delete_empty(self) -> None:
        """Deletes a folder whose files are gone. Arrow keeps a sign of it in a store."""
        if (path := self.local) is not None:
            if path.is_dir():
                path.rmdir()
        elif not any(self.files()) and self.fs.get_file_info(self.path).type == FileType.Directory:
            self.fs.delete_dir(self.path)


def lake_place(address: str, options: LakeOptions | None = None) -> LakePlace:
    """Returns the place of an address such as `file:///srv/lake` or `s3://bucket/lake`. Raises `Refusal` for any other.

    Without options, an object store has those of this process's environment.
    """
    parts = urlsplit(address)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return LakePlace(file_system("file"), unquote(parts.path))
    bare = not (parts.username or parts.password or parts.query or parts.fragment or "@" in parts.netloc)
    if parts.scheme in S3 and parts.netloc and bare:
        return LakePlace(file_system(parts.scheme, options), f"{parts.netloc}{parts.path}".rstrip("/"))
    why = "holds a login or a query" if not bare else f"{address!r} is neither a folder nor a bucket"
    raise Refusal(
        f"the lake's address {why}, and file:///srv/lake or s3://BUCKET/PREFIX is taken",
        next_command=f"set LOCKSTEP_LAKE to file:///PATH or s3://BUCKET/PREFIX, and keys in {LAKE_CONFIG}",
    )


def file_system(scheme: str, options: LakeOptions | None = None) -> FileSystem:
    """Returns the file system of addresses that begin so. There is one for each login."""
    if scheme == "file":
        return LocalFileSystem()
    if scheme not in S3:
        raise Refusal(f"{scheme}: files of the lake are in folders or in an S3 store", next_command="lockstep doctor")
    return _s3(configured_lake() if options is None else options)


@cache
def _s3(options: LakeOptions) -> FileSystem:
    given = dict(options.values)
    scheme, _, host = given.get(names.ENDPOINT, "").rpartition("://")
    optional = {"tls_ca_file_path": _file_of(given[names.CA_TEXT])} if names.CA_TEXT in given else {}
    return S3FileSystem(
        access_key=given.get(names.KEY_ID),
        secret_key=given.get(names.SECRET_KEY),
        session_token=given.get(names.SESSION_TOKEN),
        role_arn=given.get(names.ROLE),
        session_name=given.get(names.ROLE_SESSION),
        region=given.get(names.REGION) or ("us-east-1" if host else None),
        scheme=scheme or None,
        endpoint_override=host.rstrip("/") or None,
        force_virtual_addressing=given.get(names.PATH_STYLE, "true") == "false",
        connect_timeout=STORE_CONNECT_SECONDS,
        request_timeout=STORE_REQUEST_SECONDS,
        allow_delayed_open=True,  # a small file is one request, and leaves no upload behind
        **optional,
    )


def _file_of(text: str) -> str:
    """Returns a file with this certificate. It goes with this process."""
    path = Path(_own_folder().name) / f"{abs(hash(text))}.pem"
    path.write_text(text, encoding="utf-8")
    return str(path)


@cache
def _own_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="lockstep-ca-")


def told(address: str, error: OSError, options: LakeOptions | None = None) -> StoreAnswer | None:
    """Returns the meaning of a store's error, or None for a folder's, and for a file that is not there.

    Some refusals come without words, or as a missing file. Then the place is listed, and that refusal has them.
    """
    if not address.startswith(S3):
        return None
    if isinstance(error, FileExistsError):  # a new name is said to be taken
        return StoreAnswer(NO_STORE)
    found = None if isinstance(error, FileNotFoundError) else store_answer(str(error))
    if found is None or "No response body" in str(error):
        try:
            place = lake_place(address, options)
            list(place.parent.files())
            if place.fs.get_file_info(place.path.partition("/")[0]).type == FileType.NotFound:
                return store_answer(NO_BUCKET)
        except OSError as worded:
            return store_answer(str(worded)) or found
    return found


def require_store(what: str, error: OSError, options: LakeOptions | None = None) -> None:
    """Raises what an object store has refused, in one line with the next command. Returns for any other error."""
    address = next((word.rstrip(":") for word in what.split() if "://" in word), "")
    if answer := told(address, error, options):
        kind = Unreachable if answer.away else Refusal
        raise kind(f"{what}: {answer.why}", next_command=answer.next_command) from None


def folder_command(error: Exception) -> str:
    """Returns what to do about a folder that does not take a file."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room on its disk, then lockstep doctor"
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "let this user write there, then lockstep doctor"
    return "look at that folder, then lockstep doctor"


def require_written(address: str, content: str) -> None:
    """Raises `Refusal` unless the store gives a file back with this in it. Some servers answer yes to anything."""
    place = lake_place(address)
    if place.local is None and content.encode() not in place.fs.open_input_file(place.path).read():
        raise Refusal(f"{address}: {NO_STORE}: it does not give back what it took", next_command=TO_CORRECT)
