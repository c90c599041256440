"""agent-chat as a module: `python3 -m agent_chat COMMAND`."""

from agent_chat.cli import start

if __name__ == "__main__":
    start()
