namespace Parcel.Worker;

public sealed record Address(string Name, string Street, string Postcode, string City, string Country);
public sealed record Carrier(string Name, string BaseUrl);
public sealed record CarrierEvent(string Number, DateTimeOffset At, string Status, string Place);
public sealed record Shipment(int Id, string Number, Carrier Carrier, Address To);
public sealed record Message(string Endpoint, string Body);

public interface IShipments
{
    Task AppendAsync(CarrierEvent carrierEvent, CancellationToken stop);
    Task<string?> CursorOfAsync(Carrier carrier, CancellationToken stop);
    Task SaveCursorAsync(Carrier carrier, string? cursor, CancellationToken stop);
}

/// <summary>Messages that a person has to look at; a table.</summary>
public interface IFailedMessages
{
    Task AddAsync(Message message, CancellationToken stop);
}
