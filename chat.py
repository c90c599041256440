#!/usr/bin/env python3
"""agent-chat from a checkout or a copied skill: `python3 chat.py COMMAND`."""

from agent_chat.cli import start

if __name__ == "__main__":
    start()
