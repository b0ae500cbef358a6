//! Work-item texts as people write them, made from a seed: divs full of styled spans, lists,
//! tables, screenshots, mentions, code.

/// A small generator of numbers, so that every run measures the same texts.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const WORDS: &[&str] = &[
    "the",
    "order",
    "service",
    "returns",
    "error",
    "when",
    "customer",
    "opens",
    "page",
    "after",
    "update",
    "login",
    "fails",
    "with",
    "timeout",
    "expected",
    "result",
    "should",
    "show",
    "list",
    "of",
    "items",
    "in",
    "database",
    "and",
    "retry",
    "button",
    "is",
    "disabled",
    "for",
    "admin",
    "user_id",
    "OrderService.cs",
    "500",
    "null",
    "reference",
    "exception",
    "build",
    "deploy",
];
const STYLES: &[&str] = &[
    "box-sizing:border-box;color:rgb(0, 0, 0);font-family:&quot;Segoe UI&quot;, sans-serif;font-size:14px;",
    "font-family:Calibri, sans-serif;font-size:11.0pt;margin:0in 0in 0.0001pt;",
    "background-color:rgb(255, 255, 255);color:rgb(36, 41, 46);font-size:16px;display:inline !important;",
    "margin:0px;padding:0px;",
    "text-decoration:underline;color:#0563c1;",
];

/// Makes `count` texts.
pub fn texts(count: usize) -> Vec<String> {
    let mut numbers = Numbers(20_240_131);
    (0..count).map(|_| text(&mut numbers)).collect()
}

fn sentence(numbers: &mut Numbers) -> String {
    let words = 4 + numbers.below(14);
    let mut sentence = String::new();
    for _ in 0..words {
        sentence.push_str(numbers.pick(WORDS));
        sentence.push_str(if numbers.below(12) == 0 { "&nbsp;" } else { " " });
    }
    sentence
}

fn text(numbers: &mut Numbers) -> String {
    let mut html = String::new();
    for _ in 0..3 + numbers.below(12) {
        let words = sentence(numbers);
        let style = numbers.pick(STYLES);
        match numbers.below(10) {
            0 => html.push_str(&format!("<div style=\"{style}\"><br></div>")),
            1 => list(numbers, &mut html),
            2 => table(numbers, &mut html),
            3 => html.push_str(&format!(
                "<div><img src=\"https://dev.azure.com/contoso/_apis/wit/attachments/1f3b2c4d-aaaa-4bbb?fileName=shot{}.png\" alt=Image></div>",
                numbers.below(90)
            )),
            4 => html.push_str(&format!(
                "<div><a href=\"#\" data-vss-mention=\"version:2.0,6011f8b0-1111-4222-8333-444455556666\">@Jane Doe</a>&nbsp;{words}</div>"
            )),
            5 => html.push_str(&format!(
                "<p class=MsoNormal style=\"{style}\">{words}<a href=\"https://contoso.com/docs/{}?id={}&amp;tab=logs\">more</a><o:p></o:p></p>",
                numbers.pick(WORDS),
                numbers.below(9000)
            )),
            6 => html.push_str(&format!(
                "<pre><code>System.NullReferenceException: {words}\n   at Contoso.Api.{}(Int32 id)\n</code></pre>",
                numbers.pick(WORDS)
            )),
            _ => html.push_str(&format!(
                "<div style=\"{style}\"><span style=\"{style}\">{words}</span><b>{}</b></div>",
                numbers.pick(WORDS)
            )),
        }
    }
    html
}

fn list(numbers: &mut Numbers, html: &mut String) {
    let kind = numbers.pick(&["ul", "ol"]);
    html.push_str(&format!("<{kind} style=\"margin:0in\">"));
    for _ in 0..2 + numbers.below(6) {
        let words = sentence(numbers);
        html.push_str(&format!(
            "<li style=\"{}\"><span>{words}</span><br></li>",
            numbers.pick(STYLES)
        ));
    }
    html.push_str(&format!("</{kind}>"));
}

fn table(numbers: &mut Numbers, html: &mut String) {
    html.push_str("<table style=\"border-collapse:collapse;width:100%\"><tbody>");
    for _ in 0..2 + numbers.below(5) {
        html.push_str("<tr>");
        for _ in 0..3 {
            html.push_str(&format!(
                "<td style=\"border:1px solid black;padding:4px;width:33%\">{}</td>",
                numbers.pick(WORDS)
            ));
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table>");
}
