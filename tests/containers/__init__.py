"""Tests with real engines of containers. They need root, Docker and Podman."""
