//! Units in several files: views with the code behind them, partial types, interfaces, and messages
//! in a catalogue whose key the code uses.

use std::path::Path;

use code_context::{Index, Options, Query, Weights, rank};

/// The rank of each file for a text, in a repository of these files and of twenty in the language
/// of the last one that each contain one word of the text.
fn places(files: &[(&str, &str)], text: &str, of: &[&str]) -> Vec<Option<usize>> {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
        std::fs::write(path, text).unwrap();
    };
    files.iter().for_each(|(path, text)| write(path, text));
    let language = files.last().and_then(|(path, _)| path.rsplit('.').next()).unwrap_or_default();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphabetic()).collect();
    for (number, word) in (0..20).zip(words.iter().filter(|word| word.len() > 3).cycle()) {
        let text = format!("class Other{number} {{\n    void Run() {{ Use(\"{word}\"); }}\n}}\n");
        write(&format!("src/Other/Other{number}.{language}"), &text);
    }
    let options = Options { history: false, ..Options::default() };
    let (index, _) = Index::open_or_build(folder.path(), cache.path(), &options).unwrap();
    let ranked = rank(&index, &Query::from_text(text), &Weights::default(), 30).unwrap();
    of.iter().map(|path| ranked.iter().position(|file| file.path == *path)).collect()
}

const REPORT: &str =
    "Voucher button stays grey\nThe voucher button of the basket stays grey after a reload.";
const VIEW: &str = "<h1>Basket</h1>\n<button class=\"voucher grey\">Voucher reload</button>\n\
    <!-- the voucher button stays grey until a reload -->\n";

#[test]
fn the_code_behind_a_view_stands_with_it() {
    for (view, behind) in [
        ("Pages/Basket.razor", "Pages/Basket.razor.cs"),
        ("Pages/Basket.cshtml", "Pages/Basket.cshtml.cs"),
        ("Windows/Basket.xaml", "Windows/Basket.xaml.cs"),
        ("app/basket.component.html", "app/basket.component.ts"),
    ] {
        let code = "class Summary {\n    void Ready() { Load(); }\n}\n";
        let files = [(view, VIEW), (behind, code)];
        assert!(places(&files, REPORT, &[behind])[0].is_some_and(|place| place < 2), "{behind}");
    }
}

#[test]
fn the_files_of_a_partial_type_stand_together() {
    let part = |body: &str| format!("namespace Shop;\npublic partial class Order {{\n{body}\n}}\n");
    let words =
        part("    // voucher button of the basket stays grey after a reload\n    void A();");
    let other = part("    void Ship() { Send(); }");
    let alike = other.replace("partial ", "");
    let files = [
        ("src/Order.cs", words.as_str()),
        ("src/Shipping/OrderShipping.cs", &other),
        ("old/Shipping/Order2.cs", &alike),
    ];
    let of = ["src/Order.cs", "src/Shipping/OrderShipping.cs", "old/Shipping/Order2.cs"];
    let places = places(&files, REPORT, &of);
    assert_eq!(places[0], Some(0));
    assert!(places[1].is_some(), "it holds no word of the text");
    assert!(places[2].is_none_or(|place| Some(place) > places[1]), "a type of its own: {places:?}");
}

#[test]
fn an_interface_stands_behind_its_implementation() {
    let files = [
        ("src/IVoucherService.cs", "interface IVoucherService {\n    void Reload(Voucher v);\n}\n"),
        (
            "src/VoucherService.cs",
            "class VoucherService : IVoucherService {\n    public void Reload(Voucher v) {\n        \
             Store(); Check(); Notify(); Log(); Clear(); Wait(); Next(); Again(); Done();\n    }\n}\n",
        ),
    ];
    let text = "Voucher service: reload\nReload of a voucher in the service does nothing.";
    let places = places(&files, text, &["src/VoucherService.cs", "src/IVoucherService.cs"]);
    assert!(places[0] < places[1], "{places:?}");
}

#[test]
fn a_message_of_a_catalogue_leads_to_the_code_that_uses_its_key() {
    let gate = "class Gate {\n    void Close() { Show(Texts.GateClosed); }\n}\n";
    let text = "Nobody can pay\nThe page says \"The till cannot be opened now\" since Monday.";
    for (path, catalogue) in [
        (
            "Resources/Texts.resx",
            "<root>\n  <data name=\"First\"><value>Other</value></data>\n  <data name=\"GateClosed\" \
             xml:space=\"preserve\">\n    <value>The till cannot be opened now</value>\n  </data>\n</root>\n",
        ),
        (
            "locales/en.json",
            "{\n  \"First\": \"Other\",\n  \"GateClosed\": \"The till cannot be opened now\"\n}\n",
        ),
        ("src/texts.properties", "First=Other\nGateClosed=The till cannot be opened now\n"),
    ] {
        let files = [(path, catalogue), ("src/Gate.cs", gate)];
        let places = places(&files, text, &["src/Gate.cs"]);
        assert!(places[0].is_some_and(|place| place < 5), "{path} {places:?}");
    }
}
