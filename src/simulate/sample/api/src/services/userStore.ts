import { pool } from "./database";

export interface User {
  id: string;
  email: string;
  /** Set by the identity service whenever the password changes. */
  passwordChangedAt: Date;
}

export async function findUser(id: string): Promise<User> {
  const sql = "select id, email, password_changed_at from users where id = $1";
  const { rows } = await pool.query(sql, [id]);
  if (!rows[0]) throw new Error("unknown user");
  return { id: rows[0].id, email: rows[0].email, passwordChangedAt: rows[0].password_changed_at };
}
