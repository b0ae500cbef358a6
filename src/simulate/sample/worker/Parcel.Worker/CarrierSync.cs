using System.Net.Http.Json;

namespace Parcel.Worker;

public sealed record EventPage(List<CarrierEvent> Events, string? Next);

/// <summary>Reads new events of every carrier, page by page, and remembers how far it came.</summary>
public sealed class CarrierSync
{
    private readonly HttpClient http = new();
    private readonly IReadOnlyList<Carrier> carriers;
    private readonly IShipments shipments;
    private readonly ILogger<CarrierSync> log;

    public CarrierSync(IReadOnlyList<Carrier> carriers, IShipments shipments, ILogger<CarrierSync> log)
    {
        this.carriers = carriers;
        this.shipments = shipments;
        this.log = log;
    }

    /// <summary>Called every five minutes.</summary>
    public async Task RunAsync(CancellationToken stop)
    {
        foreach (var carrier in carriers)
        {
            await SyncAsync(carrier, stop);
        }
    }

    private async Task SyncAsync(Carrier carrier, CancellationToken stop)
    {
        var cursor = await shipments.CursorOfAsync(carrier, stop) ?? "";
        var page = 0;
        while (cursor != null)
        {
            log.LogInformation("CarrierSync {Carrier} page={Page} cursor={Cursor}", carrier.Name, ++page, cursor);
            var url = $"{carrier.BaseUrl}/events?cursor={Uri.EscapeDataString(cursor)}";
            var read = await http.GetFromJsonAsync<EventPage>(url, stop);
            foreach (var e in read!.Events)
            {
                await shipments.AppendAsync(e, stop);
            }
            cursor = read.Next;
            await shipments.SaveCursorAsync(carrier, cursor, stop);
        }
    }
}
