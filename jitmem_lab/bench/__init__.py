"""Measurements that anyone can repeat: retrieval, stream, choice, payload, views."""
