using Xunit;

namespace Parcel.Worker.Tests;

public class RetryQueueTests
{
    [Fact]
    public async Task NothingIsDueAtOnce()
    {
        var queue = new RetryQueue(new NoFailedMessages(), NullLogger<RetryQueue>.Instance);
        await queue.EnqueueAsync(new Message("https://example.test/hook", "{}"), 1, default);
        Assert.Empty(queue.TakeDue());
    }

    [Theory]
    [InlineData(1, 30)]
    [InlineData(20, 1800)]
    public void DelayDoublesUpToHalfAnHour(int attempt, int seconds) =>
        Assert.Equal(TimeSpan.FromSeconds(seconds), RetryQueue.NextDelay(attempt));
}
