namespace Parcel.Worker;

public sealed record RetryEntry(Message Message, int Attempt, DateTime DueAt);

/// <summary>Notifications whose endpoint failed, tried again with a growing delay.</summary>
public sealed class RetryQueue
{
    private const int MaxAttempts = 8;
    private static readonly TimeSpan Longest = TimeSpan.FromMinutes(30);

    private readonly List<RetryEntry> waiting = new();
    private readonly IFailedMessages failed;
    private readonly ILogger<RetryQueue> log;

    public RetryQueue(IFailedMessages failed, ILogger<RetryQueue> log)
    {
        this.failed = failed;
        this.log = log;
    }

    public async Task EnqueueAsync(Message message, int attempt, CancellationToken stop)
    {
        if (attempt >= MaxAttempts)
        {
            await failed.AddAsync(message, stop);
            return;
        }
        var delay = NextDelay(attempt);
        log.LogInformation("retry in {Delay}", delay);
        waiting.Add(new RetryEntry(message, attempt + 1, DateTime.Now + delay));
    }

    /// <summary>Takes what is due. Called by the delivery loop, which awaits each delivery.</summary>
    public IReadOnlyList<RetryEntry> TakeDue()
    {
        var due = waiting.Where(entry => entry.DueAt <= DateTime.Now).ToList();
        waiting.RemoveAll(due.Contains);
        return due;
    }

    public static TimeSpan NextDelay(int attempt)
    {
        var delay = TimeSpan.FromSeconds(Math.Pow(2, attempt) * 15);
        return delay < Longest ? delay : Longest;
    }
}
