"""Writes the bill of materials as CycloneDX: each installed Python package and jar with version, purl and SHA-256."""

from __future__ import annotations

import re
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from lockstep.adapters import jar_lock
from lockstep.core.errors import Refusal
from lockstep.dev.setup import jars
from lockstep.installed import CHECKOUT, DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_REQUIREMENT = re.compile(r"^([\w.-]+)==([^\s\\]+)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)
_POM = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")
_FILE = re.compile(r"(.+?)-(\d.*)\.jar")


def locked_packages(checkout: Path = CHECKOUT) -> dict[tuple[str, str], list[str]]:
    """Returns, by name and version, the SHA-256 of every file that the locks admit for a package."""
    texts = [lock.read_text() for lock in sorted(checkout.glob("requirements*.txt"))]
    found = {_key(name, version): hashes for text in texts for name, version, hashes in _REQUIREMENT.findall(text)}
    return {key: re.findall(r"sha256:(\w+)", hashes) for key, hashes in found.items()}


def packages(locked: Mapping[tuple[str, str], list[str]]) -> list[Component]:
    """Returns the installed packages. One that no lock names has no hash."""
    installed = sorted({_key(one.name, one.version) for one in distributions()})
    return [
        _component(f"python/{name}", PackageURL("pypi", None, name, version), locked.get((name, version), []))
        for name, version in installed
        if name != DISTRIBUTION
    ]


def fetched_jars(folder: Path) -> list[Component]:
    """Returns the jars of `make jars`. Refuses a jar that is not the locked one."""
    jars.check_jars(folder)
    fetched = [jar for jar in jar_lock.read_lock() if (folder / jar.path).is_file()]
    return [_component(jar.path, PackageURL.from_string(jar.purl), [jar.sha256]) for jar in fetched]


def bundled_jars(folder: Path) -> list[Component]:
    """Returns the jars that pyspark brings itself."""
    return [
        _component(f"pyspark/{jar.name}", _origin(jar), [jar_lock.sha256(jar)]) for jar in sorted(folder.glob("*.jar"))
    ]


def write_sbom(target: Path, components: Iterable[Component]) -> None:
    """Writes CycloneDX 1.6 as JSON."""
    own = Component(name=DISTRIBUTION, type=ComponentType.APPLICATION, bom_ref=DISTRIBUTION)
    bom = Bom(components=components)
    bom.metadata.component = own
    bom.register_dependency(own, bom.components)
    JsonV1Dot6(bom).output_to_file(str(target), allow_overwrite=True, indent=1)


def _component(ref: str, purl: PackageURL, hashes: Iterable[str]) -> Component:
    return Component(
        name=purl.name,
        group=purl.namespace,
        version=purl.version,
        purl=purl,
        bom_ref=ref,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in hashes],
    )


def _origin(jar: Path) -> PackageURL:
    """Returns the Maven name that the jar itself holds, else a name from its file."""
    with ZipFile(jar) as opened:
        poms = [found for found in map(_POM.fullmatch, opened.namelist()) if found]
    for pom in poms:
        if jar.name.startswith(f"{pom[2]}-") and (version := _FILE.fullmatch(jar.name.replace(pom[2], "x", 1))):
            return PackageURL("maven", pom[1], pom[2], version[2])
    found = _FILE.fullmatch(jar.name)
    return PackageURL("generic", None, found[1], found[2]) if found else PackageURL("generic", None, jar.stem)


def _key(name: str, version: str) -> tuple[str, str]:
    return re.sub(r"[-_.]+", "-", name).lower(), version


def main() -> int:
    """Runs the module for make: writes the file that the argument names."""
    found = packages(locked_packages())
    for one in found:
        if not one.hashes:
            sys.stderr.write(
                f"{one.name} {one.version} is installed, and no lock names it: it is listed without a hash\n"
            )
    try:
        write_sbom(Path(sys.argv[1]), [*found, *fetched_jars(jars.folder()), *bundled_jars(jars.pyspark_jars())])
    except Refusal as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
