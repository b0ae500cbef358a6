import { billableGrams, findBand, ratesFor } from "../src/services/rateCalculator";

const bands = [
  { upToGrams: 5000, cents: [590, 890, 1190] },
  { upToGrams: 20000, cents: [990, 1240, 1890] },
  { upToGrams: 31500, cents: [1290, 1790, 2590] },
];

test("the larger of real and volumetric weight is billed", () => {
  const parcel = { weightGrams: 900, lengthCm: 40, widthCm: 30, heightCm: 20, country: "DE" };
  expect(billableGrams(parcel)).toBe(4800);
});

test("a parcel between two limits takes the next band", () => {
  expect(findBand(bands, 12000)?.upToGrams).toBe(20000);
});

test("cheapest rate comes first", () => {
  const parcel = { weightGrams: 1000, lengthCm: 1, widthCm: 1, heightCm: 1, country: "DE" };
  const dear = bands.map((band) => ({ ...band, cents: band.cents.map((cents) => cents * 2) }));
  const rates = ratesFor(parcel, [{ carrier: "a", bands: dear }, { carrier: "b", bands }]);
  expect(rates[0].carrier).toBe("b");
});
