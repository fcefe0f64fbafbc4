"""Tests that the bill of materials names each installed package and jar, with version, purl and hash."""

from __future__ import annotations

import json
import re
from importlib.metadata import distributions

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from lockstep.adapters import jar_lock
from lockstep.dev.setup import jars, sbom

# The packages that make a virtualenv, and this package itself, are in no lock.
pytestmark = pytest.mark.server  # needs the jars
NOT_LOCKED = {"pip", "setuptools", "lockstep-kafka", "uv"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    place = tmp_path_factory.mktemp("sbom") / "sbom.json"
    found = [*sbom.packages(sbom.locked_packages()), *sbom.fetched_jars(jars.folder())]
    sbom.write_sbom(place, [*found, *sbom.bundled_jars(jars.pyspark_jars())])
    return place.read_text()


@pytest.fixture(scope="module")
def components(text):
    return {one["bom-ref"]: one for one in json.loads(text)["components"]}


def hashes(component) -> set[str]:
    assert {one["alg"] for one in component.get("hashes", [])} <= {"SHA-256"}
    return {one["content"] for one in component.get("hashes", [])}


def test_it_is_cyclonedx(text):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_each_installed_package_is_in_it_with_the_hashes_of_its_lock(components):
    locked = sbom.locked_packages()
    installed = {(re.sub(r"[-_.]+", "-", one.name).lower(), one.version) for one in distributions()}

    assert len(installed) > 150
    for name, version in installed - {(name, version) for name, version in installed if name in NOT_LOCKED}:
        one = components[f"python/{name}"]
        assert (one["version"], one["purl"]) == (version, f"pkg:pypi/{name}@{version}")
        assert hashes(one) == set(locked[name, version]) != set()
    assert {f"python/{name}" for name, _ in installed} - set(components) == {"python/lockstep-kafka"}


def test_each_fetched_jar_is_in_it(components):
    found = {str(jar.relative_to(jars.folder())): jar for jar in jars.folder().glob("*/*.jar")}

    assert len(found) > 55
    for path, jar in found.items():
        assert hashes(components[path]) == {jar_lock.sha256(jar)}
        assert components[path]["purl"].startswith("pkg:maven/")
        assert jar.name == f"{components[path]['name']}-{components[path]['version']}.jar"


def test_each_jar_of_pyspark_is_in_it(components):
    found = sorted(jars.pyspark_jars().glob("*.jar"))

    assert len(found) > 200
    for jar in found:
        one = components[f"pyspark/{jar.name}"]
        assert hashes(one) == {jar_lock.sha256(jar)}
        assert one["purl"]
        assert one["version"]
    assert components["pyspark/log4j-core-2.24.3.jar"]["purl"] == "pkg:maven/org.apache.logging.log4j/log4j-core@2.24.3"
