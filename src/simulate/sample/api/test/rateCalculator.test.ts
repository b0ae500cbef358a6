import { billableGrams, ratesFor } from "../src/services/rateCalculator";

test("the larger of real and volumetric weight is billed", () => {
  const parcel = { weightGrams: 900, lengthCm: 40, widthCm: 30, heightCm: 20, country: "DE" };
  expect(billableGrams(parcel)).toBeGreaterThanOrEqual(900);
});

test("cheapest rate comes first", () => {
  const table = new Map([["a", [300, 500, 900]], ["b", [250, 480, 950]]]);
  const parcel = { weightGrams: 1000, lengthCm: 1, widthCm: 1, heightCm: 1, country: "DE" };
  expect(ratesFor(parcel, table)[0].carrier).toBe("b");
});
