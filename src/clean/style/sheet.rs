//! Rules of `<style>` elements: type, class and id selectors, with descendants and children.
//!
//! A rule whose selector we do not understand, or that holds only for some media, is left out.
//! The number of rules is bounded, and so is the way up the tree for each of them.

use std::collections::HashMap;

use ego_tree::NodeRef;
use scraper::Node;
use scraper::node::Element;

use super::declarations::{Declarations, plain};

/// Rules read at most; a page of Word's own styles has about a hundred.
const MAX_RULES: usize = 1_000;
/// Rules that may share a key; the last ones win, as they would in a browser.
const MAX_RULES_PER_KEY: usize = 24;
/// Ancestors looked at for a descendant selector.
const MAX_ANCESTORS: usize = 48;

/// The rules that bear on what is seen.
#[derive(Debug, Default)]
pub(in crate::clean) struct Sheet {
    rules: Vec<Rule>,
    by_key: HashMap<String, Vec<usize>>,
}

#[derive(Debug)]
struct Rule {
    /// The element itself first, then what must be above it.
    path: Vec<Step>,
    specificity: usize,
    declarations: Declarations,
}

#[derive(Debug)]
struct Step {
    compound: Compound,
    /// Must it be the direct parent of the step before?
    is_parent: bool,
}

#[derive(Debug, Default)]
struct Compound {
    tag: Option<String>,
    id: Option<String>,
    classes: Vec<String>,
}

impl Sheet {
    /// Are there no rules?
    pub(in crate::clean) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds the rules of one `<style>` element.
    pub(in crate::clean) fn read(&mut self, css: &str) {
        let css = plain(css);
        let mut rest = css.as_ref();
        while let Some(open) = rest.find('{') {
            let prelude = rest[..open].rsplit(';').next().unwrap_or("").trim();
            let prelude = prelude.trim_start_matches("<!--").trim_start_matches("-->").trim();
            let body = &rest[open + 1..];
            if prelude.starts_with('@') {
                rest = if is_screen(prelude) { body } else { after_block(body) };
                continue;
            }
            let close = body.find('}').unwrap_or(body.len());
            self.add(prelude.trim_start_matches('}'), &body[..close]);
            rest = body.get(close + 1..).unwrap_or("");
        }
    }

    fn add(&mut self, selectors: &str, body: &str) {
        let mut declarations = Declarations::default();
        declarations.read(body);
        if declarations.is_empty() {
            return;
        }
        for selector in selectors.split(',') {
            if self.rules.len() >= MAX_RULES {
                return;
            }
            let Some(path) = parse_selector(selector.trim()) else { continue };
            let Some(key) = path.first().map(|step| step.compound.key()) else { continue };
            let specificity = path.iter().map(|step| step.compound.specificity()).sum();
            let same_key = self.by_key.entry(key).or_default();
            if same_key.len() >= MAX_RULES_PER_KEY {
                same_key.remove(0);
            }
            same_key.push(self.rules.len());
            self.rules.push(Rule { path, specificity, declarations: declarations.clone() });
        }
    }

    /// Adds what the rules say about an element, weakest first.
    pub(in crate::clean) fn collect(&self, node: NodeRef<'_, Node>, found: &mut Declarations) {
        let Some(element) = node.value().as_element() else { return };
        let mut matching: Vec<usize> = Vec::new();
        let mut look_up = |key: &str| {
            if let Some(candidates) = self.by_key.get(key) {
                matching.extend(candidates.iter().filter(|&&at| self.rules[at].matches(node)));
            }
        };
        look_up("*");
        look_up(element.name());
        if let Some(id) = element.attr("id") {
            look_up(&format!("#{id}"));
        }
        for class in element.attr("class").unwrap_or("").split_ascii_whitespace().take(64) {
            look_up(&format!(".{class}"));
        }
        matching.sort_by_key(|&at| (self.rules[at].specificity, at));
        for at in matching {
            found.extend(&self.rules[at].declarations);
        }
    }
}

/// Does the at-rule hold on a screen, so that its rules can be read as if it were not there?
fn is_screen(prelude: &str) -> bool {
    let media = prelude.to_ascii_lowercase();
    matches!(media.split_whitespace().collect::<Vec<_>>()[..], ["@media", "screen" | "all"])
}

/// What comes after a block whose `{` has been read.
fn after_block(body: &str) -> &str {
    let mut depth = 1_usize;
    let end = body.bytes().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.map_or("", |end| &body[end + 1..])
}

fn parse_selector(selector: &str) -> Option<Vec<Step>> {
    let mut path: Vec<Step> = Vec::new();
    let mut is_parent = false;
    for word in selector.replace('>', " > ").split_ascii_whitespace().rev().take(16) {
        if word == ">" {
            is_parent = true;
        } else {
            path.push(Step { compound: Compound::parse(word)?, is_parent });
            is_parent = false;
        }
    }
    Some(path)
}

impl Compound {
    fn parse(word: &str) -> Option<Self> {
        let mut compound = Self::default();
        let mut rest = word;
        loop {
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let end = rest[first..].find(['.', '#']).map_or(rest.len(), |at| at + first);
            let (part, next) = rest.split_at(end);
            let name = part.trim_start_matches(['.', '#']);
            if name.is_empty() || name.contains([':', '[', '*', '+', '~', '(', '&']) && name != "*"
            {
                return None;
            }
            match part.as_bytes()[0] {
                b'.' => compound.classes.push(name.to_owned()),
                b'#' => compound.id = Some(name.to_owned()),
                _ if name == "*" => {}
                _ => compound.tag = Some(name.to_ascii_lowercase()),
            }
            if next.is_empty() {
                return Some(compound);
            }
            rest = next;
        }
    }

    fn key(&self) -> String {
        if let Some(id) = &self.id {
            format!("#{id}")
        } else if let Some(class) = self.classes.first() {
            format!(".{class}")
        } else {
            self.tag.clone().unwrap_or_else(|| "*".to_owned())
        }
    }

    fn specificity(&self) -> usize {
        usize::from(self.id.is_some()) * 10_000
            + self.classes.len() * 100
            + usize::from(self.tag.is_some())
    }

    fn matches(&self, element: &Element) -> bool {
        let classes = element.attr("class").unwrap_or("");
        let has_class = |wanted: &String| {
            classes.split_ascii_whitespace().take(64).any(|class| class == wanted)
        };
        self.tag.as_ref().is_none_or(|tag| tag == element.name())
            && self.id.as_ref().is_none_or(|id| element.attr("id") == Some(id))
            && self.classes.iter().all(has_class)
    }
}

impl Rule {
    fn matches(&self, node: NodeRef<'_, Node>) -> bool {
        let mut steps = self.path.iter();
        let is = |node: NodeRef<'_, Node>, step: &Step| {
            node.value().as_element().is_some_and(|element| step.compound.matches(element))
        };
        if !steps.next().is_some_and(|subject| is(node, subject)) {
            return false;
        }
        let mut above = node.ancestors().take(MAX_ANCESTORS);
        steps.all(|step| {
            if step.is_parent {
                above.next().is_some_and(|node| is(node, step))
            } else {
                above.any(|node| is(node, step))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use scraper::Html;

    use super::*;

    fn finds(css: &str, html: &str) -> bool {
        let mut sheet = Sheet::default();
        sheet.read(css);
        let html = Html::parse_fragment(html);
        let mut found = Declarations::default();
        for node in html.tree.root().descendants() {
            if node.value().as_element().is_some_and(|element| element.attr("title").is_some()) {
                sheet.collect(node, &mut found);
            }
        }
        !found.is_empty()
    }

    #[test]
    fn names_of_any_script_are_names() {
        for selector in ["\u{5de}", "\u{5de}.c", ".\u{5de}", "#\u{1f600}", "\u{5de}#x p"] {
            assert!(!finds(&format!("{selector}{{color:red}}"), "<p title=here>text</p>"));
        }
        assert!(finds(".\u{5de}{color:red}", "<p class=\u{5de} title=here>text</p>"));
    }

    #[test]
    fn simple_selectors_match() {
        let html = "<div class='a b'><ul><p id=x class=c title=here>text</p></ul></div>";
        for selector in
            ["p", ".c", "#x", "p.c#x", "*", ".a .c", "ul > p", "div ul>.c", "h1, p", ".a.b p"]
        {
            assert!(finds(&format!("{selector} {{ display: none }}"), html), "{selector}");
        }
        for selector in ["h1", ".d", "#y", "p.d", "div > p", ".c .a", "p:hover", "p + p", "a[b]"] {
            assert!(!finds(&format!("{selector} {{ display: none }}"), html), "{selector}");
        }
    }

    #[test]
    fn at_rules_and_comments_are_stepped_over() {
        let html = "<p title=here>text</p>";
        assert!(finds("<!-- @import url(x); @font-face { a: b } p { color: red } -->", html));
        assert!(finds("@media print { q { a: b } } /* { */ p { opacity: 0 }", html));
        assert!(finds("@media screen { p { opacity: 0 } }", html));
        assert!(!finds("@media print { p { display: none } }", html));
        assert!(!finds("p { border: 0", "<p>text</p>"));
        assert!(!finds("{{{}}} @ { .. { #{ > {", html));
    }
}
