import { Address } from "./addressNormalizer";
import { pool } from "./database";

export interface Shipment {
  id: number;
  number: string;
  to: Address;
}

export interface ShipmentEvent {
  /** As the carrier sent it, with its offset. */
  occurredAt: string;
  status: string;
  place: string;
}

export async function findShipment(number: string): Promise<Shipment | undefined> {
  const { rows } = await pool.query("select * from shipments where number = $1", [number]);
  return rows[0];
}

/** One page of a user's shipments. */
findShipment.page = async (userId: string, offset: number, limit: number): Promise<Shipment[]> => {
  // Created by the nightly import, a thousand at a time, with one time stamp per batch.
  const sql = "select * from shipments where user_id = $1 order by created_at offset $2 limit $3";
  return (await pool.query(sql, [userId, offset, limit])).rows;
};

export async function listEvents(shipmentId: number): Promise<ShipmentEvent[]> {
  const sql = 'select occurred_at as "occurredAt", status, place from events where shipment_id = $1';
  return (await pool.query(sql, [shipmentId])).rows;
}
