//! The role of each HTML element for a reader.

use html5ever::{local_name, ns};
use scraper::node::Element;

/// The value of an attribute; a linear scan of the few attributes is faster than scraper's search.
pub(super) fn attribute<'a>(element: &'a Element, wanted: &str) -> Option<&'a str> {
    element.attrs.iter().find(|(name, _)| &*name.local == wanted).map(|(_, value)| &**value)
}

/// The role of an element in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Inline, without a meaning that is kept.
    Inline,
    /// On separate lines.
    Block,
    /// On separate lines, with space around it.
    Paragraph,
    /// A heading of level 1 to 6.
    Heading(u8),
    /// `<ul>` and its obsolete variants.
    BulletList,
    /// `<ol>`
    NumberedList,
    /// `<li>`
    Item,
    /// `<dd>`
    Definition,
    /// `<blockquote>`
    Quote,
    /// `<pre>` and its obsolete variants.
    Preformatted,
    /// `<hr>`
    Rule,
    /// `<br>`
    Break,
    /// `<img>`
    Image,
    /// `<a>`
    Link,
    /// Inline code.
    Code,
    /// Text that is no longer valid.
    Struck,
    /// `<sup>`
    Raised,
    /// `<sub>`
    Lowered,
    /// `<rt>`: the pronunciation of a word.
    RubyText,
    /// Two parts with a sign between them: a fraction, a power.
    Pair(char),
    /// An element that is drawn, or displayed by its own rules.
    Drawing,
    /// `<textarea>`
    TextArea,
    /// `<select>`
    Select,
    /// `<q>`
    Quotation,
    /// `<table>`
    Table,
    /// `<tr>`
    Row,
    /// `<td>`
    Cell,
    /// `<th>`
    HeaderCell,
    /// `<thead>`
    TableHead,
    /// `<input>`
    Input,
    /// `<details>`
    Details,
    /// `<summary>`
    Summary,
    /// `<dialog>`
    Dialog,
    /// `<font>`
    Font,
    /// Never displayed, and not suspicious: scripts, styles, fallback content.
    Nothing,
}

impl Role {
    /// The role of an element by its name and namespace.
    pub(super) fn of(element: &Element) -> Self {
        // Most elements are one of these, and their names are numbers.
        if element.name.ns == ns!(html) {
            match element.name.local {
                local_name!("div") => return Self::Block,
                local_name!("span")
                | local_name!("b")
                | local_name!("i")
                | local_name!("u")
                | local_name!("strong")
                | local_name!("em") => return Self::Inline,
                local_name!("br") => return Self::Break,
                local_name!("p") => return Self::Paragraph,
                local_name!("li") => return Self::Item,
                local_name!("a") => return Self::Link,
                local_name!("code") => return Self::Code,
                local_name!("td") => return Self::Cell,
                local_name!("tr") => return Self::Row,
                _ => {}
            }
        }
        let name = element.name();
        match element.name.ns {
            ns!(mathml) => Self::in_math(element, name),
            ns!(svg) if !matches!(name, "title" | "desc" | "metadata" | "style" | "script") => {
                Self::Drawing
            }
            _ if name == "object" && attribute(element, "data").is_none() => Self::Inline,
            _ => Self::by_name(name),
        }
    }

    /// Formulas are rendered as text, with a sign between the parts of a fraction or a power;
    /// attributes that change their look are not evaluated.
    fn in_math(element: &Element, name: &str) -> Self {
        let is_plain = |name: &str| {
            matches!(
                name,
                "display" | "xmlns" | "displaystyle" | "mathvariant" | "class" | "id" | "dir"
            ) || matches!(name, "stretchy" | "fence" | "separator" | "form" | "accent" | "alttext")
        };
        if matches!(name, "annotation" | "annotation-xml") {
            return Self::Nothing;
        }
        if !element
            .attrs
            .iter()
            .all(|(name, value)| is_plain(&name.local) && !value.eq_ignore_ascii_case("rtl"))
        {
            return Self::Drawing;
        }
        match name {
            "mfrac" => Self::Pair('/'),
            "msup" | "mover" => Self::Pair('^'),
            "msub" | "munder" => Self::Pair('_'),
            "math" | "mi" | "mn" | "mo" | "ms" | "mtext" | "mrow" | "msqrt" | "mroot"
            | "msubsup" | "munderover" | "mtable" | "mtr" | "mtd" | "mfenced" | "mspace"
            | "mstyle" | "semantics" | "mphantom" => Self::Inline,
            _ => Self::Drawing,
        }
    }

    fn by_name(name: &str) -> Self {
        match name {
            "span" | "b" | "i" | "u" | "strong" | "em" => Self::Inline,
            "div" => Self::Block,
            "p" => Self::Paragraph,
            "br" => Self::Break,
            "a" => Self::Link,
            "li" => Self::Item,
            "ul" | "menu" | "dir" => Self::BulletList,
            "ol" => Self::NumberedList,
            "img" | "image" => Self::Image,
            "code" | "tt" | "kbd" | "samp" => Self::Code,
            "pre" | "listing" | "xmp" | "plaintext" => Self::Preformatted,
            "blockquote" => Self::Quote,
            "h1" => Self::Heading(1),
            "h2" => Self::Heading(2),
            "h3" => Self::Heading(3),
            "h4" => Self::Heading(4),
            "h5" => Self::Heading(5),
            "h6" => Self::Heading(6),
            "hr" => Self::Rule,
            "table" => Self::Table,
            "tr" => Self::Row,
            "td" => Self::Cell,
            "th" => Self::HeaderCell,
            "thead" => Self::TableHead,
            "del" | "s" | "strike" => Self::Struck,
            "sup" => Self::Raised,
            "sub" => Self::Lowered,
            "rt" => Self::RubyText,
            // Elements of a few browsers that do not show their content, or not always.
            "marquee" | "fencedframe" | "controlledframe" | "geolocation" | "usermedia"
            | "camera" | "microphone" | "permission" | "install" | "login" | "model" | "portal"
            | "selectedcontent" => Self::Drawing,
            "textarea" => Self::TextArea,
            "select" => Self::Select,
            "q" => Self::Quotation,
            "font" => Self::Font,
            "dd" => Self::Definition,
            "input" => Self::Input,
            "details" => Self::Details,
            "summary" => Self::Summary,
            "dialog" => Self::Dialog,
            "dl" | "figure" => Self::Paragraph,
            "address" | "article" | "aside" | "body" | "caption" | "center" | "dt" | "fieldset"
            | "figcaption" | "footer" | "form" | "header" | "hgroup" | "html" | "legend"
            | "main" | "nav" | "optgroup" | "option" | "search" | "section" | "tbody" | "tfoot" => {
                Self::Block
            }
            "script" | "style" | "template" | "head" | "title" | "meta" | "link" | "base"
            | "noscript" | "noframes" | "noembed" | "iframe" | "object" | "embed" | "applet"
            | "video" | "audio" | "canvas" | "area" | "param" | "source" | "track" | "datalist"
            | "meter" | "progress" | "rp" | "desc" | "metadata" | "annotation"
            | "annotation-xml" | "frameset" | "frame" | "basefont" | "bgsound" | "colgroup"
            | "col" => Self::Nothing,
            _ => Self::Inline,
        }
    }

    /// Whether it is inline by default.
    pub(super) fn is_inline(self) -> bool {
        matches!(
            self,
            Self::Inline
                | Self::Link
                | Self::Code
                | Self::Struck
                | Self::Raised
                | Self::Lowered
                | Self::RubyText
                | Self::Pair(_)
                | Self::Drawing
                | Self::TextArea
                | Self::Select
                | Self::Quotation
                | Self::Font
        )
    }
}
