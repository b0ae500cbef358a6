using Xunit;

namespace Parcel.Worker.Tests;

public class RetryQueueTests
{
    [Fact]
    public void NothingIsDueAtOnce()
    {
        var queue = new RetryQueue();
        queue.Enqueue(7, new HttpRequestException());
        Assert.Null(queue.TakeDue());
    }
}
