//! The fast path builds the same tree as html5ever, or returns `None`.

use ego_tree::NodeRef;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use scraper::Node;

use super::parse::{FIELD_WORK, Parsed, parse_within};
use super::{characters, plain, writer};

/// A tree with its nodes in the order of the page.
fn shape(node: NodeRef<'_, Node>, depth: usize, shape: &mut Vec<(usize, Node)>) {
    shape.push((depth, node.value().clone()));
    for child in node.children() {
        self::shape(child, depth + 1, shape);
    }
}

fn nodes(html: &scraper::Html) -> Vec<(usize, Node)> {
    let mut found = Vec::new();
    shape(html.tree.root(), 0, &mut found);
    found
}

/// Whether the fast path accepts the input; if so, checks that both trees are the same and that it
/// counted at least as many steps.
fn uses_fast_path(input: &str) -> bool {
    let Some(short) = plain::parse(input, FIELD_WORK) else { return false };
    let long: Parsed = parse_within(input, FIELD_WORK);
    assert_eq!(nodes(&short.html), nodes(&long.html), "{input:?}");
    assert!(long.cut_bytes == 0 && long.flood_bytes == 0 && !long.has_style, "{input:?}");
    assert!(long.body.is_none(), "{input:?}");
    assert!(long.work <= short.work, "{} and {} steps: {input:?}", long.work, short.work);
    true
}

#[test]
fn common_markup_uses_the_fast_path() {
    for input in [
        "",
        "text",
        "<div>One <b>two</b>&nbsp;three<br>four</div>\n<div><br/></div>",
        "<DIV STYLE=\"color:red\">x</DIV>",
        "<p>a</p><ul><li>b<ul><li>c</li></ul></li> <li><p>d</p></li></ul>",
        "<ol start=2><li><a href=\"/x?a=1&amp;b=2\">l</a></li></ol>",
        "<table border=1>\n<tbody><tr><th>a</th><td><div>b</div></td></tr></tbody></table>",
        "<b><table><tbody><tr><td><b>x</b></td></tr></tbody></table></b>",
        "<pre>\n\nfn main() {\n}</pre><pre>x</pre>",
        "<h1>a</h1><h2><span class=y title='never read'>b</span></h2><hr>",
        "<img src='a.png' alt=\"it's\" hidden />",
        "<b><b><b><b><b>deep</b></b></b></b></b> after",
        "<div><p>not closed",
        "<table><tbody><tr> ",
        "<p class=MsoNormal><span>a\r\nb<o:p>&nbsp;</o:p></span></p>\r\r\n",
        "<ul>\n<li><input disabled=\"\" type=\"checkbox\"/>\nto do</li>\n</ul>\n",
        "&ldquo;It&rsquo;s&rdquo; &ndash; &mdash; &hellip; &middot; &bull; &apos;&#34;&#160;&lsquo;",
    ] {
        assert!(uses_fast_path(input), "{input:?}");
    }
}

#[test]
fn special_markup_uses_html5ever() {
    for input in [
        "<p>a<div>b</div>",
        "<p>a<p>b",
        "<li>a</li>",
        "<ul><li>a<li>b</ul>",
        "<b>a<i>b</b>c</i>",
        "<a href=x>a<a href=y>b</a></a>",
        "<table><tr><td>a</table>",
        "<table>text</table>",
        "<table>&nbsp;</table>",
        "<tr><td>a</td></tr>",
        "<h1>a<h2>b</h2></h1>",
        "<div/>a",
        "<br></br>",
        "</div>",
        "</p>",
        "a < b",
        "a<",
        "<div",
        "<div a='1",
        "<!-- note -->",
        "<style>p{}</style>",
        "<svg></svg>",
        "<p title='<style'>a</p>",
        "<p class=a class=b>a</p>",
        "<p a='1'b='2'>x</p>",
        "<p class=a`b>x</p>",
        "&copy; &eacute; &ampx",
        "a\0b",
        "\u{feff}a",
        "<o:x>x</o:x>",
        "<select><option>a</option></select>",
    ] {
        assert!(!uses_fast_path(input), "{input:?}");
    }
}

fn tags() -> Vec<&'static str> {
    let tags = "div span br p b i u a li ul ol td th tr tbody thead tfoot table em strong code pre \
        img h1 h2 h3 h4 h5 h6 hr blockquote font s strike small tt del ins sub sup kbd samp section \
        article o:p input";
    tags.split_ascii_whitespace().collect()
}

/// Pieces that exercise every nesting rule.
fn piece() -> impl Strategy<Value = String> {
    const TEXTS: [&str; 24] = [
        "x",
        " ",
        "\n",
        "\t",
        "a b",
        "&nbsp;",
        "&amp;",
        "&lt;b&gt;",
        "&quot;",
        "&#39;",
        "&",
        "&x",
        "\u{a0}",
        "é\u{200b}",
        "<",
        ">",
        "\u{c}",
        "\"",
        "'",
        "=",
        "a\nb\n",
        "\r",
        "a\r\n",
        "longer than eight bytes",
    ];
    const ATTRIBUTES: [&str; 16] = [
        "",
        "",
        "",
        "",
        " class=a",
        " style=\"color:red\"",
        " style='x &quot; y'",
        " href=\"?a&amp;b\"",
        " hidden",
        " title=t",
        " CLASS=B",
        " id='a' id='b'",
        "/",
        " /",
        " data-vss-mention=\"v\"",
        " src=a/",
    ];
    let tag = (prop::sample::select(tags()), prop::sample::select(&ATTRIBUTES[..]));
    prop_oneof![
        4 => tag.prop_map(|(tag, attributes)| format!("<{tag}{attributes}>")),
        4 => prop::sample::select(tags()).prop_map(|tag| format!("</{tag}>")),
        3 => prop::sample::select(&TEXTS[..]).prop_map(str::to_owned),
    ]
}

/// Well-nested elements, occasionally with something misplaced.
fn nested() -> impl Strategy<Value = String> {
    const AROUND: [(&str, &str); 18] = [
        ("<div>", "</div>"),
        ("<div style='color:red'>", "</div>"),
        ("<span class=a>", "</span>"),
        ("<b>", "</b>"),
        ("<b>", "</b>"),
        ("<i>", "</i>"),
        ("<code>", "</code>"),
        ("<font color=red>", "</font>"),
        ("<p>", "</p>"),
        ("<a href='?a&amp;b'>", "</a>"),
        ("<ul><li>", "</li></ul>"),
        ("<ol>\n<li>a</li> <li>", "</li>\n</ol>"),
        ("<h2>", "</h2>"),
        ("<pre>\n", "</pre>"),
        ("<blockquote>", "</blockquote>"),
        ("<table border=1><tbody><tr><td>", "</td></tr></tbody></table>"),
        (
            "<table>\n<thead><tr><th>",
            "</th></tr></thead><tbody>\n<tr><td>x</td></tr></tbody></table>",
        ),
        ("<br>", "<img src=a>"),
    ];
    const TEXTS: [&str; 8] =
        ["x", " ", "\n", "a &lt; b", "&nbsp;", "é", "more than eight bytes", "<br/>"];
    let leaf = prop_oneof![
        40 => prop::sample::select(&TEXTS[..]).prop_map(str::to_owned),
        1 => piece(),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let around = prop::sample::select(&AROUND[..]);
        (around, prop::collection::vec(inner, 0..4))
            .prop_map(|((open, close), inner)| format!("{open}{}{close}", inner.concat()))
    })
}

#[test]
fn the_nested_pages_of_the_next_test_take_both_ways() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let pages = prop::collection::vec(nested(), 1..4);
    let short = (0..1_000)
        .map(|_| pages.new_tree(&mut runner).unwrap().current().concat())
        .filter(|page| page.matches("</").count() > 1 && uses_fast_path(page))
        .count();
    assert!((100..900).contains(&short), "{short} of 1000");
}

/// The same byte by byte.
fn plain_words(text: &str) -> &str {
    let mut end = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b' ' if end == at => {}
            0x21..=0x7e => end = at + 1,
            _ => break,
        }
    }
    &text[..end]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_soup_of_tags_makes_the_same_tree_or_uses_html5ever(
        pieces in prop::collection::vec(piece(), 0..14)
    ) {
        uses_fast_path(&pieces.concat());
    }

    #[test]
    fn any_nesting_makes_the_same_tree_or_uses_html5ever(
        input in prop::collection::vec(nested(), 0..4)
    ) {
        uses_fast_path(&input.concat());
    }

    #[test]
    fn many_characters_at_a_time_are_read_as_one_by_one(text in "([a-z]{1,7}[ ]{1,2}|[ -~]{0,40}|\\PC|\\n){0,9}") {
        prop_assert_eq!(writer::plain_words(&text), plain_words(&text));
        let mut dropped = 0;
        let visible = characters::visible(&text, &mut dropped);
        let mut one_by_one = 0;
        // A non-ASCII character after each one disables the fast path for several at a time.
        let spread: String = text.chars().map(|c| format!("{c}\u{e9}")).collect();
        let spread = characters::visible(&spread, &mut one_by_one).replace('\u{e9}', "");
        prop_assume!(!text.contains(['\u{e9}', '\u{fe0e}', '\u{fe0f}', '\u{200c}', '\u{200d}', '\u{1F3F4}']));
        prop_assert_eq!((&*visible, dropped), (&*spread, one_by_one));
    }
}
