//! Pseudo-classes and pseudo-elements by what is known about them.

use std::cell::Cell;
use std::fmt;

use cssparser::{CowRcStr, ParseError, Parser as CssParser, ToCss};
use selectors::parser::{self, SelectorParseErrorKind};

use super::selector::Style;

/// Pseudo-classes by what is known about them on a page without interaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PseudoClass {
    /// Matches nothing, such as `:hover`.
    Never,
    /// Matches an element with the focus, or around it: unknown if one has `autofocus`.
    Focus,
    /// A link with a target.
    Link,
    Unknown,
}

impl parser::NonTSPseudoClass for PseudoClass {
    fn is_active_or_hover(&self) -> bool {
        false
    }

    fn is_user_action_state(&self) -> bool {
        false
    }
}

impl ToCss for PseudoClass {
    fn to_css<W: fmt::Write>(&self, dest: &mut W) -> fmt::Result {
        dest.write_str(":")
    }
}

/// Pseudo-elements by their effect on the text of their element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PseudoElement {
    /// `::before` and `::after`: a box that can cover text.
    Generated,
    /// Markers, selections, parts of controls: not the element's text.
    Other,
    /// Part of the element's own text.
    Text,
}

impl parser::PseudoElement for PseudoElement {
    fn accepts_state_pseudo_classes(&self) -> bool {
        true
    }

    fn is_before_or_after(&self) -> bool {
        *self == Self::Generated
    }
}

impl ToCss for PseudoElement {
    fn to_css<W: fmt::Write>(&self, dest: &mut W) -> fmt::Result {
        dest.write_str("::")
    }
}

/// Parses the names of pseudo-classes and pseudo-elements.
pub(super) struct Reader {
    /// Whether a name was found that not every browser knows: those that do not drop the rule.
    pub(super) is_foreign: Cell<bool>,
}

impl<'i> parser::Parser<'i> for Reader {
    type Impl = Style;
    type Error = SelectorParseErrorKind;

    fn parse_nth_child_of(&self) -> bool {
        true
    }

    fn parse_is_and_where(&self) -> bool {
        true
    }

    fn parse_has(&self) -> bool {
        true
    }

    fn parse_parent_selector(&self) -> bool {
        true
    }

    fn is_is_alias(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case("-webkit-any") || name.eq_ignore_ascii_case("matches")
    }

    fn allow_forgiving_selectors(&self) -> bool {
        false
    }

    fn parse_non_ts_pseudo_class(
        &self,
        name: CowRcStr<'i>,
    ) -> Result<PseudoClass, ParseError<Self::Error>> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "focus" | "focus-visible" | "focus-within" | "-moz-focusring" => PseudoClass::Focus,
            "hover" | "active" | "target" | "target-within" | "visited" | "fullscreen"
            | "modal" | "picture-in-picture" | "user-invalid" | "user-valid" | "-webkit-drag" => {
                PseudoClass::Never
            }
            "link" | "any-link" | "-webkit-any-link" => PseudoClass::Link,
            name => {
                if !KNOWN_CLASSES.contains(&name) {
                    self.is_foreign.set(true);
                }
                PseudoClass::Unknown
            }
        })
    }

    fn parse_non_ts_functional_pseudo_class(
        &self,
        name: CowRcStr<'i>,
        arguments: &mut CssParser<'i>,
        _after_part: bool,
    ) -> Result<PseudoClass, ParseError<Self::Error>> {
        while arguments.next().is_ok() {}
        if !["lang", "dir"].iter().any(|known| name.eq_ignore_ascii_case(known)) {
            self.is_foreign.set(true);
        }
        Ok(PseudoClass::Unknown)
    }

    fn parse_pseudo_element(
        &self,
        name: CowRcStr<'i>,
    ) -> Result<PseudoElement, ParseError<Self::Error>> {
        let name = name.to_ascii_lowercase();
        Ok(match name.as_str() {
            "before" | "after" => PseudoElement::Generated,
            "marker"
            | "selection"
            | "-moz-selection"
            | "backdrop"
            | "file-selector-button"
            | "spelling-error"
            | "grammar-error"
            | "target-text"
            | "cue"
            | "search-text" => PseudoElement::Other,
            _ if name.starts_with("-webkit-")
                || name.starts_with("-moz-")
                || name.starts_with("-ms-") =>
            {
                self.is_foreign.set(true);
                PseudoElement::Other
            }
            "first-line" | "first-letter" | "placeholder" => PseudoElement::Text,
            _ => {
                self.is_foreign.set(true);
                PseudoElement::Text
            }
        })
    }

    fn parse_functional_pseudo_element(
        &self,
        _name: CowRcStr<'i>,
        arguments: &mut CssParser<'i>,
    ) -> Result<PseudoElement, ParseError<Self::Error>> {
        while arguments.next().is_ok() {}
        self.is_foreign.set(true);
        Ok(PseudoElement::Text)
    }
}

/// Pseudo-classes that every browser knows and that are not evaluated.
const KNOWN_CLASSES: [&str; 18] = [
    "checked",
    "default",
    "defined",
    "disabled",
    "enabled",
    "in-range",
    "indeterminate",
    "invalid",
    "open",
    "optional",
    "out-of-range",
    "placeholder-shown",
    "popover-open",
    "read-only",
    "read-write",
    "required",
    "valid",
    "autofill",
];
