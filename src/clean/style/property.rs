//! Which properties cannot hide text whatever their value, and why the others could.

use crate::model::Doubt;

/// Can no value of the property hide text?
pub(super) fn is_harmless(name: &str) -> bool {
    if name.starts_with("--") || name.starts_with("mso-") || name.starts_with("-ms-") {
        return true;
    }
    let bare = without_vendor(name);
    matches!(
        bare,
        "font-family"
            | "font-style"
            | "font-weight"
            | "font-stretch"
            | "font-kerning"
            | "font-feature-settings"
            | "font-optical-sizing"
            | "font-language-override"
            | "font-smoothing"
            | "font-smooth"
            | "osx-font-smoothing"
            | "text-align"
            | "text-align-last"
            | "text-transform"
            | "text-rendering"
            | "text-justify"
            | "text-autospace"
            | "text-size-adjust"
            | "text-anchor"
            | "text-underline-position"
            | "text-underline"
            | "text-line-through"
            | "text-overflow"
            | "text-spacing-trim"
            | "text-box-trim"
            | "text-fit"
            | "text-decoration-line"
            | "text-decoration-style"
            | "text-decoration-color"
            | "user-select"
            | "user-modify"
            | "user-drag"
            | "border-collapse"
            | "box-sizing"
            | "vertical-align"
            | "cursor"
            | "pointer-events"
            | "clear"
            | "caption-side"
            | "empty-cells"
            | "word-break"
            | "word-wrap"
            | "overflow-wrap"
            | "line-break"
            | "hyphens"
            | "hyphenate-character"
            | "white-space-collapse"
            | "tab-size"
            | "orphans"
            | "widows"
            | "page"
            | "quotes"
            | "image-rendering"
            | "flex-direction"
            | "flex-wrap"
            | "flex-flow"
            | "flex-grow"
            | "flex-shrink"
            | "order"
            | "will-change"
            | "caret-color"
            | "accent-color"
            | "appearance"
            | "resize"
            | "touch-action"
            | "overscroll-behavior"
            | "outline-offset"
            | "outline-color"
            | "outline-style"
            | "tap-highlight-color"
            | "touch-callout"
            | "print-color-adjust"
            | "color-adjust"
            | "forced-color-adjust"
            | "box-orient"
            | "box-pack"
            | "box-align"
            | "box-flex"
            | "nbsp-mode"
            | "line-box-contain"
            | "isolation"
            | "speak"
            | "size"
            | "panose-1"
            | "behavior"
            | "tab-stops"
            | "tab-interval"
            | "layout-grid-mode"
            | "layout-grid"
            | "punctuation-wrap"
            | "text-justify-trim"
            | "text-kashida"
            | "text-kashida-space"
            | "fill"
            | "stroke"
            | "stroke-width"
            | "ruby-align"
            | "ruby-position"
            | "ruby-overhang"
            | "border-spacing"
            | "border-image"
            | "marks"
            | "src"
            | "unicode-range"
            | "interpolation-mode"
            | "scrollbar-gutter"
            | "scrollbar-width"
            | "scrollbar-color"
            | "field-sizing"
            | "margin-trim"
            | "background-repeat"
            | "background-size"
            | "background-origin"
            | "background-attachment"
    ) || STARTS.iter().any(|start| bare.starts_with(start))
        || is_border_decoration(bare)
}

/// Families of properties of which no member can hide text.
const STARTS: [&str; 19] = [
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
    "border-image-",
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
