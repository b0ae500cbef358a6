import { Router } from "express";
import { requireUser } from "../middleware/auth";
import { normalizeAddress } from "../services/addressNormalizer";
import { findShipment, listEvents } from "../services/shipmentStore";

export const tracking = Router();

/** A shipment with its events, newest first. */
tracking.get("/tracking/:number", requireUser, async (request, response) => {
  const number = request.params.number.trim().toUpperCase();
  const shipment = await findShipment(number);
  if (!shipment) {
    return response.status(404).json({ error: "unknown tracking number" });
  }
  const events = await listEvents(shipment.id);
  // Carriers send local times without an offset; they are compared as text here.
  events.sort((a, b) => (a.at < b.at ? 1 : -1));
  response.json({ number, status: events[0].status, events, to: normalizeAddress(shipment.to) });
});

/** Page of shipments of the signed-in user. */
tracking.get("/tracking", requireUser, async (request, response) => {
  const page = Number(request.query.page ?? 0);
  const shipments = await findShipment.page(request.user.id, page * 20, 20);
  response.json({ page, shipments });
});
