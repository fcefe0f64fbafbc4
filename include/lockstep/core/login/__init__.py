"""Logins at Kafka: which options each mechanism takes, and what they are in the words of Java's client."""
