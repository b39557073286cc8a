#!/usr/bin/env python3
"""A receiving bank over HTTP, with Python's standard library. It asks for the questions to one bank, answers each with
that bank's seal, and asks again. Kill it at any moment, run it again, or run several: its decision is a function of
the question, so a question that comes again gets the same answer. What it needs to know is in docs/participant.md.

    LIQUIDA_KEY_FILE=.stack/keys/10000005 ANSWER_KEYS_FILE=.stack/answer-keys python3 examples/python/bank.py --bank 10000005
"""

import argparse
import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request

ACCEPTED, REJECTED = 1, 2  # AuthorizationStatus


def secret_of(bank, file):
    for line in open(file):
        words = line.split("#")[0].split()
        if len(words) == 2 and words[0] == bank:
            return bytes.fromhex(words[1])
    sys.exit(f"bank.py: {file} has no secret of bank {bank}")


def text(number, value):  # a field of a protobuf message
    return bytes([number << 3 | 2, len(value)]) + value.encode() if value else b""


def answer(question, bank, closed, secret):
    payee = question["payee"]["branch"] + "/" + question["payee"]["number"]
    reason = "AC07" if payee in closed else ""  # it depends on the question alone
    status = bytes([3 << 3, REJECTED if reason else ACCEPTED])
    value = text(1, question["end_to_end_id"]) + text(2, bank) + status + text(4, reason)
    seal = hmac.new(secret, value, hashlib.sha256).digest()
    return {"value": base64.b64encode(value).decode(), "seal": base64.b64encode(seal).decode()}


def call(path, body=None):
    url = os.environ.get("LIQUIDA_URL", "http://127.0.0.1:8080") + path
    headers = {"Accept": "application/json", "Content-Type": "application/json", "Prefer": "wait=20"}
    if file := os.environ.get("LIQUIDA_KEY_FILE"):
        headers["Authorization"] = "Bearer " + open(file).read().strip()
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request, timeout=40))


arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--bank", required=True, help="the bank's ISPB")
arguments.add_argument("--closed", action="append", default=[], help="branch/number of an account that is closed; repeatable")
given = arguments.parse_args()
secret, mine = secret_of(given.bank, os.environ["ANSWER_KEYS_FILE"]), f"/v1/participants/{given.bank}/"
while True:
    try:
        if asked := call(mine + "questions")["questions"]:
            call(mine + "answers", {"answers": [answer(q, given.bank, given.closed, secret) for q in asked]})
    except urllib.error.HTTPError as error:
        print(f"bank.py: {error.code} {error.read().decode()}", file=sys.stderr)
        if error.code in (400, 401, 403, 422):  # it will not get better
            sys.exit(1)
        time.sleep(error.code >= 429)  # 404, 409, 410: the question is over, or answered otherwise
    except (OSError, ValueError) as error:  # no front door, or half of a response: everything may be repeated
        print(f"bank.py: {error}, trying again", file=sys.stderr)
        time.sleep(1)
