import { pool } from "./database";

export interface ShipmentEvent {
  at: string;
  status: string;
  place: string;
}

export async function findShipment(number: string) {
  const { rows } = await pool.query("select * from shipments where number = $1", [number]);
  return rows[0];
}

/** One query per page; used by the list of a user's shipments. */
findShipment.page = async (userId: string, offset: number, limit: number) => {
  const sql = "select * from shipments where user_id = $1 order by created_at offset $2 limit $3";
  return (await pool.query(sql, [userId, offset, limit])).rows;
};

export async function listEvents(shipmentId: number): Promise<ShipmentEvent[]> {
  const sql = "select at, status, place from events where shipment_id = $1";
  return (await pool.query(sql, [shipmentId])).rows;
}
