"""Reads events, one per line, with the SDK's strict classes, and says which of them an app would not get as they are.

An event that these classes refuse is lost without a word, so the tests of the event vocabulary send every type here.
"""

import json
import sys

from copilot.generated.session_events import RawSessionEventData, session_event_from_dict

wrong = 0
for line in sys.stdin.readlines():
    sent = json.loads(line)
    try:
        event = session_event_from_dict(sent)
        if isinstance(event.data, RawSessionEventData):
            raise TypeError("the SDK does not know this type")
        lost = sent["data"].keys() - event.to_dict()["data"].keys()
        if lost:
            raise ValueError(f"fields that the SDK does not know: {', '.join(sorted(lost))}")
    except Exception as error:
        print(f"{sent['type']}: {error!r}: {line.strip()}")
        wrong += 1
sys.exit(wrong > 0)
