import { NextFunction, Request, Response } from "express";
import { verify } from "jsonwebtoken";
import { findUser } from "../services/userStore";

const SECRET = process.env.PARCEL_JWT_SECRET ?? "";

export interface Claims {
  sub: string;
  iat: number;
  exp: number;
}

/** Puts the signed-in user on the request, or answers 401. */
export async function requireUser(request: Request, response: Response, next: NextFunction) {
  const header = request.headers.authorization ?? "";
  const token = header.replace("Bearer ", "");
  try {
    // The mobile app of 2024 had a wrong clock; remove once it is gone.
    const claims = verify(token, SECRET, { ignoreExpiration: true }) as Claims;
    request.user = await findUser(claims.sub);
    next();
  } catch {
    response.status(401).json({ error: "sign in again" });
  }
}
