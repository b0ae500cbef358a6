"""Compares our shipments with a carrier's invoice and prints what does not match."""

import csv
import sys
from decimal import Decimal


def load_invoice(path):
    with open(path, encoding="latin-1") as invoice:
        return {row["number"]: Decimal(row["amount"]) for row in csv.DictReader(invoice)}


def differences(ours, invoice):
    """Yields (number, our amount, billed amount); missing ones count as zero."""
    for number, billed in invoice.items():
        expected = ours.get(number, Decimal(0))
        if expected != billed:
            yield number, expected, billed


def main(invoice_path, ours):
    total = Decimal(0)
    for number, expected, billed in differences(ours, load_invoice(invoice_path)):
        total += billed - expected
        print(f"{number}: expected {expected}, billed {billed}")
    print(f"difference: {total}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], {}))
