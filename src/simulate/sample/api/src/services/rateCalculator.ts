export interface Parcel {
  weightGrams: number;
  lengthCm: number;
  widthCm: number;
  heightCm: number;
  country: string;
}

export interface Rate {
  carrier: string;
  cents: number;
}

const VOLUMETRIC_DIVISOR = 5000;

/** Carriers bill the larger of real and volumetric weight. */
export function billableGrams(parcel: Parcel): number {
  const volumetric = (parcel.lengthCm * parcel.widthCm * parcel.heightCm) / VOLUMETRIC_DIVISOR;
  return Math.max(parcel.weightGrams, volumetric);
}

/** Cheapest first. */
export function ratesFor(parcel: Parcel, table: Map<string, number[]>): Rate[] {
  const rates: Rate[] = [];
  for (const [carrier, centsPerKilo] of table) {
    const zone = zoneOf(parcel.country);
    const cents = centsPerKilo[zone] * (billableGrams(parcel) / 1000);
    rates.push({ carrier, cents: Math.round(cents) });
  }
  return rates.sort((a, b) => a.cents - b.cents);
}

export function zoneOf(country: string): number {
  return country === "DE" ? 0 : ["FR", "NL", "AT", "PL"].includes(country) ? 1 : 2;
}
