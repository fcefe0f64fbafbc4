"""Tests that the bill of materials names each installed package and jar, with version, purl and hash."""

from __future__ import annotations

import json
import re
from importlib.metadata import distributions

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from lockstep.adapters import jar_lock, java
from lockstep.dev.setup import jars, sbom

# The packages that make a virtualenv, and this package itself, are in no lock.
pytestmark = pytest.mark.server  # needs the jars
NOT_LOCKED = {"pip", "setuptools", "lockstep-kafka", "uv"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    place = tmp_path_factory.mktemp("sbom") / "sbom.json"
    found = [*sbom.packages(sbom.locked_packages()), *sbom.fetched_jars(jars.folder())]
    sbom.write_sbom(place, [*found, *sbom.bundled_jars(java.pyspark_jars())])
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


OTHER_LICENCES = re.compile(r"GPL|General Public|MPL|Mozilla|EPL|Eclipse|eclipse\.org|CDDL|Artistic", re.IGNORECASE)


def licences(component) -> list[str]:
    found = [one.get("license", one) for one in component.get("licenses", [])]
    return [one.get("expression") or one.get("id") or one["name"] for one in found]


def test_each_package_and_most_jars_name_their_licences(components):
    packages = {ref: one for ref, one in components.items() if ref.startswith("python/")}
    silent = [ref for ref, one in components.items() if not licences(one)]

    assert [ref for ref in silent if ref in packages] == []
    assert len(silent) < 60
    assert licences(components["python/psycopg2-binary"]) == ["GNU Library or Lesser General Public License (LGPL)"]
    assert licences(components["pyspark/log4j-core-2.24.3.jar"]) == ["Apache-2.0"]


def test_the_notice_names_each_package_and_jar_under_another_licence_than_most(components):
    notice = set(re.findall(r"[\w.-]*\w", (sbom.CHECKOUT / "NOTICE").read_text()))
    named = {one["name"] for one in components.values() if OTHER_LICENCES.search(" ".join(licences(one)))}

    assert len(named) > 25
    assert named - notice == set()


def test_each_fetched_jar_is_in_it(components):
    found = {str(jar.relative_to(jars.folder())): jar for jar in jars.folder().glob("broker/*.jar")}

    assert len(found) > 40
    for path, jar in found.items():
        assert hashes(components[path]) == {jar_lock.sha256(jar)}
        assert components[path]["purl"].startswith("pkg:maven/")
        assert jar.name == f"{components[path]['name']}-{components[path]['version']}.jar"


def test_each_jar_of_pyspark_is_in_it(components):
    found = sorted(java.pyspark_jars().glob("*.jar"))

    assert len(found) > 200
    for jar in found:
        one = components[f"pyspark/{jar.name}"]
        assert hashes(one) == {jar_lock.sha256(jar)}
        assert one["purl"]
        assert one["version"]
    assert components["pyspark/log4j-core-2.24.3.jar"]["purl"] == "pkg:maven/org.apache.logging.log4j/log4j-core@2.24.3"
