//! Remote fonts: a font can draw nothing, bars or other letters for each character, so text in an
//! unknown font is doubtful when the page loads fonts.

use ego_tree::NodeRef;
use scraper::Node;

use crate::clean::element::attribute;

/// Families that draw the characters as written.
const ORDINARY: &[&str] = &[
    "aptos",
    "arial",
    "book antiqua",
    "calibri",
    "cambria",
    "candara",
    "caveat",
    "century gothic",
    "comic sans ms",
    "consolas",
    "constantia",
    "corbel",
    "courier",
    "courier new",
    "cursive",
    "eb garamond",
    "fantasy",
    "garamond",
    "georgia",
    "google sans",
    "helvetica",
    "helvetica neue",
    "impact",
    "inconsolata",
    "inherit",
    "initial",
    "inter",
    "lato",
    "lora",
    "merriweather",
    "monospace",
    "montserrat",
    "noto sans",
    "noto serif",
    "nunito",
    "open sans",
    "oswald",
    "playfair display",
    "poppins",
    "proxima nova",
    "pt sans",
    "pt serif",
    "raleway",
    "roboto",
    "roboto mono",
    "roboto slab",
    "sans-serif",
    "segoe ui",
    "serif",
    "source code pro",
    "source sans pro",
    "spectral",
    "system-ui",
    "tahoma",
    "times",
    "times new roman",
    "trebuchet ms",
    "ubuntu",
    "unset",
    "verdana",
];

/// Whether it is the font sheet of an exported Google document.
pub(super) fn is_docs_font_kit(import: &str) -> bool {
    let address = import.trim_start_matches("url(").trim_end_matches(')').trim_matches(['"', '\'']);
    address.strip_prefix("https://themes.googleusercontent.com/fonts/css?kit=").is_some_and(|kit| {
        kit.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}

/// Whether the node names an unknown font.
pub(super) fn names_odd_font(node: NodeRef<'_, Node>) -> bool {
    let Some(element) = node.value().as_element() else { return false };
    let mut sheets = node.children().filter_map(|child| child.value().as_text());
    attribute(element, "style").is_some_and(declares_odd_font)
        || attribute(element, "face")
            .is_some_and(|face| !is_ordinary(&face.to_ascii_lowercase(), false))
        || (element.name() == "style" && sheets.any(|css| declares_odd_font(css)))
}

/// Whether a style sheet or a `style` attribute names an unknown font.
fn declares_odd_font(css: &str) -> bool {
    let css = css.to_ascii_lowercase();
    // Values with escapes or comments are not parsed.
    if css.contains('\\') || css.contains("/*") {
        return true;
    }
    let declared = |name: &'static str| {
        css.match_indices(name).filter_map(|(at, _)| {
            let value = css[at + name.len()..].trim_start().strip_prefix(':')?;
            value.split([';', '}', '!']).next()
        })
    };
    declared("font-family").any(|list| !is_ordinary(list, false))
        || declared("font").any(|list| !is_ordinary(list, true))
}

/// Whether all families of a list are known. In the shorthand `font` a size precedes them.
fn is_ordinary(list: &str, is_shorthand: bool) -> bool {
    list.split(',').enumerate().all(|(at, part)| {
        let family = part.replace(['"', '\''], "");
        let family = family.trim();
        let is_known = |name: &str| ORDINARY.binary_search(&name).is_ok();
        let follows_size = || {
            family.match_indices(char::is_whitespace).any(|(at, _)| is_known(family[at..].trim()))
        };
        is_known(family) || (is_shorthand && at == 0 && follows_size())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_for_the_search() {
        assert!(ORDINARY.is_sorted());
    }

    #[test]
    fn only_known_fonts_are_ordinary() {
        for css in [
            "color:red",
            "font-family:Arial",
            ".a{font-family: \"Open Sans\", sans-serif !important} .b{font-weight:bold}",
            "font:italic 12pt/1.5 'Times New Roman', serif",
            "@font-face{font-family:Roboto}",
        ] {
            assert!(!declares_odd_font(css), "{css}");
        }
        for css in [
            "font-family:Adobe Blank",
            "FONT-FAMILY : 'Redacted Script', Arial",
            "font:12px Flow Block",
            "font-family:var(--f)",
            "f\\6fnt-family:x",
            "font/**/-family:x",
        ] {
            assert!(declares_odd_font(css), "{css}");
        }
    }
}
