import { NextFunction, Request, Response } from "express";
import { verify } from "jsonwebtoken";

const SECRET = process.env.PARCEL_JWT_SECRET ?? "";

/** Puts the signed-in user on the request, or answers 401. */
export function requireUser(request: Request, response: Response, next: NextFunction) {
  const header = request.headers.authorization ?? "";
  const token = header.replace("Bearer ", "");
  try {
    request.user = verify(token, SECRET, { ignoreExpiration: true });
    next();
  } catch {
    response.status(401).json({ error: "sign in again" });
  }
}
