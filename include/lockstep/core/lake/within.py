"""Decides if an address of a file is below a folder, so that nothing else is deleted."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from lockstep.core.errors import Refusal


def is_below(address: str, folder: str) -> bool:
    """Returns True if the address is below the folder, as it is written. Nothing in it leads elsewhere."""
    root = folder.rstrip("/")
    if not root or (not urlsplit(root).path.strip("/") and urlsplit(root).scheme in ("", "file")):
        return False
    if not address.startswith(f"{root}/"):
        return False
    parts = unquote(address[len(root) + 1 :]).split("/")
    return all(part not in ("", ".", "..") and part.isprintable() and "\\" not in part for part in parts)


def require_below(address: str, folder: str) -> None:
    """Raises `Refusal` unless the address is below the folder."""
    if not is_below(address, folder):
        raise Refusal(
            f"{address}: not in {folder or 'the folder of a table'}; nothing there was deleted",
            next_command="lockstep verify NAME, and find out who wrote this address into the ledger",
        )
