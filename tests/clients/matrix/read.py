"""Reads events, one per line, with the classes of one release of the Python SDK, given as the file that holds them."""

import importlib.util
import json
import sys

spec = importlib.util.spec_from_file_location("session_events", sys.argv[1])
session_events = importlib.util.module_from_spec(spec)
sys.modules["session_events"] = session_events
spec.loader.exec_module(session_events)

wrong = 0
for line in sys.stdin.readlines():
    try:
        session_events.session_event_from_dict(json.loads(line))
    except Exception as error:
        print(f"{json.loads(line)['type']}: {error!r}: {line.strip()}")
        wrong += 1
sys.exit(wrong > 0)
