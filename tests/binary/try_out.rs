//! `heartbeat try`: one page about a history, without a configuration.

use serde_json::json;

use crate::backtest::Past;

#[test]
fn one_page_without_a_configuration_a_key_or_a_trace() {
    let past = Past::new();
    past.write("src/invoice.rs", "pub fn invoice_total() -> u32 {\n    1\n}\n");
    past.commit("Fixes #11: invoice total");
    past.write("src/label.rs", "pub fn label_total() -> u32 {\n    1\n}\n");
    past.commit("Fixes #14: label total");
    let item = |number: i64, title: &str, body: &str| json!({ "number": number, "title": title, "body": body, "createdAt": "2020-01-01T00:00:00Z" });
    let items = json!([
        item(11, "Invoice total is rounded twice", "The sum on the invoice differs by a cent."),
        item(12, "Total of the invoice rounded twice", "Sum differs by one cent on invoices."),
        item(
            13,
            "Invoice total rounded twice again",
            "Sum on the invoice differs, see #11 and #12."
        ),
        item(14, "Label printer prints nothing", "The label stays white."),
    ]);
    let folder = past.folder.path();
    std::fs::write(folder.join("items.json"), items.to_string()).unwrap();
    // An invalid configuration in the working directory does not matter.
    std::fs::write(folder.join("heartbeat.toml"), "this is not TOML").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_heartbeat"))
        .args(["try", "--repo", "code", "--items", "items.json", "--quiet"])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(said.contains("heartbeat-try.html"), "{said}");
    let page = std::fs::read_to_string(folder.join("heartbeat-try.html")).unwrap();
    for part in ["Likely duplicates that do not name each other", "src&#x2f;invoice.rs"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(said.contains("#11") && said.contains("#12"), "{said}");
    assert_eq!(said.matches("Likely duplicates").count(), 1, "#13 names the others: {said}");
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "code, items, configuration and page: {left:?}");
}
