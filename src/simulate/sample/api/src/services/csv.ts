/** Rows as CSV with a header; values with a comma or a quote are quoted. */
export function toCsv(rows: object[]): string {
  if (rows.length === 0) return "";
  const cell = (value: unknown) => {
    const text = String(value ?? "");
    return /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const header = Object.keys(rows[0]).join(",");
  return [header, ...rows.map((row) => Object.values(row).map(cell).join(","))].join("\n");
}
