"""Pays, polls, streams and reads with the client that was generated into the package foreign.
LIQUIDA_URL is the address, PAYER_KEY the key of 10000001, PAYEE_KEY of 10000002, CENTRAL_BANK_KEY that of the central bank."""

import itertools
import json
import os
import time

from foreign import AuthenticatedClient
from foreign.api.accounts import account, statement
from foreign.api.participants import participant, participants
from foreign.api.payments import pay, payment, payment_events
from foreign.api.returns import give_back, return_events, return_state
from foreign.api.settlements import settlements
from foreign.models import Accepted, Account, AccountBalance, Participant, ParticipantPage, Payment, PaymentState, Problem, ReturnOrder, ReturnOrderReasonCode, ReturnState, Settlement, Statement

address = os.environ["LIQUIDA_URL"]
# An answer with a status that the description does not name is an error.
client = AuthenticatedClient(base_url=address, token=os.environ["PAYER_KEY"], raise_on_unexpected_status=True, timeout=60)
receiver = AuthenticatedClient(base_url=address, token=os.environ["PAYEE_KEY"], raise_on_unexpected_status=True, timeout=60)
central_bank = AuthenticatedClient(base_url=address, token=os.environ["CENTRAL_BANK_KEY"], raise_on_unexpected_status=True, timeout=60)


def events(request, model):
    """Reads a stream. The generator knows no server-sent events: it makes the request and
    the data's type, the lines between are read here."""
    with client.get_httpx_client().stream(**request) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("data:"):
                yield model.from_dict(json.loads(line[5:]))


payer, payee = Account(ispb="10000001", branch="0001", number="1"), Account(ispb="10000002", branch="0001", number="1")

# Pay, holding the answer for the outcome, and without.
outcome = pay.sync(client=client, body=Payment(payer=payer, payee=payee, amount_centavos=1234), prefer="wait=30")
assert isinstance(outcome, PaymentState) and outcome.status.value == "settled" and outcome.amount_centavos == 1234, outcome
taken = pay.sync(client=client, body=Payment(payer=payer, payee=payee, amount_centavos=77))
assert isinstance(taken, Accepted), taken

# Stream its states, then poll: the same end.
*_, last = events(payment_events._get_kwargs(taken.end_to_end_id), PaymentState)
assert last.status.value == "settled" and len(last.legs) == 3, last
for _ in range(600):
    polled = payment.sync(taken.end_to_end_id, client=client)
    if isinstance(polled, PaymentState) and polled.status.value == "settled":
        break
    time.sleep(0.1)
assert polled == last, (polled, last)

# Stream the bank's settlements from the first on: both payments are there.
told = itertools.islice(events(settlements._get_kwargs(participant="10000001", from_="start"), Settlement), 2)
assert {s.end_to_end_id for s in told} == {outcome.end_to_end_id, taken.end_to_end_id}

# Read the books.
balance = account.sync("10000001", "0001", "1", client=client)
assert isinstance(balance, AccountBalance) and balance.available_centavos == 100_000_000 - 1234 - 77, balance
page = statement.sync("10000001", "0001", "1", client=client, limit=2)
assert isinstance(page, Statement) and len(page.lines) == 2 and page.next_cursor, page
older = statement.sync("10000001", "0001", "1", client=client, cursor=page.next_cursor)
assert isinstance(older, Statement) and older.lines and older.lines[0].at < page.lines[-1].at, older
bank = participant.sync("10000001", client=client)
assert isinstance(bank, Participant) and bank.three_leg_invariant.holds, bank
banks = participants.sync(client=central_bank)
assert isinstance(banks, ParticipantPage) and len(banks.participants) == 5, banks

# Give a part of it back, by the bank that received it, holding the answer for the outcome; then
# follow and poll it: the same end, and the payment tells it.
order = ReturnOrder(original_end_to_end_id=outcome.end_to_end_id, amount_centavos=234, reason_code=ReturnOrderReasonCode.MD06)
given = give_back.sync(client=receiver, body=order, prefer="wait=30")
assert isinstance(given, ReturnState) and given.status.value == "settled" and given.amount_centavos == 234, given
*_, last = events(return_events._get_kwargs(given.return_id), ReturnState)
back = return_state.sync(given.return_id, client=receiver)
assert given == last == back, (given, last, back)
whole = payment.sync(outcome.end_to_end_id, client=client)
assert whole.returned_centavos == 234 and [r.return_id for r in whole.returns] == [given.return_id], whole
order.return_id = given.return_id
refused = give_back.sync(client=client, body=order)  # not by the bank that paid
assert isinstance(refused, Problem) and refused.status == 403, refused

# What is wrong is told as the description says.
wrong = pay.sync(client=client, body=Payment(payer=payer, payee=Account(ispb="x", branch="0001", number="1"), amount_centavos=1))
assert isinstance(wrong, Problem) and wrong.status == 422 and wrong.field == "payee.ispb", wrong
nobody = account.sync("10000001", "0001", "99999999", client=client)
assert isinstance(nobody, Problem) and nobody.status == 404, nobody
print("the foreign client paid, polled, streamed, read and gave back")
