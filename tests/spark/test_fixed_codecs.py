"""Tests a driver's JVM: its codecs are those without known holes, and it asks one address for tokens."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lockstep.adapters.connector import class_path
from lockstep.dev.setup import jars
from lockstep.engine.spark.session import TOKEN_ADDRESSES, allow_tokens_from, session

CODECS = {
    "net.jpountz.lz4.LZ4Factory": "ahead/lz4-java-1.11.2.jar",
    "net.jpountz.xxhash.XXHashFactory": "ahead/lz4-java-1.11.2.jar",
    "com.github.luben.zstd.ZstdInputStreamNoFinalizer": "ahead/zstd-jni-1.5.7-17.jar",
}
RECORDS = 400
SHUFFLE = """
import os
from lockstep.engine.spark import jvm
jvm.JVM_SETTINGS["spark.io.compression.codec"] = os.environ["CODEC"]
from lockstep.engine.spark.session import TOKEN_ADDRESSES, allow_tokens_from, session
print(session().sparkContext.getConf().get("spark.io.compression.codec"))
rows = session().range(20000).repartition(5).selectExpr("id % 7 as k", "id").repartition(3, "k")
for row in rows.groupBy("k").agg({"id": "sum", "*": "count"}).orderBy("k").collect():
    print(row["k"], row["sum(id)"], row["count(1)"])
"""


def origin(name: str, loader) -> str:
    """Returns the jar that a class of the driver's JVM comes from."""
    found = loader.loadClass(name)
    return Path(found.getProtectionDomain().getCodeSource().getLocation().getPath()).as_posix()


@pytest.fixture
def loader():
    """Returns the class loader that has the connector's jars. Its parent has pyspark's."""
    return session().sparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001


def test_the_jvm_asks_the_first_address_alone_for_tokens():
    system = session().sparkContext._jvm.java.lang.System  # noqa: SLF001
    try:
        allow_tokens_from(None)
        assert system.getProperty(TOKEN_ADDRESSES) is None
        allow_tokens_from("https://issuer/token")
        allow_tokens_from("https://elsewhere/token")
        assert system.getProperty(TOKEN_ADDRESSES) == "https://issuer/token"
    finally:
        system.clearProperty(TOKEN_ADDRESSES)


@pytest.mark.parametrize(("name", "jar"), CODECS.items())
def test_a_codec_of_the_driver_comes_from_the_fixed_jar(name, jar, loader):
    assert origin(name, loader) == str(jars.folder().resolve() / jar)


def test_kafkas_client_comes_from_the_fixed_jar(loader):
    assert origin("org.apache.kafka.clients.consumer.KafkaConsumer", loader).endswith("/kafka-clients-3.9.2.jar")


def test_pyspark_still_brings_the_copies_that_these_stand_before():
    """Once pyspark brings others, these jars must be compared with its own again."""
    assert version("pyspark") == "4.1.1"
    assert (jars.pyspark_jars() / "lz4-java-1.8.0.jar").is_file()
    assert (jars.pyspark_jars() / "zstd-jni-1.5.7-6.jar").is_file()


def test_the_settings_name_the_fixed_jars_alone():
    ahead = ":".join(str(jars.folder() / jar) for jar in sorted(set(CODECS.values())))

    assert class_path(os.environ) == {"spark.driver.extraClassPath": ahead, "spark.executor.extraClassPath": ahead}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_of_kafka_are_read_value_by_value(codec, kafka, topic):
    name = topic(1)
    sent = [f"{number:05} {'lockstep ' * (number % 50)}".encode() for number in range(RECORDS)]
    producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 200})
    for value in sent:
        producer.produce(name, value, partition=0)
    assert producer.flush(60) == 0

    options = {"kafka.bootstrap.servers": kafka, "subscribe": name, "startingOffsets": "earliest"}
    rows = session().read.format("kafka").options(**options).load().select("value", "offset").collect()

    assert [bytes(row.value) for row in sorted(rows, key=lambda row: row.offset)] == sent


@pytest.mark.parametrize("codec", ["lz4", pytest.param("zstd", marks=pytest.mark.long)])
def test_a_shuffle_gives_back_what_went_in(codec, tmp_path):
    """It runs in a separate Spark, because the codec of blocks is settled when Spark starts."""
    program = tmp_path / "shuffle.py"
    program.write_text(SHUFFLE)
    environ = os.environ | {"SPARK_MASTER": "local[2]", "CODEC": codec}

    said = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environ, check=False)

    sums = [f"{key} {sum(range(key, 20000, 7))} {len(range(key, 20000, 7))}" for key in range(7)]
    assert said.stdout.splitlines() == [codec, *sums], said.stderr
