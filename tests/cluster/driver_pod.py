"""Prints the driver's pod that Spark makes of the arguments of `spark-submit`, and the settings that it writes beside it.

It asks Spark's own classes, and no cluster: `python driver_pod.py ARGUMENTS`.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.java_gateway import launch_gateway


def main(*arguments: str) -> None:
    gateway = launch_gateway()
    jvm, no_one = gateway.jvm, gateway.jvm.scala.Option.empty()
    listed = jvm.java.util.ArrayList()
    for each in arguments:
        listed.append(each)
    given = jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
    environ = single(jvm.scala.collection.immutable, "Map").empty()
    submit = jvm.org.apache.spark.deploy.SparkSubmit()
    prepared = submit.prepareSubmitEnvironment(jvm.org.apache.spark.deploy.SparkSubmitArguments(given, environ), no_one)
    children, settings = prepared.productElement(0), prepared.productElement(2)
    told = gateway.new_array(jvm.String, children.size())
    for place in range(children.size()):
        told[place] = children.apply(place)
    k8s = jvm.org.apache.spark.deploy.k8s
    known = k8s.submit.ClientArguments.fromCommandLineArgs(told)
    conf = single(k8s, "KubernetesConf").createDriverConf(
        settings, "spark-of-a-test", known.mainAppResource(), known.mainClass(), known.driverArgs(), no_one
    )
    client = jvm.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()
    made = k8s.submit.KubernetesDriverBuilder().buildFromFeatures(conf, client)
    for part in (made.pod().pod(), made.pod().container()):
        sys.stdout.write(jvm.io.fabric8.kubernetes.client.utils.Serialization.asYaml(part))
    for pair in settings.getAll():
        sys.stdout.write(f"# {pair.productElement(0)}={pair.productElement(1)}\n")


def single(package: Any, name: str) -> Any:
    """Returns the one object of a Scala class."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


if __name__ == "__main__":
    main(*sys.argv[1:])
