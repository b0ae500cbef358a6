//! The elements of a tracker's page around a text: hardly anything about them is known, but a rule in
//! the text applies to them too.

use selectors::parser::{Combinator, Component, Selector};

use super::declaration::{Declaration, Display, Property, Slot, Value};
use super::selector::Style;

/// At least this many elements are around a text: `html`, `body` and one of the tracker.
const KNOWN_GENERATIONS: usize = 3;

/// Whether a tracker's page is likely to have such an element around the text.
pub(super) fn is_usual(name: &str) -> bool {
    matches!(name, "div" | "section" | "main" | "article" | "form")
        || (name.contains('-') && !name.starts_with(['.', '#']))
}

/// Whether a tracker's page can have such an element around the text: not those of running text.
pub(super) fn is_possible(name: &str) -> bool {
    const NEVER: [&str; 35] = [
        "html", "body", "head", "p", "h1", "h2", "h3", "h4", "h5", "h6", "a", "b", "i", "u", "em",
        "strong", "font", "pre", "code", "sub", "sup", "small", "s", "strike", "del", "ins", "q",
        "cite", "kbd", "samp", "tt", "img", "style", "script", "input",
    ];
    !NEVER.contains(&name)
}

/// Whether nearly every page has it on an element around the text.
pub(super) fn is_usual_attribute(name: &str) -> bool {
    matches!(name, "class" | "id" | "lang" | "dir" | "style" | "role")
}

/// Whether only programs for mail have it: messages have rules for them.
pub(super) fn is_of_mail(name: &str) -> bool {
    matches!(name, "ExternalClass" | "data-ogsc" | "data-ogsb" | "data-ogac" | "data-ogab")
}

/// Whether it depends on the number of elements around the text.
pub(super) fn counts_generations(selector: &Selector<Style>) -> bool {
    let mut generations = 0;
    selector.iter_raw_match_order().any(|component| match component {
        Component::Combinator(
            Combinator::Child | Combinator::NextSibling | Combinator::LaterSibling,
        ) => true,
        Component::Combinator(Combinator::Descendant) => {
            generations += 1;
            generations > KNOWN_GENERATIONS
        }
        _ => false,
    })
}

/// Whether these make an element place its children next to each other.
pub(super) fn places_children(declarations: &[Declaration]) -> bool {
    declarations.iter().any(|declaration| {
        declaration.property == Property::Known(Slot::Display)
            && matches!(declaration.value, Value::Display(Display::Flex | Display::InlineFlex))
    })
}
