"""Buckets on nodes: real agents, real rclone and FUSE mounts, and an S3 endpoint on loopback; without Ray."""
