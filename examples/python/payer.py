#!/usr/bin/env python3
"""A payer with a journal of its own, with nothing but Python's standard library. It pays, waits
for each outcome, and compares the account's statement with the journal. Kill it at any moment
and run it again: it finishes what was under way, and pays nothing twice.

    LIQUIDA_KEY_FILE=.stack/keys/10000004 python3 examples/python/payer.py --journal .stack/journal-of-python.jsonl
"""

import argparse
import datetime
import http.client
import json
import os
import secrets
import string
import sys
import time
import urllib.error
import urllib.request

API = os.environ.get("LIQUIDA_URL") or "http://127.0.0.1:8080"
RETRY_SECONDS = 30  # how long a request is retried after no answer, 429 or 5xx
OUTCOME_SECONDS = 120  # a payment ends much sooner


class Refused(Exception):
    """An answer that is an error (RFC 9457). A retry would not change it."""

    def __init__(self, status, problem):
        super().__init__(f"{problem.get('title')} ({status}): {problem.get('detail')}")
        self.status, self.code = status, problem.get("code", "")


def call(method, path, body=None, wait=0):
    """Retries a request until it is answered. That is safe for every request here: a payment
    carries its identity."""
    headers = {"Content-Type": "application/json"}
    if wait:
        headers["Prefer"] = f"wait={wait}"
    if key_file := os.environ.get("LIQUIDA_KEY_FILE"):
        with open(key_file) as file:
            headers["Authorization"] = "Bearer " + file.read().strip()
    data = json.dumps(body).encode() if body is not None else None
    until = time.monotonic() + RETRY_SECONDS
    while True:
        request = urllib.request.Request(API.rstrip("/") + path, data, headers, method=method)
        pause = 1
        try:
            with urllib.request.urlopen(request, timeout=10 + wait) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            try:
                problem = json.loads(text)
            except ValueError:
                problem = {"title": error.reason, "detail": text[:200]}
            failure = Refused(error.code, problem)
            if error.code != 429 and error.code < 500:
                raise failure from None
            if (after := error.headers.get("Retry-After", "")).isdigit():
                pause = min(int(after), 30)
        except (OSError, http.client.HTTPException) as error:  # no whole answer
            failure = error
        if time.monotonic() + pause > until:
            raise failure
        time.sleep(pause)


def account(text):
    ispb, branch, number = text.split("/")
    return {"ispb": ispb, "branch": branch, "number": number}


def new_end_to_end_id(ispb):
    minute = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d%H%M")
    characters = string.digits + string.ascii_letters
    return "E" + ispb + minute + "".join(secrets.choice(characters) for _ in range(11))


class Journal:
    """A file of JSON lines that only grows: a payment before it is sent, and again with its
    outcome. The first line says when the journal began."""

    def __init__(self, path, payer):
        self.entries, self.opened_after = {}, None
        self.file = open(path, "a+")
        self.file.seek(0)
        for line in self.file:
            self.take(json.loads(line))
        if self.opened_after is None:
            newest = call("GET", f"/v1/accounts/{payer}/statement?limit=1")["lines"]
            if not newest:
                sys.exit(f"account {payer} has nothing to pay with")
            self.write({"opened_after": newest[0]["at"]})

    def take(self, entry):
        if "opened_after" in entry:
            self.opened_after = entry["opened_after"]
        else:
            self.entries[entry["end_to_end_id"]] = entry

    def write(self, entry):
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.take(entry)


def finish(journal, entry, payer):
    """Brings a payment of the journal to its end. Sending it twice makes one payment."""
    end_to_end_id = entry["end_to_end_id"]
    order = {
        "end_to_end_id": end_to_end_id,
        "payer": account(payer),
        "payee": entry["payee"],
        "amount_centavos": entry["amount_centavos"],
    }
    state = {}
    until = time.monotonic() + OUTCOME_SECONDS
    while state.get("status") not in ("settled", "rejected"):
        if time.monotonic() > until:
            sys.exit(f"payment {end_to_end_id} is not decided yet: run this again")
        try:
            if state:
                time.sleep(0.5)
            state = call("GET", f"/v1/payments/{end_to_end_id}")
        except Refused as error:
            if error.status != 404:
                raise
            try:
                state = call("POST", "/v1/payments", order, wait=10)
            except Refused as refusal:
                if refusal.status != 422:
                    raise
                # The API denied it, so it was never made: its id may be too old by now.
                state = {"status": "refused " + refusal.code}
                break
    print(end_to_end_id, entry["amount_centavos"], state["status"], state.get("reason_code", ""))
    journal.write({**entry, "outcome": state["status"]})


def statement(payer):
    cursor = ""
    while True:
        page = call("GET", f"/v1/accounts/{payer}/statement" + (cursor and f"?cursor={cursor}"))
        yield from page["lines"]
        if not (cursor := page.get("next_cursor", "")):
            return


def reconcile(journal, payer):
    """Compares what left the account since the journal began with what the journal says."""
    posted, differences = {}, []
    for line in statement(payer):
        if line["at"] == journal.opened_after:
            break
        if line["kind"] == "posted" and line["direction"] == "debit":
            end_to_end_id = line["end_to_end_id"]
            if end_to_end_id in posted:
                differences.append(f"{end_to_end_id} left the account twice")
            posted[end_to_end_id] = line["amount_centavos"]
            if end_to_end_id not in journal.entries:
                differences.append(f"{end_to_end_id} is not in the journal")
    for end_to_end_id, entry in journal.entries.items():
        says = entry["amount_centavos"] if entry.get("outcome") == "settled" else None
        if posted.get(end_to_end_id) != says:
            differences.append(f"{end_to_end_id}: the journal says {says}, the statement {posted.get(end_to_end_id)}")
    for difference in differences:
        print("DIFFERENCE:", difference)
    if differences:
        sys.exit(f"{len(differences)} differences between journal and statement")
    print(f"reconciled: {len(journal.entries)} payments in the journal, {len(posted)} of them left the account, to the centavo")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--journal", required=True, help="the journal's file; created if it does not exist")
    arguments.add_argument("--payer", default="10000004/0001/7", help="account that pays; nobody else may pay from it meanwhile")
    arguments.add_argument("--payee", default="10000002/0001/1", help="account that is paid")
    arguments.add_argument("--count", type=int, default=5, help="how many payments to make, of BRL 1.00, BRL 1.01 and so on")
    given = arguments.parse_args()
    try:
        journal = Journal(given.journal, given.payer)
        for entry in list(journal.entries.values()):  # unfinished by an earlier run
            if "outcome" not in entry:
                finish(journal, entry, given.payer)
        payer_bank = account(given.payer)["ispb"]
        for number in range(given.count):
            entry = {"end_to_end_id": new_end_to_end_id(payer_bank), "payee": account(given.payee), "amount_centavos": 100 + number}
            journal.write(entry)  # first the journal, then the payment
            finish(journal, entry, given.payer)
        reconcile(journal, given.payer)
    except (Refused, OSError, http.client.HTTPException) as error:
        sys.exit(f"python example: {error}")


if __name__ == "__main__":
    main()
