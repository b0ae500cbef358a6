export interface Parcel {
  weightGrams: number;
  lengthCm: number;
  widthCm: number;
  heightCm: number;
  country: string;
}

/** What one carrier charges: a price per weight band, cheapest band first. */
export interface Tariff {
  carrier: string;
  bands: Band[];
}

export interface Band {
  upToGrams: number;
  cents: number[];
}

export interface Rate {
  carrier: string;
  cents: number;
}

/** Cubic centimetres per kilogram. */
const VOLUMETRIC_DIVISOR = 5000;

/** Carriers bill the larger of real and volumetric weight. */
export function billableGrams(parcel: Parcel): number {
  const cubic = parcel.lengthCm * parcel.widthCm * parcel.heightCm;
  return Math.max(parcel.weightGrams, Math.ceil((cubic / VOLUMETRIC_DIVISOR) * 1000));
}

/** The band that a weight falls into; none above the last. */
export function findBand(bands: Band[], grams: number): Band | undefined {
  return bands.find((band) => grams < band.upToGrams);
}

/** Cheapest first. */
export function ratesFor(parcel: Parcel, tariffs: Tariff[]): Rate[] {
  const zone = zoneOf(parcel.country);
  const grams = billableGrams(parcel);
  const rates: Rate[] = [];
  for (const tariff of tariffs) {
    const band = findBand(tariff.bands, grams);
    if (band) rates.push({ carrier: tariff.carrier, cents: band.cents[zone] });
  }
  return rates.sort((a, b) => a.cents - b.cents);
}

export function zoneOf(country: string): number {
  return country === "DE" ? 0 : ["FR", "NL", "AT", "PL"].includes(country) ? 1 : 2;
}
