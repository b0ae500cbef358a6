namespace Shop.Cart;

public interface IDiscountPolicy
{
    decimal Reduction(decimal sum);
}

public sealed class VoucherDiscountPolicy : IDiscountPolicy
{
    public string VoucherCode { get; init; } = "";

    public decimal Reduction(decimal sum)
    {
        if (VoucherCode.Length == 0)
        {
            throw new InvalidOperationException("SHOP1042: voucher code is empty");
        }
        return sum * 0.1m;
    }
}
