"""agent-chat: coding-agent sessions on one machine talk and share work through files."""

__version__ = "1.0.0"
