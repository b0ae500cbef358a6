//! Simulated users: while a demo follows its schedule, items are edited, closed and reported.

use std::time::Duration;

use serde_json::json;

use super::seed::FIRST_ID;
use super::server::AdoServer;
use super::tracker_data::PROJECT;
use super::{Simulator, change};

const REPRO_STEPS: &str = "Microsoft.VSTS.TCM.ReproSteps";

enum UserStep {
    /// Adds a sentence to the repro steps of an item.
    Adds(i64, &'static str),
    /// Moves an item to another state.
    Moves(i64, &'static str),
    /// Reports a bug: title, area, priority, text.
    Reports(&'static str, &'static str, i64, &'static str),
}

/// The steps of one day; nothing happens afterwards.
const DAY: [UserStep; 4] = [
    UserStep::Reports(
        "CSV export fails for customers with a new shipment",
        "Tracking\\API",
        2,
        "<div>The download of <code>/api/tracking.csv</code> ends with an error as soon as one shipment \
         has no scan yet. Customers with only old shipments are fine.</div>",
    ),
    UserStep::Moves(FIRST_ID + 4, "Closed"),
    UserStep::Adds(
        FIRST_ID + 11,
        "<div><b>Update:</b> the hotfix of 14:10 ends the loop, but FastLine now says that we read \
         everything from the start every five minutes.</div>",
    ),
    UserStep::Reports(
        "Label of the company R^D Tools is cut off after the first letter",
        "Labels",
        2,
        "<div>Recipient <b>R^D Tools GmbH</b>: the label shows <b>R</b> and then nothing, not even the \
         barcode. Worker 1.9.4, all printers.</div>",
    ),
];

/// The German item of the demo.
const IN_GERMAN: UserStep = UserStep::Reports(
    "Meine Sendungen: auf Seite 2 stehen Pakete von Seite 1 noch einmal",
    "Tracking\\API",
    2,
    "<div>Ein Händler mit 1.400 Sendungen blättert durch <i>Meine Sendungen</i>. Auf Seite 2 stehen \
     Pakete, die schon auf Seite 1 waren; andere findet er auf keiner Seite. Nach dem Neuladen sind \
     es andere. Bei Händlern mit wenigen Sendungen tritt es nicht auf.</div>\
     <div>Seit dem nächtlichen Import der Altdaten.</div>",
);

impl Simulator {
    /// Reports the additional German bug of the demo.
    pub fn report_in_german(&self) {
        IN_GERMAN.take_place(&self.server);
    }

    /// Does one step every `pace`, until the day or the simulator ends.
    pub fn simulate_users(&self, pace: Duration) {
        let (server, stop) = (self.server.clone(), self.serving.stopped());
        tokio::spawn(async move {
            for step in DAY {
                tokio::select! {
                    () = tokio::time::sleep(pace) => step.take_place(&server),
                    () = stop.cancelled() => return,
                }
            }
        });
    }
}

impl UserStep {
    fn take_place(&self, server: &AdoServer) {
        let board = &mut server.lock().board;
        match *self {
            Self::Adds(id, sentence) => {
                let item = board.item(id).and_then(|item| item.at(None));
                let value = item.and_then(|revision| revision.values.get(REPRO_STEPS));
                let before = serde_json::to_value(value).unwrap_or_default();
                let text = format!("{}{sentence}", before.as_str().unwrap_or_default());
                board.edit(id, change(&[(REPRO_STEPS, json!(text))]));
            }
            Self::Moves(id, state) => {
                board.edit(id, change(&[("System.State", json!(state))]));
            }
            Self::Reports(title, area, priority, text) => {
                let fields = change(&[
                    ("System.WorkItemType", json!("Bug")),
                    ("System.Title", json!(title)),
                    ("System.State", json!("New")),
                    ("System.AreaPath", json!(format!("{PROJECT}\\{area}"))),
                    ("Microsoft.VSTS.Common.Priority", json!(priority)),
                    (REPRO_STEPS, json!(text)),
                ]);
                let (id, now) = (board.next_id(), board.now());
                let values = fields.into_iter();
                let values = values.filter_map(|(name, value)| Some((name.into(), value?)));
                board.add(id, now, values.collect());
            }
        }
    }
}
