"""Imports a carrier's rate sheet (CSV) into the rate table."""

import csv
import sys


def read_rates(path):
    """Yields (carrier, zone, cents per kilo)."""
    with open(path) as sheet:
        for row in csv.DictReader(sheet):
            yield row["carrier"], int(row["zone"]), int(float(row["price"]) * 100)


def main(path, database):
    for carrier, zone, cents in read_rates(path):
        database.execute(
            "insert into rates (carrier, zone, cents) values ('%s', %d, %d)" % (carrier, zone, cents)
        )
    database.commit()


if __name__ == "__main__":
    import psycopg

    main(sys.argv[1], psycopg.connect(sys.argv[2]))
