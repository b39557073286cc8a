#!/usr/bin/env python3
"""A receiving bank, with Python's standard library and one Kafka client (pip install confluent-kafka).
It reads the questions to one bank, answers each with that bank's seal, and commits what is answered.
Kill it at any moment and run it again: its decision is a function of the question, so a question that
comes again gets the same answer. What it needs to know is in docs/participant.md.

    KAFKA_BROKERS=127.0.0.1:9092 ANSWER_KEYS_FILE=.stack/answer-keys python3 examples/python/bank_kafka.py --bank 10000005
"""

import argparse
import hashlib
import hmac
import os
import signal
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

ACCEPTED, REJECTED = 1, 2  # AuthorizationStatus


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")


def message(data):
    """Returns the fields of a protobuf message, the last of each number: an int, or bytes."""
    fields, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            fields[number], at = varint(data, at)
            continue
        length, at = varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        if at + length > len(data):
            raise ValueError("it ends too early")
        fields[number], at = data[at : at + length], at + length
    return fields


def text(number, value):
    return bytes([number << 3 | 2, len(value)]) + value if value else b""


def secret_of(bank, file):
    for line in open(file):
        words = line.split("#")[0].split()
        if len(words) == 2 and words[0] == bank:
            return bytes.fromhex(words[1])
    sys.exit(f"bank_kafka.py: {file} has no secret of bank {bank}")


def reason_against(payee, closed):
    """Returns why the bank rejects, or b''. It depends on the question alone."""
    account = payee.get(2, b"").decode() + "/" + payee.get(3, b"").decode()
    return b"AC07" if account in closed else b""


def answer(question, bank, closed, secret):
    """Returns the response's topic, partition, key, value and headers, or None: not our question."""
    request = message(question)
    payee = message(request.get(3, b""))
    if payee.get(1) != bank:
        return None
    reason = reason_against(payee, closed)
    status = bytes([3 << 3, REJECTED if reason else ACCEPTED])
    value = text(1, request[1]) + text(2, bank) + status + text(4, reason)
    seal = hmac.new(secret, value, hashlib.sha256).digest()
    return {
        "topic": "pix.authorization-responses",
        "partition": request.get(5, 0),
        "key": request[1],
        "value": value,
        "headers": {"seal": seal},
    }


def kafka():
    """Returns how to connect, from the same environment as every program of the clearing house."""
    options = {"bootstrap.servers": os.environ.get("KAFKA_BROKERS", "127.0.0.1:9092"), "enable.metrics.push": False}
    user, tls = os.environ.get("KAFKA_SASL_USER"), os.environ.get("KAFKA_TLS") == "true"
    if tls:
        options["ssl.ca.location"] = os.environ["KAFKA_TLS_CA_FILE"]
    if user:
        password = open(os.environ["KAFKA_SASL_PASSWORD_FILE"]).read().strip()
        options |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
    if user or tls:
        options["security.protocol"] = ("SASL_" if user else "") + ("SSL" if tls else "PLAINTEXT")
    return options


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--bank", required=True, help="the bank's ISPB")
    arguments.add_argument("--group", help="consumer group (default: bank-ISPB)")
    arguments.add_argument("--closed", action="append", default=[], help="branch/number of an account that is closed; repeatable")
    given = arguments.parse_args()
    bank, secret = given.bank.encode(), secret_of(given.bank, os.environ["ANSWER_KEYS_FILE"])
    asked = Consumer(kafka() | {
        "group.id": given.group or "bank-" + given.bank, "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "isolation.level": "read_committed",
        # A payment has 40 s. Until this time has passed, nobody answers for a bank that was killed.
        "session.timeout.ms": 6000, "heartbeat.interval.ms": 2000,
    })
    answers = Producer(kafka() | {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "batch.size": 100_000})
    asked.subscribe(["pix.authorization-requests"])
    running, lost = True, []

    def stop(*_):
        nonlocal running
        running = False

    def acknowledged(error, record):
        if error and error.code() == KafkaError._UNKNOWN_PARTITION:
            print(f"somebody asks for an answer in partition {record.partition()}, which does not exist", file=sys.stderr)
        elif error:
            lost.append(error)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    while running:
        records, done = asked.consume(1000, timeout=0.1), {}
        for record in records:
            if record.error():
                if record.error().code() == KafkaError._PARTITION_EOF:
                    continue
                raise KafkaException(record.error())
            done[record.partition()] = record.offset() + 1
            try:
                if response := answer(record.value() or b"", bank, given.closed, secret):
                    answers.produce(**response, on_delivery=acknowledged)
            except Exception as error:  # somebody's mistake must not stop the bank
                print(f"partition {record.partition()}, offset {record.offset()} is no question: {error!r}", file=sys.stderr)
        if answers.flush(60) or lost:  # first the answers, then the offsets
            sys.exit(f"bank_kafka.py: Kafka has not acknowledged answers: {lost or 'nothing for 60 s'}")
        if done:
            asked.commit(offsets=[TopicPartition("pix.authorization-requests", p, o) for p, o in done.items()], asynchronous=False)
    asked.close()


if __name__ == "__main__":
    main()
