"""agent-chat: coding-agent sessions on one machine talk and share work through files."""

import gc

__version__ = "1.0.0"

# Most commands are over before a collection has paid for itself, and loading them is most of what they make.
gc.set_threshold(100_000)
