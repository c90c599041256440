"""Bytes, paths and records. This layer has never heard of a channel's meaning.

Invariants
  1. `disk` is the only module that changes the file system, and every path it touches lies in a
     folder it holds by descriptor: no link is followed below the root, nothing outside is opened.
  2. A file appears whole or not at all: it is written and synced under a name in `.tmp/`, then
     linked (exclusive) or renamed (replacing) to its own name, then the folder is synced.
  3. A number is taken by creating a file named by it, exclusively. That holds without any lock.
  4. Locks are the kernel's: gone with the process, never unlinked, never stolen by age. Nothing
     that could lose a message rests on them alone.
  5. Deleting `.index/`, `.waiters/` or `.tmp/` loses nothing.

Order of writes when a message is posted, and what a death after each step leaves:
  number taken      a gap in the numbers
  temporary synced  a file in `.tmp/` that a later post sweeps
  linked            a whole message; not yet promised to survive a power cut
  folder synced     an acknowledged message
  temporary gone    nothing

Locks, when more than one is held, are taken in this order: an agent's reading lock, the channel's.
"""
