import { Pool } from "pg";

export const pool = new Pool({ max: 4, connectionString: process.env.PARCEL_DATABASE });
