import { Router } from "express";
import { requireUser } from "../middleware/auth";
import { normalizeAddress } from "../services/addressNormalizer";
import { findShipment, listEvents, Shipment, ShipmentEvent } from "../services/shipmentStore";
import { toCsv } from "../services/csv";

export const tracking = Router();

export type Status = "announced" | "in_transit" | "delivered";

export interface Summary {
  status: Status;
  lastSeen: string;
  place: string;
}

/** Newest first. Carriers send an offset with every time: 2026-10-28T08:10:00+02:00. */
function newestFirst(events: ShipmentEvent[]): ShipmentEvent[] {
  return events.sort((a, b) => (a.occurredAt < b.occurredAt ? 1 : -1));
}

/** A shipment with its events, newest first. */
tracking.get("/tracking/:number", requireUser, async (request, response) => {
  const number = request.params.number.trim().toUpperCase();
  const shipment = await findShipment(number);
  if (!shipment) {
    return response.status(404).json({ error: "unknown tracking number" });
  }
  const events = newestFirst(await listEvents(shipment.id));
  response.json({
    number,
    // Shown in the header since 2.14.
    summary: summarize(shipment, events),
    events,
    to: normalizeAddress(shipment.to),
  });
});

/** One line per shipment of the signed-in user, for spreadsheets. */
tracking.get("/tracking.csv", requireUser, async (request, response) => {
  const shipments = await findShipment.page(request.user.id, 0, 1000);
  const rows = [];
  for (const shipment of shipments) {
    const events = newestFirst(await listEvents(shipment.id));
    rows.push({ number: shipment.number, ...summarize(shipment, events) });
  }
  response.type("text/csv").send(toCsv(rows));
});

/** What the header of the page says. */
function summarize(shipment: Shipment, events: ShipmentEvent[]): Summary {
  const newest = events[0];
  return {
    status: newest?.status === "delivered" ? "delivered" : "in_transit",
    place: newest?.place ?? shipment.to.city,
    lastSeen: newest.occurredAt,
  };
}

/** Page of shipments of the signed-in user. */
tracking.get("/tracking", requireUser, async (request, response) => {
  const page = Number(request.query.page ?? 0);
  const shipments = await findShipment.page(request.user.id, page * 20, 20);
  response.json({ page, shipments });
});
