export interface Address {
  name: string;
  street: string;
  postcode: string;
  city: string;
  country: string;
}

/** "Street 12" or "Street 12b". */
const STREET = /^(.*?)\s+(\d+[a-zA-Z]?)$/;

/** The label has one field for the street and one for the house number. */
export function splitStreet(line: string): { street: string; houseNumber: string } {
  const match = STREET.exec(line.trim());
  if (!match) {
    // No number: cut what follows the last word with letters only.
    return { street: line.trim().replace(/\s+\S*\d.*$/, ""), houseNumber: "" };
  }
  return { street: match[1], houseNumber: match[2] };
}

/** Trims, collapses blanks and upper-cases postcode and country. */
export function normalizeAddress(address: Address): Address {
  const tidy = (text: string) => text.replace(/\s+/g, " ").trim();
  const { street, houseNumber } = splitStreet(tidy(address.street));
  return {
    name: tidy(address.name),
    street: [street, houseNumber].filter(Boolean).join(" "),
    postcode: tidy(address.postcode).replace(/\s/g, "").toUpperCase(),
    city: tidy(address.city),
    country: tidy(address.country).toUpperCase(),
  };
}
