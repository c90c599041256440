"""agent-chat: coding-agent sessions on one machine talk and share work through files."""

import gc

__version__ = "1.0.0"

gc.set_threshold(100_000)  # most commands are over before a collection has paid for itself
