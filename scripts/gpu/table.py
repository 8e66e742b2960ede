"""The raw table: JSON lines, each written out before the next is measured, so that a run
that is cut leaves what it had."""

import json
import os
import sys
import time


class Table:
    def __init__(self, path, quiet=False):
        self.file, self.quiet, self.start, self.rows = open(path, "w", encoding="utf-8"), quiet, time.monotonic(), 0
        self.notes = []

    def add(self, kind, **row):
        """Writes a row. Times and sizes have their unit in their key."""
        row = {"kind": kind, **{key: shorten(value) for key, value in row.items() if value is not None}}
        self.file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.rows += 1

    def note(self, words):
        """Says what is left out, and why: in the table and to who watches."""
        self.add("note", words=words)
        self.notes.append(words)
        self.say("note: " + words)

    def say(self, words):
        if not self.quiet:
            print(f"gpu: {time.monotonic() - self.start:6.1f} s  {words}", file=sys.stderr, flush=True)

    def close(self):
        self.file.close()


def shorten(value):
    """Six digits: more say nothing."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [shorten(v) for v in value]
    if isinstance(value, dict):
        return {k: shorten(v) for k, v in value.items()}
    return value
