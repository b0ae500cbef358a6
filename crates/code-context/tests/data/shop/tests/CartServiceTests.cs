namespace Shop.Tests;

public class CartServiceTests
{
    public void Total_of_an_empty_basket_is_zero()
    {
        var total = new CartService(new VoucherDiscountPolicy()).Total([]);
        Assert.Equal(0, total);
    }
}
