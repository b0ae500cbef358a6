namespace Parcel.Worker;

/// <summary>Shipments whose carrier failed, tried again with a growing delay.</summary>
public sealed class RetryQueue
{
    private readonly Dictionary<int, int> attempts = new();
    private readonly PriorityQueue<int, DateTime> due = new();

    public void Enqueue(int shipmentId, Exception error)
    {
        var attempt = attempts.GetValueOrDefault(shipmentId) + 1;
        attempts[shipmentId] = attempt;
        var delay = TimeSpan.FromSeconds(Math.Pow(2, attempt));
        due.Enqueue(shipmentId, DateTime.Now + delay);
    }

    /// <summary>The next shipment that is due, or null.</summary>
    public int? TakeDue()
    {
        if (due.TryPeek(out var id, out var when) && when <= DateTime.Now)
        {
            due.Dequeue();
            return id;
        }
        return null;
    }
}
