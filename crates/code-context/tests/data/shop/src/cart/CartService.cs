namespace Shop.Cart;

/// <summary>Keeps the lines of a basket and sums them up.</summary>
public sealed class CartService
{
    private readonly IDiscountPolicy _discounts;

    public CartService(IDiscountPolicy discounts)
    {
        _discounts = discounts;
    }

    public decimal Total(IReadOnlyList<CartLine> lines)
    {
        decimal sum = 0;
        foreach (var line in lines)
        {
            sum += line.Price * line.Quantity;
        }
        // Discounts apply to the whole basket, never below zero.
        return Math.Max(0, sum - _discounts.Reduction(sum));
    }
}
