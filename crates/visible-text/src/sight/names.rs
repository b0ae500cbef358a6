//! The names of properties: those on a list, prefixes and logical names.

/// Properties that may hide with any value but `none`, `normal` and `auto`, and those with lists of
/// their own.
pub(super) const LISTED: &[&str] = &[
    "transform",
    "transform-origin",
    "translate",
    "scale",
    "rotate",
    "mask",
    "mask-image",
    "mask-border",
    "mask-box-image",
    "filter",
    "backdrop-filter",
    "mix-blend-mode",
    "box-reflect",
    "line-clamp",
    "max-lines",
    "block-ellipsis",
    "columns",
    "column-count",
    "column-width",
    "perspective",
    "offset",
    "offset-path",
    "offset-distance",
    "offset-position",
    "position-anchor",
    "position-area",
    "inset-area",
    "grid-area",
    "grid-row",
    "grid-row-start",
    "grid-row-end",
    "grid-column",
    "grid-column-start",
    "grid-column-end",
    "initial-letter",
    "shape-outside",
    "zoom",
    "clip",
    "clip-path",
    "content-visibility",
    "box-shadow",
    "outline",
    "outline-offset",
    "animation",
    "contain",
    "unicode-bidi",
    "content",
    "vertical-align",
    "color-scheme",
    "flex",
    "tab-size",
    "font-size-adjust",
    "grid",
    "all",
];

/// Whether the name is on any list of what can hide.
pub(super) fn is_listed(name: &str) -> bool {
    LISTED.contains(&name)
        || ["display", "visibility", "opacity", "position", "overflow", "text-indent"]
            .contains(&name)
        || ["color", "background", "font", "margin", "width", "height", "max-", "left", "top"]
            .iter()
            .any(|start| name.starts_with(start))
}

/// The name without a vendor's prefix; `None` if no browser knows it with that prefix.
pub(super) fn bare(name: &str) -> Option<&str> {
    const PREFIXED: [&str; 16] = [
        "transform",
        "filter",
        "mask",
        "clip-path",
        "text-fill-color",
        "text-stroke",
        "text-security",
        "line-clamp",
        "box-reflect",
        "animation",
        "column",
        "perspective",
        "background-clip",
        "margin",
        "padding",
        "box-shadow",
    ];
    let Some(rest) = ["-webkit-", "-moz-"].iter().find_map(|vendor| name.strip_prefix(vendor))
    else {
        return (!name.starts_with('-')).then_some(name);
    };
    let is_known = PREFIXED.iter().any(|known| rest.starts_with(known))
        || rest == "opacity"
        || rest.starts_with("initial-letter")
        || rest.starts_with("max-")
        || rest.starts_with("logical");
    is_known.then_some(rest)
}

/// The physical property of a logical one, for left-to-right text.
pub(super) fn physical(name: &str) -> &str {
    match name {
        "inline-size" => "width",
        "block-size" => "height",
        "max-inline-size" => "max-width",
        "max-block-size" => "max-height",
        "margin-inline-start" | "margin-start" => "margin-left",
        "margin-inline-end" | "margin-end" => "margin-right",
        "margin-block-start" | "margin-before" => "margin-top",
        "margin-block-end" | "margin-after" => "margin-bottom",
        "padding-inline-start" | "padding-start" => "padding-left",
        "padding-inline-end" | "padding-end" => "padding-right",
        "padding-block-start" | "padding-before" => "padding-top",
        "padding-block-end" | "padding-after" => "padding-bottom",
        "inset-inline-start" => "left",
        "inset-inline-end" => "right",
        "inset-block-start" => "top",
        "inset-block-end" => "bottom",
        "overflow-inline" => "overflow-x",
        "overflow-block" => "overflow-y",
        other => other,
    }
}
