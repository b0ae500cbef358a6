"""Compares our shipments with a carrier's invoice and prints what does not match."""

import csv
import sys
from decimal import Decimal


def load(path, number, amount):
    with open(path, encoding="latin-1") as lines:
        return [(row[number].strip(), Decimal(row[amount])) for row in csv.DictReader(lines)]


def match_lines(invoice, shipments):
    """Yields (number, our amount, billed amount); what we do not know counts as zero."""
    for number, billed in invoice:
        expected = Decimal(0)
        for ours, amount in shipments:
            if ours.upper() == number.upper():
                expected += amount
        if expected != billed:
            yield number, expected, billed


def main(invoice_path, shipments_path):
    invoice = load(invoice_path, "number", "amount")
    shipments = load(shipments_path, "tracking_number", "cents")
    total = Decimal(0)
    for number, expected, billed in match_lines(invoice, shipments):
        total += billed - expected
        print(f"{number}: expected {expected}, billed {billed}")
    print(f"difference: {total}")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
