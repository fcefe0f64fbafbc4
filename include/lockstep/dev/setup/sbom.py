"""Writes the bill of materials as CycloneDX: each Python package and jar with version, purl, SHA-256 and licence."""

from __future__ import annotations

import re
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from cyclonedx import spdx
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from lockstep.adapters import jar_lock, java
from lockstep.core.errors import Refusal
from lockstep.dev.setup import jars
from lockstep.installed import CHECKOUT, DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.metadata import Distribution

    from cyclonedx.model.license import License

_REQUIREMENT = re.compile(r"^([\w.-]+)==([^\s\\]+)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)
_POM = re.compile(r"META-INF/maven/([^/]+)/([^/]+)/pom\.properties")
_POM_XML = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.xml")
_LICENCE = re.compile(r"<license>\s*<name>([^<]+)</name>")
_BUNDLE = re.compile(r"^Bundle-License: *(.+)$", re.MULTILINE)
_TEXT = re.compile(r"(META-INF/)?LICENSE(\.txt|\.md)?")
HEAD = 1_000  # letters of a licence's text that say which it is
HEADS = {"Apache-2.0": "Apache License Version 2.0", "MIT": "MIT License", "BSD-3-Clause": "BSD 3-Clause License"}
MANIFEST = "META-INF/MANIFEST.MF"
UNNAMED, LONGEST_LICENCE = ("", "UNKNOWN"), 60  # some packages have their licence's whole text there
WITHOUT_WORDS = {"openlineage_sql": ["Apache-2.0"]}  # its metadata name none, and its repository does
_FILE = re.compile(r"(.+?)-(\d.*)\.jar")


def locked_packages(checkout: Path = CHECKOUT) -> dict[tuple[str, str], list[str]]:
    """Returns, by name and version, the SHA-256 of every file that the locks admit for a package."""
    texts = [lock.read_text() for lock in sorted(checkout.glob("requirements*.txt"))]
    found = {_key(name, version): hashes for text in texts for name, version, hashes in _REQUIREMENT.findall(text)}
    return {key: re.findall(r"sha256:(\w+)", hashes) for key, hashes in found.items()}


def packages(locked: Mapping[tuple[str, str], list[str]]) -> list[Component]:
    """Returns the installed packages. One that no lock names has no hash."""
    installed = {_key(one.name, one.version): licences_of_package(one) for one in distributions()}
    return [
        _component(f"python/{name}", PackageURL("pypi", None, name, version), locked.get((name, version), []), licences)
        for (name, version), licences in sorted(installed.items())
        if name != DISTRIBUTION
    ]


def fetched_jars(folder: Path) -> list[Component]:
    """Returns the jars of `make jars`. Refuses a jar that is not the locked one."""
    jar_lock.check_jars(folder)
    return [
        _component(jar.path, PackageURL.from_string(jar.purl), [jar.sha256], licences_of_jar(folder / jar.path))
        for jar in jar_lock.read_lock()
    ]


def bundled_jars(folder: Path) -> list[Component]:
    """Returns the jars that pyspark brings itself."""
    return [
        _component(f"pyspark/{jar.name}", _origin(jar), [jar_lock.sha256(jar)], licences_of_jar(jar))
        for jar in sorted(folder.glob("*.jar"))
    ]


def write_sbom(target: Path, components: Iterable[Component]) -> None:
    """Writes CycloneDX 1.6 as JSON."""
    own = Component(name=DISTRIBUTION, type=ComponentType.APPLICATION, bom_ref=DISTRIBUTION)
    bom = Bom(components=components)
    bom.metadata.component = own
    bom.register_dependency(own, bom.components)
    JsonV1Dot6(bom).output_to_file(str(target), allow_overwrite=True, indent=1)


def licences_of_package(package: Distribution) -> list[str]:
    """Returns the licences that a package names: by SPDX if it does, else its classifiers, else its own words."""
    facts = package.metadata
    words = next((facts[name].strip() for name in ("License-Expression", "License") if name in facts), "")
    if words and (spdx.is_supported_id(words) or spdx.is_expression(words)):
        return [words]
    classifiers = [each.rpartition(" :: ")[2] for each in facts.get_all("Classifier") or () if "License ::" in each]
    named = [words] if words not in UNNAMED and len(words) <= LONGEST_LICENCE else WITHOUT_WORDS.get(package.name, [])
    return classifiers or named


def licences_of_jar(jar: Path) -> list[str]:
    """Returns the licences that a jar names: in its pom, its manifest, or the head of its licence's text."""
    with ZipFile(jar) as opened:
        names = opened.namelist()

        def text(name: str) -> str:
            return opened.read(name).decode(errors="replace")

        poms = [name for name in names if _POM_XML.fullmatch(name)]
        found = _LICENCE.findall(text(poms[0])) if len(poms) == 1 else []
        if not found and MANIFEST in names:
            found = [each.strip().strip('"') for each in _BUNDLE.findall(re.sub(r"\r?\n ", "", text(MANIFEST)))]
        heads = [] if found else [" ".join(text(name)[:HEAD].split()) for name in names if _TEXT.fullmatch(name)]
    found = found or [spdx_id for spdx_id, words in HEADS.items() if any(words in head for head in heads)]
    return list(dict.fromkeys(" ".join(each.split()) for each in found if each.strip()))


def _component(ref: str, purl: PackageURL, hashes: Iterable[str], licences: Iterable[str]) -> Component:
    return Component(
        name=purl.name,
        group=purl.namespace,
        version=purl.version,
        purl=purl,
        bom_ref=ref,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in hashes],
        licenses=_licences(list(licences)),
    )


def _licences(names: Sequence[str]) -> list[License]:
    if len(names) == 1:
        return [LicenseFactory().make_from_string(names[0])]
    return [DisjunctiveLicense(id=n) if spdx.is_supported_id(n) else DisjunctiveLicense(name=n) for n in names]


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
        found += [*fetched_jars(jars.folder()), *bundled_jars(java.pyspark_jars())]
        write_sbom(Path(sys.argv[1]), found)
    except Refusal as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    if silent := sorted({one.name for one in found if not one.licenses}):
        sys.stderr.write(f"{len(silent)} of {len(found)} name no licence: {', '.join(silent)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
