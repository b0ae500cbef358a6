//! Texts in Atlassian Document Format. The document is traversed without recursion and converted to
//! HTML, which is then cleaned like any other HTML: hiding colours, tables, code and links.

use serde_json::Value;

use super::adf_tree::{At, Node, Tree, unquoted};
use super::markdown::Document;

/// The supported version of the format.
const VERSION: &str = "1";
/// Maximum depth of nested elements; deeper ones are rendered inline.
const MAX_DEPTH: usize = 60;
/// Maximum bytes of HTML per text.
const MAX_HTML: usize = 8 << 20;
/// Maximum characters of a name or an emoji's text.
const MAX_NAME_LEN: usize = 60;
const MAX_SIGN_LEN: usize = 16;

/// Reads a text: a document, or the plain text of older fields.
pub(super) fn read(raw: &str) -> Document {
    let mut page = Page::default();
    let mut cut_bytes = 0;
    if let Some(tree) = Tree::read(raw) {
        if let Some(version) = tree.version.filter(|version| *version != VERSION) {
            page.mark(&format!("document of unknown version {}", word(version)));
        }
        page.walk(&tree);
        cut_bytes = tree.cut_bytes;
    } else {
        match unquoted(raw) {
            Some(words) => page.text(&words),
            None if raw.trim() == "null" => {}
            None => page.text(raw),
        }
    }
    Document::made(&page.html, raw.len(), page.hidden_chars, cut_bytes + page.left_out)
}

/// A name that the tracker does not display: it may not be a sentence.
fn word(text: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.chars().filter(plain).take(40).collect()
}

enum Step {
    /// This element and its following siblings; true in a list or a table, where paragraphs are
    /// lines.
    From(At, bool),
    Close(&'static str),
}

/// HTML under construction.
#[derive(Default)]
struct Page {
    html: String,
    hidden_chars: usize,
    left_out: usize,
    depth: usize,
    /// Number of open code blocks, in which text is not formatted.
    in_code: usize,
}

impl Page {
    fn walk(&mut self, tree: &Tree<'_>) {
        let mut steps: Vec<Step> =
            tree.nodes[0].first_child.map(|at| Step::From(at, false)).into_iter().collect();
        while let Some(step) = steps.pop() {
            let (at, in_lines) = match step {
                Step::Close(tag) => {
                    self.depth -= 1;
                    self.in_code -= usize::from(tag == "</code></pre>");
                    self.html.push_str(tag);
                    continue;
                }
                Step::From(at, in_lines) => (at, in_lines),
            };
            let node = &tree.nodes[at];
            steps.extend(node.next.map(|next| Step::From(next, in_lines)));
            if self.html.len() > MAX_HTML {
                self.left_out += node.text.as_deref().map_or(0, str::len);
                steps.extend(node.first_child.map(|child| Step::From(child, false)));
                continue;
            }
            let Some(closing) = self.open(node, in_lines) else { continue };
            if !closing.is_empty() {
                self.depth += 1;
                steps.push(Step::Close(closing));
            }
            let in_lines =
                matches!(&*node.kind, "listItem" | "taskItem" | "tableCell" | "tableHeader");
            steps.extend(node.first_child.map(|child| Step::From(child, in_lines)));
        }
    }

    /// Opens an element. Returns its end tag, which may be empty; `None` if its content is not
    /// shown.
    fn open(&mut self, node: &Node<'_>, in_lines: bool) -> Option<&'static str> {
        match &*node.kind {
            "text" => {
                self.set_text(node);
                return Some("");
            }
            "hardBreak" => {
                self.html.push_str(if self.in_code > 0 { "\n" } else { "<br>" });
                return Some("");
            }
            // Shown only in the editor.
            "placeholder" => {
                let words = string(&node.attrs(), "text");
                self.hidden_chars += words.chars().filter(|c| !c.is_whitespace()).count();
                return None;
            }
            "mention" | "emoji" | "status" | "date" | "inlineCard" | "blockCard" | "embedCard"
            | "media" | "mediaInline" => {
                self.leaf(&node.kind, &node.attrs());
                return Some("");
            }
            _ if self.depth >= MAX_DEPTH => {
                self.html.push(' ');
                return Some("");
            }
            _ => {}
        }
        Some(self.open_block(node, in_lines))
    }

    fn open_block(&mut self, node: &Node<'_>, in_lines: bool) -> &'static str {
        let (open, close) = match &*node.kind {
            "paragraph" if in_lines => ("<div>", "</div>"),
            "paragraph" | "caption" => ("<p>", "</p>"),
            "bulletList" | "taskList" | "decisionList" => ("<ul>", "</ul>"),
            "listItem" | "decisionItem" => ("<li>", "</li>"),
            "blockquote" => ("<blockquote>", "</blockquote>"),
            "rule" => ("<hr>", ""),
            "table" => ("<table>", "</table>"),
            "tableRow" => ("<tr>", "</tr>"),
            "mediaSingle" | "mediaGroup" | "layoutSection" | "layoutColumn" | "doc"
            | "blockTaskItem" => ("<div>", "</div>"),
            _ => return self.open_described(node),
        };
        self.html.push_str(open);
        close
    }

    /// Opens an element whose attributes matter.
    fn open_described(&mut self, node: &Node<'_>) -> &'static str {
        let attrs = node.attrs();
        match &*node.kind {
            "heading" => return self.open_heading(&attrs),
            "orderedList" => {
                let start = attrs.get("order").and_then(Value::as_i64).unwrap_or(1);
                self.html.push_str(&format!("<ol start={start}>"));
                return "</ol>";
            }
            "taskItem" => {
                let done = string(&attrs, "state") == "DONE";
                self.html.push_str(if done { "<li>[x] " } else { "<li>[ ] " });
                return "</li>";
            }
            "codeBlock" => {
                let language = word(&string(&attrs, "language"));
                self.html.push_str(&format!("<pre><code class=\"language-{language}\">"));
                self.in_code += 1;
                return "</code></pre>";
            }
            "panel" => {
                let kind = word(&string(&attrs, "panelType"));
                let painted = background(&string(&attrs, "panelColor"));
                self.html.push_str(&format!("<blockquote{painted}>"));
                self.mark(&format!("{} panel", if kind.is_empty() { "info" } else { &kind }));
                return "</blockquote>";
            }
            "expand" | "nestedExpand" => {
                self.html.push_str("<div>");
                self.mark("section that opens on a click");
                self.text(&string(&attrs, "title"));
                self.html.push_str("<br>");
                return "</div>";
            }
            "tableHeader" => self.open_cell("th", &attrs),
            "tableCell" => self.open_cell("td", &attrs),
            "extension" | "inlineExtension" | "bodiedExtension" | "multiBodiedExtension" => {
                self.html.push_str("<div>");
                self.mark(&format!("macro {}", word(&string(&attrs, "extensionKey"))));
                return "</div>";
            }
            kind => {
                self.html.push_str("<div>");
                self.mark(&format!("unknown element {}", word(kind)));
                // Some have their text outside of their content.
                self.text(node.text.as_deref().unwrap_or_default());
                return "</div>";
            }
        }
        if node.kind == "tableHeader" { "</th>" } else { "</td>" }
    }

    fn open_heading(&mut self, attrs: &Value) -> &'static str {
        let level = attrs.get("level").and_then(Value::as_u64).unwrap_or(1).clamp(1, 6);
        self.html.push_str(&format!("<h{level}>"));
        match level {
            1 => "</h1>",
            2 => "</h2>",
            3 => "</h3>",
            4 => "</h4>",
            5 => "</h5>",
            _ => "</h6>",
        }
    }

    fn open_cell(&mut self, tag: &str, attrs: &Value) {
        let span = |name: &str| attrs.get(name).and_then(Value::as_u64).unwrap_or(1).clamp(1, 64);
        let (columns, rows) = (span("colspan"), span("rowspan"));
        // Text in the colour of its cell is hidden text.
        let painted = background(&string(attrs, "background"));
        self.html.push_str(&format!("<{tag} colspan={columns} rowspan={rows}{painted}>"));
    }

    /// Elements that are one word or one link.
    fn leaf(&mut self, kind: &str, attrs: &Value) {
        match kind {
            "mention" => match name(attrs, "text", MAX_NAME_LEN) {
                name if !name.is_empty() => self.text(&name),
                _ => self.text("@somebody"),
            },
            "emoji" => match name(attrs, "text", MAX_SIGN_LEN) {
                sign if !sign.is_empty() => self.text(&sign),
                _ => self.text(&name(attrs, "shortName", MAX_NAME_LEN)),
            },
            "status" => self.text(&format!("[{}]", name(attrs, "text", MAX_NAME_LEN))),
            "date" => self.text(&date(attrs)),
            "media" | "mediaInline" => self.media(attrs),
            _ => {
                let data = attrs.get("data").unwrap_or(&Value::Null);
                let address = [string(attrs, "url"), string(data, "url"), string(data, "@id")];
                let address = address.into_iter().find(|url| !url.is_empty()).unwrap_or_default();
                let name = name(data, "name", MAX_NAME_LEN);
                let words = if name.is_empty() { &address } else { &name };
                self.html.push_str(&format!("<a href=\"{}\">", escaped(&address)));
                self.text(words);
                self.html.push_str("</a> ");
            }
        }
    }

    /// Images and files are named, not read. Their text is handled like that of any HTML image.
    fn media(&mut self, attrs: &Value) {
        let (alt, source) = (string(attrs, "alt"), string(attrs, "url"));
        let kind = string(attrs, "type");
        if alt.is_empty() && source.is_empty() {
            let is_picture = matches!(kind.as_str(), "external" | "image");
            return self.text(if is_picture { "[image]" } else { "[file]" });
        }
        let size = |name: &str| attrs.get(name).and_then(Value::as_u64);
        let size = |name: &str| size(name).map(|n| format!(" {name}={n}")).unwrap_or_default();
        let (width, height) = (size("width"), size("height"));
        let (alt, source) = (escaped(&alt), escaped(&source));
        self.html.push_str(&format!("<img alt=\"{alt}\" src=\"{source}\"{width}{height}>"));
    }

    fn set_text(&mut self, node: &Node<'_>) {
        let words = node.text.as_deref().unwrap_or_default();
        if self.in_code > 0 {
            self.html.push_str(&escaped(words));
            return;
        }
        let mut ends = Vec::new();
        for mark in node.marks() {
            let attrs = mark.get("attrs").unwrap_or(&Value::Null);
            let (open, close) = match string(&mark, "type").as_str() {
                "code" => ("<code>".to_owned(), "</code>"),
                "strike" => ("<s>".to_owned(), "</s>"),
                "subsup" if string(attrs, "type") == "sub" => ("<sub>".to_owned(), "</sub>"),
                "subsup" => ("<sup>".to_owned(), "</sup>"),
                "link" => (format!("<a href=\"{}\">", escaped(&string(attrs, "href"))), "</a>"),
                // White text is hidden text: the cleaner judges the colours.
                "textColor" => (coloured("color", attrs), "</span>"),
                "backgroundColor" => (coloured("background-color", attrs), "</span>"),
                _ => continue,
            };
            self.html.push_str(&open);
            ends.push(close);
        }
        self.text(words);
        ends.iter().rev().for_each(|end| self.html.push_str(end));
    }

    fn text(&mut self, words: &str) {
        let words = escaped(words);
        if self.in_code == 0 && words.contains('\n') {
            self.html.push_str(&words.replace('\n', "<br>"));
        } else {
            self.html.push_str(&words);
        }
    }

    /// Adds a remark of heartbeat.
    fn mark(&mut self, words: &str) {
        self.text(&format!("[{words}] "));
    }
}

fn coloured(property: &str, attrs: &Value) -> String {
    format!("<span style=\"{property}:{}\">", colour(&string(attrs, "color")))
}

fn colour(text: &str) -> String {
    let plain = |c: &char| !matches!(c, ';' | '{' | '}');
    escaped(&text.chars().filter(plain).take(60).collect::<String>())
}

/// The tracker's default text colour.
const WORDS: &str = "#172b4d";

/// The `style` attribute for a background colour and the text on it; empty without a colour.
pub(super) fn background(text: &str) -> String {
    match colour(text) {
        none if none.is_empty() => none,
        colour => format!(" style=\"background-color:{colour};color:{WORDS}\""),
    }
}

/// A name on one line. The tracker displays its own name for the object and not this text, so no
/// user has read it.
fn name(value: &Value, key: &str, longest: usize) -> String {
    let name = string(value, key);
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join(" ").chars().take(longest).collect()
}

/// Milliseconds since 1970 as a date.
fn date(attrs: &Value) -> String {
    let text = match attrs.get("timestamp") {
        Some(Value::String(text)) => text.clone(),
        Some(number) => number.to_string(),
        None => return String::new(),
    };
    let day =
        text.trim().parse::<i64>().ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    day.map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

fn string(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Escapes text for an HTML element or attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\r' => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
#[path = "adf_tests.rs"]
mod tests;
