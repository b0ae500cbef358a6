//! Which properties cannot hide text with any value, and how the others could.

use crate::model::VisibilityIssue;

/// Whether no value of the property can hide text.
pub(super) fn is_harmless(name: &str) -> bool {
    if name.starts_with("--") || name.starts_with("mso-") || name.starts_with("-ms-") {
        return true;
    }
    let bare = without_vendor(name);
    HARMLESS.binary_search(&bare).is_ok()
        || STARTS.iter().any(|start| bare.starts_with(start))
        || is_border_decoration(bare)
}

/// Whether values of the property are read. `false` for most of the harmless ones.
pub(super) fn is_read(name: &str) -> bool {
    !is_harmless(name)
        || matches!(
            name,
            "text-decoration-line"
                | "white-space-collapse"
                | "mso-list"
                | "text-wrap"
                | "text-wrap-mode"
                | "isolation"
                | "will-change"
        )
}

/// Properties of which no value can hide text.
const HARMLESS: &[&str] = &[
    "accent-color",
    "appearance",
    "background-attachment",
    "background-origin",
    "background-repeat",
    "background-size",
    "behavior",
    "border-collapse",
    "box-align",
    "box-flex",
    "box-orient",
    "box-pack",
    "box-sizing",
    "caption-side",
    "caret-color",
    "clear",
    "color-adjust",
    "cursor",
    "empty-cells",
    "field-sizing",
    "fill",
    "flex-direction",
    "flex-flow",
    "flex-grow",
    "flex-shrink",
    "flex-wrap",
    "font-family",
    "font-feature-settings",
    "font-kerning",
    "font-language-override",
    "font-optical-sizing",
    "font-smooth",
    "font-smoothing",
    "font-stretch",
    "font-style",
    "font-weight",
    "forced-color-adjust",
    "hyphenate-character",
    "hyphens",
    "image-rendering",
    "interpolation-mode",
    "isolation",
    "layout-grid",
    "layout-grid-mode",
    "line-box-contain",
    "line-break",
    "margin-trim",
    "marks",
    "nbsp-mode",
    "order",
    "orphans",
    "osx-font-smoothing",
    "outline-color",
    "outline-offset",
    "outline-style",
    "overflow-wrap",
    "overscroll-behavior",
    "page",
    "panose-1",
    "pointer-events",
    "print-color-adjust",
    "punctuation-wrap",
    "quotes",
    "resize",
    "ruby-align",
    "ruby-overhang",
    "ruby-position",
    "scrollbar-color",
    "scrollbar-gutter",
    "scrollbar-width",
    "size",
    "speak",
    "src",
    "stroke",
    "stroke-width",
    "tab-interval",
    "tab-stops",
    "tap-highlight-color",
    "text-align",
    "text-align-last",
    "text-anchor",
    "text-autospace",
    "text-box-trim",
    "text-decoration-color",
    "text-decoration-line",
    "text-decoration-style",
    "text-fit",
    "text-justify",
    "text-justify-trim",
    "text-kashida",
    "text-kashida-space",
    "text-line-through",
    "text-overflow",
    "text-rendering",
    "text-size-adjust",
    "text-spacing-trim",
    "text-transform",
    "text-underline",
    "text-underline-position",
    "touch-action",
    "touch-callout",
    "unicode-range",
    "user-drag",
    "user-modify",
    "user-select",
    "white-space-collapse",
    "widows",
    "will-change",
    "word-break",
    "word-wrap",
];

/// Prefixes of properties that cannot hide text.
const STARTS: [&str; 18] = [
    "font-variant",
    "font-synthesis",
    "text-wrap",
    "text-emphasis",
    "text-decoration-skip",
    "list-style",
    "object-",
    "align-",
    "justify-",
    "place-",
    "transition",
    "scroll-",
    "counter-",
    "break-",
    "page-break-",
    "column-break-",
    "background-position",
    "color-interpolation",
];

/// `border-top-color`, `border-radius` and the like.
fn is_border_decoration(name: &str) -> bool {
    name.starts_with("border")
        && (name.ends_with("-color") || name.ends_with("-style") || name.ends_with("-radius"))
}

/// The name without `-webkit-` and `-moz-`.
pub(super) fn without_vendor(name: &str) -> &str {
    ["-webkit-", "-moz-", "-o-", "-khtml-"]
        .iter()
        .find_map(|vendor| name.strip_prefix(vendor))
        .unwrap_or(name)
}

/// Whether it is a property with a vendor prefix that no browser knows.
pub(super) fn is_of_no_browser(name: &str) -> bool {
    let bare = without_vendor(name);
    bare.len() != name.len()
        && (matches!(
            bare,
            "display"
                | "visibility"
                | "color"
                | "font-size"
                | "font"
                | "line-height"
                | "letter-spacing"
                | "word-spacing"
                | "white-space"
                | "float"
                | "z-index"
                | "direction"
                | "text-indent"
                | "table-layout"
                | "content-visibility"
                | "background"
                | "background-color"
                | "background-image"
                | "position"
                | "clip"
        ) || (bare == "opacity" && !name.starts_with("-webkit-")))
}

/// Whether only some browsers know this vendor prefix.
pub(super) fn is_of_few_browsers(name: &str) -> bool {
    ["-moz-", "-o-", "-khtml-"].iter().any(|vendor| name.starts_with(vendor))
}

/// An at-rule's name in lower case without its vendor prefix.
pub(super) fn rule_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let bare = without_vendor(&name);
    bare.strip_prefix("-ms-").unwrap_or(bare).to_owned()
}

/// The physical property of a logical one, for left-to-right text.
pub(super) fn physical(name: &str) -> &str {
    match name {
        "inline-size" => "width",
        "block-size" => "height",
        "max-inline-size" => "max-width",
        "max-block-size" => "max-height",
        "min-inline-size" => "min-width",
        "min-block-size" => "min-height",
        "margin-inline-start" => "margin-left",
        "margin-inline-end" => "margin-right",
        "margin-block-start" => "margin-top",
        "margin-block-end" => "margin-bottom",
        "padding-inline-start" => "padding-left",
        "padding-inline-end" => "padding-right",
        "padding-block-start" => "padding-top",
        "padding-block-end" => "padding-bottom",
        "inset-inline-start" => "left",
        "inset-inline-end" => "right",
        "inset-block-start" => "top",
        "inset-block-end" => "bottom",
        "overflow-inline" => "overflow-x",
        "overflow-block" => "overflow-y",
        other => other,
    }
}

/// Why text under an unevaluated property is doubtful.
pub(super) fn doubt(name: &str) -> VisibilityIssue {
    let bare = without_vendor(name);
    let starts = |starts: &[&str]| starts.iter().any(|start| bare.starts_with(start));
    if starts(&[
        "overflow",
        "clip",
        "mask",
        "contain",
        "column",
        "line-clamp",
        "max-lines",
        "box-decoration",
    ]) {
        VisibilityIssue::Clipped
    } else if starts(&[
        "transform",
        "scale",
        "rotate",
        "translate",
        "offset",
        "perspective",
        "backface",
        "inset",
        "position",
        "anchor",
        "direction",
        "unicode-bidi",
        "writing-mode",
        "shape-",
        "grid",
    ]) {
        VisibilityIssue::Moved
    } else if starts(&[
        "filter",
        "backdrop",
        "mix-blend",
        "background",
        "box-shadow",
        "text-shadow",
        "text-stroke",
        "color",
    ]) {
        VisibilityIssue::Painted
    } else if starts(&["animation"]) {
        VisibilityIssue::Animated
    } else if starts(&["zoom", "font", "line-height", "letter", "word", "text-indent", "flex"]) {
        VisibilityIssue::Sized
    } else {
        VisibilityIssue::UnknownStyle
    }
}

/// Whether the value is valid for the property and hides nothing; `None` if it is a usual value
/// that is invalid here, or not known to be valid.
pub(super) fn usual(name: &str, value: &str) -> Option<bool> {
    let bare = without_vendor(name);
    let is_one = |starts: &[&str]| starts.iter().any(|start| bare.starts_with(start));
    let is_valid = match value {
        "initial" | "unset" | "revert" | "inherit" => true,
        "none" => is_one(&[
            "filter",
            "backdrop-filter",
            "transform",
            "translate",
            "scale",
            "rotate",
            "mask",
            "perspective",
            "animation",
            "shape-outside",
            "contain",
            "offset",
            "content",
            "line-clamp",
            "grid",
            "border",
            "flex",
            "clip-path",
            "text-decoration",
            "min-",
        ]),
        "normal" => is_one(&[
            "mix-blend-mode",
            "unicode-bidi",
            "zoom",
            "content",
            "gap",
            "row-gap",
            "column-gap",
            "grid",
            "animation",
            "offset",
            "container",
            "background-blend-mode",
        ]),
        "auto" => is_one(&[
            "column",
            "flex",
            "min-",
            "mask",
            "offset",
            "grid",
            "aspect-ratio",
            "contain-",
            "position-anchor",
            "text-decoration",
            "text-underline-offset",
            "animation",
        ]),
        "visible" => is_one(&["backface-visibility", "overflow"]),
        "static" => false,
        _ => return Some(false),
    };
    is_valid.then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_for_the_search() {
        assert!(HARMLESS.is_sorted());
        assert!(is_harmless("font-weight") && is_harmless("-webkit-user-select"));
        assert!(is_harmless("mso-fareast-language") && !is_harmless("overflow"));
    }
}
