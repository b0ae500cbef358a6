//! What each HTML element is to a reader.

use scraper::node::Element;

/// The value of an attribute; a look through the few there are is faster than scraper's search.
pub(super) fn attribute<'a>(element: &'a Element, wanted: &str) -> Option<&'a str> {
    element.attrs.iter().find(|(name, _)| &*name.local == wanted).map(|(_, value)| &**value)
}

/// The part an element plays in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// In the line, with no meaning we keep.
    Inline,
    /// On lines of its own.
    Block,
    /// On lines of its own, with space around it.
    Paragraph,
    /// A heading of level 1 to 6.
    Heading(u8),
    /// `<ul>` and its old relatives.
    BulletList,
    /// `<ol>`
    NumberedList,
    /// `<li>`
    Item,
    /// `<dd>`
    Definition,
    /// `<blockquote>`
    Quote,
    /// `<pre>` and its old relatives.
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
    /// Text that no longer holds.
    Struck,
    /// `<sup>`
    Raised,
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
    /// Never shown, and no sign of hiding: scripts, styles, fallback content.
    Nothing,
}

impl Role {
    /// The role of an element by its name.
    pub(super) fn of(name: &str) -> Self {
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
            | "video" | "audio" | "canvas" | "area" | "param" | "source" | "track" | "textarea"
            | "datalist" | "meter" | "progress" | "rp" | "desc" | "metadata" | "annotation"
            | "annotation-xml" | "frameset" | "frame" | "basefont" | "bgsound" | "colgroup"
            | "col" => Self::Nothing,
            _ => Self::Inline,
        }
    }

    /// Do width, height and overflow apply without a `display` of its own?
    pub(super) fn is_box(self) -> bool {
        !matches!(
            self,
            Self::Inline
                | Self::Link
                | Self::Code
                | Self::Struck
                | Self::Raised
                | Self::Quotation
                | Self::Font
                | Self::Row
                | Self::Cell
                | Self::HeaderCell
                | Self::TableHead
                | Self::Break
        )
    }

    /// Does it stand in the line when nothing else is declared?
    pub(super) fn is_inline(self) -> bool {
        matches!(
            self,
            Self::Inline
                | Self::Link
                | Self::Code
                | Self::Struck
                | Self::Raised
                | Self::Quotation
                | Self::Font
        )
    }
}
