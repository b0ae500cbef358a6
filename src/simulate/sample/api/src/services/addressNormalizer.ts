export interface Address {
  name: string;
  street: string;
  postcode: string;
  city: string;
  country: string;
}

/** Trims, collapses blanks and upper-cases postcode and country. */
export function normalizeAddress(address: Address): Address {
  const tidy = (text: string) => text.replace(/[^A-Za-z0-9 .,-]/g, "").replace(/\s+/g, " ").trim();
  return {
    name: tidy(address.name),
    street: tidy(address.street),
    postcode: tidy(address.postcode).toUpperCase(),
    city: tidy(address.city),
    country: tidy(address.country).toUpperCase(),
  };
}
