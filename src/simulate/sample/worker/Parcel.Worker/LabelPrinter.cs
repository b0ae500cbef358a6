using System.Text;

namespace Parcel.Worker;

/// <summary>Writes shipping labels in ZPL for the warehouse printers.</summary>
public sealed class LabelPrinter
{
    private readonly Stream printer;

    public LabelPrinter(Stream printer) => this.printer = printer;

    public void Print(Shipment shipment)
    {
        var zpl = new StringBuilder("^XA");
        zpl.Append($"^FO50,50^A0N,40,40^FD{shipment.To.Name}^FS");
        zpl.Append($"^FO50,100^A0N,40,40^FD{shipment.To.Street}^FS");
        zpl.Append($"^FO50,150^BY3^BCN,120,Y,N,N^FD{shipment.Number}^FS");
        zpl.Append("^XZ");
        var bytes = Encoding.ASCII.GetBytes(zpl.ToString());
        printer.Write(bytes, 0, bytes.Length);
    }
}
