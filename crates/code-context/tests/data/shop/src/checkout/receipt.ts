export interface Receipt {
  id: string;
  total: number;
}

export function formatReceipt(receipt: Receipt): string {
  return `${receipt.id}: ${receipt.total.toFixed(2)}`;
}
