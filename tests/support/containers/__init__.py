"""Runs the services of docker-compose.yaml as processes in namespaces, where no container engine is at hand."""
