namespace Parcel.Worker;

public sealed record Address(string Name, string Street, string Postcode, string City, string Country);
public sealed record Carrier(string Name, string BaseUrl);
public sealed record CarrierEvent(DateTime At, string Status, string Place);
public sealed record Shipment(int Id, string Number, Carrier Carrier, Address To, DateTime LastEventAt);

public interface IShipments
{
    Task<IReadOnlyList<Shipment>> OpenAsync(CancellationToken stop);
    Task AppendAsync(int shipmentId, CarrierEvent carrierEvent, CancellationToken stop);
}
