# Two images for docker-compose.yaml: `airflow`, which plans and drives, and `spark-worker`, which reads and stages.

FROM apache/airflow:3.3.2-python3.11 AS airflow
# Debian 12 has 17; where the base image is newer, `--build-arg JAVA=openjdk-21-jre-headless`.
ARG JAVA=openjdk-17-jre-headless
USER root
RUN apt-get update \
    && apt-get install --yes --no-install-recommends "$JAVA" \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner airflow --group root /opt/lockstep /opt/lockstep/results
USER airflow
WORKDIR /opt/lockstep
ENV LOCKSTEP_JARS=/opt/lockstep/jars \
    LOCKSTEP_PIPELINES=/opt/lockstep/include/pipelines
# The pins before the code: a changed line of ours downloads nothing.
COPY --chown=airflow:root requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt
COPY --chown=airflow:root pyproject.toml README.md LICENSE ivy.xml ./
COPY --chown=airflow:root include include
COPY --chown=airflow:root spark_jobs spark_jobs
RUN pip install --no-cache-dir --no-deps --editable .
# The broker has an image of its own.
RUN python -m lockstep.dev.jars && rm -r "$LOCKSTEP_JARS/broker"
COPY --chown=airflow:root dags dags
COPY --chown=airflow:root plugins plugins

# A Python of the driver's minor version that runs on whatever the Spark image is built from.
FROM python:3.11-slim AS interpreter
RUN pip install --no-cache-dir uv
ENV UV_PYTHON_INSTALL_DIR=/opt/python
COPY requirements.txt ./
RUN uv venv --managed-python --python 3.11 /opt/lockstep \
    && uv pip install --no-cache --python /opt/lockstep/bin/python --constraint requirements.txt \
        psycopg2-binary numpy pandas pyarrow fastavro confluent-kafka attrs authlib cachetools certifi httpx2

FROM apache/spark:4.1.1 AS spark-worker
COPY --from=interpreter /opt/python /opt/python
COPY --from=interpreter /opt/lockstep /opt/lockstep
# Drivers ask for `python3.11`, whose packages are here found through PATH.
ENV PATH=/opt/lockstep/bin:$PATH
