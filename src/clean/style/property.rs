//! Which properties cannot hide text whatever their value, and why the others could.

use crate::model::Doubt;

/// Can no value of the property hide text?
pub(super) fn is_harmless(name: &str) -> bool {
    if name.starts_with("--") || name.starts_with("mso-") || name.starts_with("-ms-") {
        return true;
    }
    let bare = without_vendor(name);
    HARMLESS.binary_search(&bare).is_ok()
        || STARTS.iter().any(|start| bare.starts_with(start))
        || is_border_decoration(bare)
}

/// Does anybody read values of the property? `false` for most of the harmless ones.
pub(super) fn is_read(name: &str) -> bool {
    !is_harmless(name)
        || matches!(name, "text-decoration-line" | "white-space-collapse" | "mso-list")
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
    "border-spacing",
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
    "vertical-align",
    "white-space-collapse",
    "widows",
    "will-change",
    "word-break",
    "word-wrap",
];

/// Families of properties of which no member can hide text.
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

/// An at-rule's name in lower case without its vendor.
pub(super) fn rule_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let bare = without_vendor(&name);
    bare.strip_prefix("-ms-").unwrap_or(bare).to_owned()
}

/// The physical property that a logical one stands for in text from left to right.
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

/// Why text under a property that we do not evaluate is doubtful.
pub(super) fn doubt(name: &str) -> Doubt {
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
        Doubt::Clipped
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
        Doubt::Moved
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
        Doubt::Painted
    } else if starts(&["animation"]) {
        Doubt::Animated
    } else if starts(&["zoom", "font", "line-height", "letter", "word", "text-indent", "flex"]) {
        Doubt::Sized
    } else {
        Doubt::UnknownStyle
    }
}

/// Values that never hide anything, of whatever property.
pub(super) fn is_usual(value: &str) -> bool {
    matches!(
        value,
        "none"
            | "normal"
            | "auto"
            | "initial"
            | "unset"
            | "revert"
            | "static"
            | "visible"
            | "inherit"
    )
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
