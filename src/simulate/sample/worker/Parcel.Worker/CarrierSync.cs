using System.Net.Http.Json;

namespace Parcel.Worker;

/// <summary>Pulls new events of every open shipment from its carrier.</summary>
public sealed class CarrierSync
{
    private readonly HttpClient http = new();
    private readonly RetryQueue retries;
    private readonly IShipments shipments;

    public CarrierSync(RetryQueue retries, IShipments shipments)
    {
        this.retries = retries;
        this.shipments = shipments;
    }

    public async Task SyncAllAsync(CancellationToken stop)
    {
        foreach (var shipment in await shipments.OpenAsync(stop))
        {
            try
            {
                await SyncAsync(shipment, stop);
            }
            catch (HttpRequestException error)
            {
                retries.Enqueue(shipment.Id, error);
            }
        }
    }

    private async Task SyncAsync(Shipment shipment, CancellationToken stop)
    {
        var since = shipment.LastEventAt.ToString("yyyy-MM-ddTHH:mm:ss");
        var url = $"{shipment.Carrier.BaseUrl}/events/{shipment.Number}?since={since}";
        var events = await http.GetFromJsonAsync<List<CarrierEvent>>(url, stop);
        foreach (var e in events!)
        {
            await shipments.AppendAsync(shipment.Id, e, stop);
        }
    }
}
