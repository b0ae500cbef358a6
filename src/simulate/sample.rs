//! The sample code base of the demo: "Parcel", a small parcel-tracking service. The items of the
//! simulated tracker report its bugs.

use std::io;
use std::path::Path;

use crate::private;

macro_rules! sample {
    ($($path:literal),+ $(,)?) => { [$(($path, include_str!(concat!("sample/", $path)))),+] };
}

pub const FILES: [(&str, &str); 19] = sample![
    "README.md",
    "api/src/middleware/auth.ts",
    "api/src/routes/tracking.ts",
    "api/src/services/addressNormalizer.ts",
    "api/src/services/csv.ts",
    "api/src/services/database.ts",
    "api/src/services/rateCalculator.ts",
    "api/src/services/shipmentStore.ts",
    "api/src/services/userStore.ts",
    "api/test/rateCalculator.test.ts",
    "tools/import_rates.py",
    "tools/reconcile.py",
    "web/src/components/TrackingTimeline.tsx",
    "web/src/hooks/usePolling.ts",
    "worker/Parcel.Worker.Tests/RetryQueueTests.cs",
    "worker/Parcel.Worker/CarrierSync.cs",
    "worker/Parcel.Worker/LabelPrinter.cs",
    "worker/Parcel.Worker/RetryQueue.cs",
    "worker/Parcel.Worker/Shipments.cs",
];

pub fn write_to(folder: &Path) -> io::Result<()> {
    for (path, content) in FILES {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            private::create_folder(parent)?;
        }
        private::write(&file, content.as_bytes())?;
    }
    Ok(())
}
