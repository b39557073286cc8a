#!/usr/bin/env python3
"""Posts each settlement of a bank to a URL, signed: the header Signature is the HMAC-SHA-256 of the body with WEBHOOK_SECRET.
It goes on where it was (FILE), so each event is posted at least once. Who gets one compares end_to_end_id.

    LIQUIDA_KEY_FILE=.stack/keys/10000001 WEBHOOK_SECRET=… python3 examples/python/webhook.py 10000001 http://127.0.0.1:9000/ FILE
"""

import hashlib, hmac, os, pathlib, sys, time, urllib.request  # noqa: E401

bank, url, place = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
api = os.environ.get("LIQUIDA_URL", "http://127.0.0.1:8080")
key = {"Authorization": "Bearer " + open(os.environ["LIQUIDA_KEY_FILE"]).read().strip()}
while True:
    try:
        at = place.read_text() if place.exists() else "start"
        for line in urllib.request.urlopen(urllib.request.Request(f"{api}/v1/settlements?participant={bank}&from={at}", headers=key), timeout=60):
            name, _, value = line.decode().strip().partition(": ")
            if name == "data":
                seal = hmac.new(os.environ["WEBHOOK_SECRET"].encode(), value.encode(), hashlib.sha256).hexdigest()
                urllib.request.urlopen(urllib.request.Request(url, value.encode(), {"Content-Type": "application/json", "Signature": seal}), timeout=10)
                place.write_text(at)  # the id stands before its data
            at = value if name == "id" else at
    except OSError as error:  # no front door, or nobody took the event: from the last one again
        print(f"webhook.py: {error}, trying again", file=sys.stderr)
        time.sleep(1)
