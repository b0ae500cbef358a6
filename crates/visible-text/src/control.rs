//! The text of form controls: a value, the selected option, the first lines of a text area.

use ego_tree::NodeRef;
use scraper::Node;

use super::element::{Role, attribute};
use super::enter::whole_number;
use super::walk::Seen;

/// Default number of visible characters of a text input.
const INPUT_SIZE: usize = 24;

/// The visible text of a control, and text that may be scrolled out of sight.
pub(super) fn text(seen: &Seen<'_>) -> (String, String) {
    match seen.role {
        Role::TextArea => text_area(seen),
        Role::Select => select(seen),
        _ => input(seen),
    }
}

fn input(seen: &Seen<'_>) -> (String, String) {
    let attribute = |name: &str| attribute(seen.element, name);
    let kind = attribute("type").unwrap_or("text").trim().to_ascii_lowercase();
    let value = || attribute("value").unwrap_or("").to_owned();
    let shown = match kind.as_str() {
        "checkbox" | "radio" if attribute("checked").is_some() => "[x]".to_owned(),
        "checkbox" | "radio" => "[ ]".to_owned(),
        "button" | "submit" | "reset" => value(),
        "hidden" | "password" | "file" | "image" | "range" | "color" => String::new(),
        kind if !keeps_value(kind, &value()) => return (String::new(), value()),
        _ if value().chars().count() > INPUT_SIZE => return (String::new(), value()),
        _ => value(),
    };
    (shown, String::new())
}

/// Whether a browser keeps the value; numbers and dates that are invalid are discarded.
fn keeps_value(kind: &str, value: &str) -> bool {
    match kind {
        "number" => value.parse::<f64>().is_ok_and(f64::is_finite),
        "date" | "time" | "month" | "week" | "datetime-local" => {
            let mut digits = value.bytes().filter(u8::is_ascii_digit);
            let is_plain = |byte: u8| byte.is_ascii_digit() || b"-:. TW".contains(&byte);
            value.is_empty() || (digits.next().is_some() && value.bytes().all(is_plain))
        }
        _ => true,
    }
}

fn text_area(seen: &Seen<'_>) -> (String, String) {
    let size = |name: &str, usual: usize| {
        let number = attribute(seen.element, name).and_then(whole_number);
        number.and_then(|number| usize::try_from(number).ok()).unwrap_or(usual)
    };
    let text = words_of(seen.node);
    let (rows, columns) = (size("rows", 2), size("cols", 20));
    let lines: usize = text.lines().map(|line| 1 + line.chars().count() / columns.max(1)).sum();
    match lines <= rows {
        true => (text, String::new()),
        false => (String::new(), text),
    }
}

/// A drop-down list shows one option, a list box the first few.
fn select(seen: &Seen<'_>) -> (String, String) {
    let is_box = attribute(seen.element, "multiple").is_some();
    let size = attribute(seen.element, "size").and_then(whole_number).unwrap_or(if is_box {
        4
    } else {
        1
    });
    let options: Vec<NodeRef<'_, Node>> = seen
        .node
        .descendants()
        .filter(|node| node.value().as_element().is_some_and(|element| element.name() == "option"))
        .take(1_000)
        .collect();
    let shown_text = |option: &NodeRef<'_, Node>| {
        let label = option.value().as_element().and_then(|element| attribute(element, "label"));
        label.filter(|label| !label.is_empty()).map_or_else(|| words_of(*option), str::to_owned)
    };
    if !is_box && size <= 1 {
        let is_chosen = |option: &&NodeRef<'_, Node>| {
            option
                .value()
                .as_element()
                .is_some_and(|element| attribute(element, "selected").is_some())
        };
        let is_enabled = |option: &&NodeRef<'_, Node>| !has_any(**option, &["disabled"]);
        let chosen = options.iter().rfind(is_chosen).or_else(|| options.iter().find(is_enabled));
        return (chosen.map(shown_text).unwrap_or_default(), String::new());
    }
    let is_hidden = |option: &NodeRef<'_, Node>| has_any(*option, &["hidden", "style", "class"]);
    // An option that may be hidden is treated like one that does not fit.
    let (hidden, options): (Vec<_>, Vec<_>) = options.into_iter().partition(is_hidden);
    let fits = usize::try_from(size).unwrap_or(1);
    let join = |options: &[NodeRef<'_, Node>]| {
        options.iter().map(shown_text).collect::<Vec<_>>().join(", ")
    };
    let (shown, cut_off) = options.split_at(fits.min(options.len()));
    (join(shown), join(&[cut_off, &hidden].concat()))
}

/// Whether an option or its group has any of these attributes.
fn has_any(option: NodeRef<'_, Node>, names: &[&str]) -> bool {
    let has = |node: NodeRef<'_, Node>| {
        let element = node.value().as_element();
        element
            .filter(|element| matches!(element.name(), "option" | "optgroup"))
            .is_some_and(|element| names.iter().any(|name| attribute(element, name).is_some()))
    };
    has(option) || option.parent().is_some_and(has)
}

fn words_of(node: NodeRef<'_, Node>) -> String {
    node.descendants().filter_map(|node| node.value().as_text()).map(|text| &**text).collect()
}
