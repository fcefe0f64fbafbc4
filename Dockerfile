# Two images for docker-compose.yaml: `airflow`, which plans and drives, and `spark-worker`, which reads and stages.
# A tag may lead to another image tomorrow, a digest never does: `make images` says how to pin these in .env.
ARG AIRFLOW_IMAGE=apache/airflow:3.3.2-python3.11
ARG PYTHON_IMAGE=python:3.11-slim
ARG SPARK_IMAGE=apache/spark:4.1.1

FROM ${AIRFLOW_IMAGE} AS airflow
# Debian 12 has 17; where the base image is newer, `--build-arg JAVA=openjdk-21-jre-headless`.
ARG JAVA=openjdk-17-jre-headless
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends "$JAVA" \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner airflow --group root /opt/lockstep /opt/lockstep/results
USER airflow
WORKDIR /opt/lockstep
ENV LOCKSTEP_PIPELINES=/opt/lockstep/include/pipelines
# The pins before the code: a changed line of ours downloads nothing.
COPY --chown=airflow:root requirements-build.txt requirements.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements-build.txt \
    && pip install --no-cache-dir --require-hashes --no-build-isolation -r requirements.txt
COPY --chown=airflow:root pyproject.toml README.md LICENSE NOTICE ivy.xml ./
COPY --chown=airflow:root include include
COPY --chown=airflow:root spark_jobs spark_jobs
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable .
COPY --chown=airflow:root dags dags
COPY --chown=airflow:root plugins plugins

# A Python of the driver's minor version that runs on whatever the Spark image is built from.
FROM ${PYTHON_IMAGE} AS interpreter
ENV UV_PYTHON_INSTALL_DIR=/opt/python
COPY requirements-images.txt requirements-executors.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements-images.txt
RUN uv venv --managed-python --python 3.11 /opt/lockstep \
    && uv pip install --no-cache --python /opt/lockstep/bin/python --require-hashes -r requirements-executors.txt

FROM ${SPARK_IMAGE} AS spark-worker
COPY --from=interpreter /opt/python /opt/python
COPY --from=interpreter /opt/lockstep /opt/lockstep
# Drivers ask for `python3.11`, whose packages are here found through PATH.
ENV PATH=/opt/lockstep/bin:$PATH
