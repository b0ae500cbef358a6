//! Fail closed: text in a hiding construct never comes out without an alarm, text in a harmless one
//! is never lost.

use proptest::prelude::*;
use visible_text::{Format, Tier, UnclearTextPolicy, VisibilityIssue};
use visible_text::{Options, clean_text};

/// Constructs that hide `%`, each in a different way.
const HIDING: &[&str] = &[
    "<div style='display:none'>%</div>",
    "<div style='visibility:hidden'>%</div>",
    "<div style='opacity:.2'><div style='opacity:.2'>%</div></div>",
    "<div style='font-size:.1em'><div style='font-size:.1em'>%</div></div>",
    "<div style='font:0/0 serif'>%</div>",
    "<div style='position:absolute;left:-9999px'>%</div>",
    "<div style='position:fixed;top:-200em'>%</div>",
    "<div style='margin-left:-3000px'>%</div>",
    "<div style='text-indent:-9999px'>%</div>",
    "<div style='transform:translateX(-500vw)'>%</div>",
    "<div style='transform:rotateY(90deg)'>%</div>",
    "<div style='scale:0'>%</div>",
    "<div style='zoom:.01'>%</div>",
    "<div style='clip-path:circle(0)'>%</div>",
    "<div style='mask:linear-gradient(transparent,transparent)'>%</div>",
    "<div style='filter:opacity(0)'>%</div>",
    "<div style='height:0;overflow:hidden'>%</div>",
    "<div style='max-width:0;overflow:clip;white-space:nowrap'>%</div>",
    "<div style='contain:size paint'>%</div>",
    "<div style='content-visibility:hidden'>%</div>",
    "<div style='display:flex'><div style='flex:0 0 0;min-width:0;overflow:hidden'>%</div></div>",
    "<div style='color:#fff'>%</div>",
    "<div style='background:#000'>%</div>",
    "<div style='color:oklch(1 0 0)'>%</div>",
    "<div style='color:color-mix(in srgb,white,white)'>%</div>",
    "<div style='background:linear-gradient(#000,#000)'>%</div>",
    "<div style='-webkit-text-fill-color:transparent'>%</div>",
    "<div style='position:relative'>%<b style='position:absolute;inset:0;background:#fff'></b></div>",
    "<div>%</div><div style='margin-top:-40px;position:relative;background:#fff'>x</div>",
    "<style>.q:is(div){display:none}</style><div class=q>%</div>",
    "<style>.a{& .b{opacity:0}}</style><div class=a><div class=b>%</div></div>",
    "<style>@media not print{.q{display:none}}</style><div class=q>%</div>",
    "<style>@container (width>1px){.q{display:none}}</style><div class=q>%</div>",
    "<style>.q{display:var(--x,none)}</style><div class=q>%</div>",
    "<style>@keyframes k{to{opacity:0}}.q{animation:k 1s forwards}</style><div class=q>%</div>",
    "<style>.q::after{content:'';position:absolute;inset:0;background:#fff}</style><div class=q>%</div>",
    "<style>@import 'x.css';</style><div>%</div>",
    "<svg><text opacity='0'>%</text></svg>",
    "<math><mstyle mathsize='0'><mtext>%</mtext></mstyle></math>",
    "<div popover>%</div>",
    "<template shadowrootmode=open></template>%",
    "<div style='color:var(--page-bg)'><p style='background:#fff'>%</p></div>",
    "<div style='background:linear-gradient(#000,#000) no-repeat;color:#fff'>%</div>",
    "<div style='background:linear-gradient(#000,#fff);color:#fff'>%</div>",
    "<div style='background-image:linear-gradient(#000,#111);background-size:1px;color:#fff'>%</div>",
    "<div style='color:rgba(var(--palette-neutral-0,0,0,0),1)'>%</div>",
    "<div style='background:rgba(var(--palette-neutral-0,0,0,0),1);color:#fff'>%</div>",
    "<div style='color:#fff'><p style='--A:red;color:#000;color:var(--a)'>%</p></div>",
    "<div style='--a:red;--a:#fff;color:var(--a)'>%</div>",
    "<div style='color:#fff'><p style='--a:none;color:#000;color:var(--a)'>%</p></div>",
    "<div style='filter:brightness(1.2) opacity(0)'>%</div>",
    "<div style='transform:rotate(5deg);transform-origin:90000px 0'>%</div>",
    "<div style='margin-left:-400px;padding-left:20px'>%</div>",
    "<b>%</b><b style='margin-left:-400px;padding-left:400px;background:#fff'>x</b>",
    "<div style='color-scheme:dark'>%</div>",
    "<div style='display:grid'><p style='grid-row:1;grid-column:1'>%</p></div>",
    "<button style='width:0;height:0;padding:0;border:0;overflow:hidden'>%</button>",
    "<style>[data-ogsc] p{display:none}</style><div data-ogsc><p>%</p></div>",
    "<style>:checked~p{display:none}</style><input type=checkbox checked><p>%</p>",
    "<style>@font-face{font-family:a;src:url(https://fonts.gstatic.com/s/redacted/v1/x.woff2)}</style>%",
    "<link rel=stylesheet href='https://fonts.googleapis.com/css?family=Flow+Block'>%",
    "<div style='--text:#fff'><p style='color:var(--text,#000)'>%</p></div>",
    "<style>.t{--text:#fff}</style><div class=t><p style='color:var(--text,#000)'>%</p></div>",
    "<style>@property --t{syntax:'<color>';inherits:true;initial-value:#fff}</style><p style='color:var(--t)'>%",
    "<p style='color:var(--page-background)'>%</p>",
    "<div style='animation:1s ease vanish forwards'>%</div>",
    "<div style='columns:2;height:1em;overflow:hidden'>% a b c d e f g h i j k l</div>",
    "<style>@import 'https://fonts.googleapis.com.example/css?family=A';</style>%",
    "<style>.q{position:absolute;inset:0;background:#fff}</style><div>%</div><div class=q></div>",
    "<style>.q{color:#fff;background:#fff}</style><p class=q>%</p>",
    "<style>.q{background:#123}</style><p class=q>%</p>",
    "<div style='background:#fff'><p style='position:relative;z-index:-1'>%</p></div>",
    "<h1 style='background:linear-gradient(#fff,#fff);background-clip:text;color:transparent'>%</h1>",
    "<div style='position:relative'><p style='position:absolute;top:0;z-index:-1'>%</p></div>",
    "<div style='--font-body:0/1 a'><p style='font:var(--font-body)'>%</p></div>",
    "<p style='font-size:var(--nothing)'>%</p>",
    "<p style='box-shadow:var(--ds-shadow,0 -30px 0 400px #fff)'>%</p>",
    "<p style='color:var(--colorNeutralForegroundInverted,#242424)'>%</p>",
    "<div style='display:flex;width:90px;overflow:hidden'><b style='flex:none;width:90px'>x</b><b>%</b></div>",
    "<div style='height:20px;overflow:hidden;line-height:100px'>%</div>",
    "<div style='-webkit-text-fill-color:#fff'><span style='color:red'>%</span></div>",
    "<div style='height:20px;overflow:hidden'><p style='margin:40px 0 0'>%</p></div>",
    "<div style='background:#111;color:#fff;height:20px'><div style='height:24px'></div>%</div>",
];

/// Constructs in which `%` is visible.
const HARMLESS: &[&str] = &[
    "<div>%</div>",
    "<p style='margin:0 0 8pt;line-height:1.07'>%</p>",
    "<p style='margin-left:.5in;text-indent:-.25in'>%</p>",
    "<span style='color:#777;font-size:8pt'>%</span>",
    "<span style='background:yellow;color:red'>%</span>",
    "<div style='background:#1e1e1e;color:#d4d4d4;padding:8px'>%</div>",
    "<div style='opacity:.7'>%</div>",
    "<div style='display:flex;gap:4px'><div>%</div><div>x</div></div>",
    "<div style='display:grid'><div>%</div></div>",
    "<div style='display:grid'><div style='grid-column:1 / -1'>%</div></div>",
    "<div style='float:right'>%</div>",
    "<div style='position:relative'>%</div>",
    "<div style='position:relative;z-index:3;left:2px'>%</div>",
    "<div style='overflow:auto'>%</div>",
    "<div style='overflow:hidden'>%</div>",
    "<span style='width:0;height:0;overflow:hidden'>%</span>",
    "<div style='transform:none;filter:none;clip-path:none'>%</div>",
    "<div style='clip-path:inset(0)'>%</div>",
    "<div style='content-visibility:auto'>%</div>",
    "<div style='left:-9999px;top:-9999px'>%</div>",
    "<div style='z-index:-1'>%</div>",
    "<div style='height:0;margin-bottom:20px'>%</div>",
    "<div style='display:nonee;visibility:gone;opacity:zero'>%</div>",
    "<div style='display:none;display:block'>%</div>",
    "<div style='visibility:hidden'><b style='visibility:visible'>%</b></div>",
    "<div style='border:1px solid #ccc;border-radius:4px;box-shadow:0 1px 3px #999'>%</div>",
    "<div style='text-shadow:1px 1px 2px #aaa'>%</div>",
    "<div style='mso-margin-top-alt:auto;tab-stops:.5in'>%</div>",
    "<div style='--x:none;transition:all .2s;cursor:pointer'>%</div>",
    "<div style='wrap-strategy:4;language:en-US;some-new-property:yes'>%</div>",
    "<details><summary>s</summary>%</details>",
    "<details>%</details>",
    "<div style='margin:-5px'>%</div>",
    "<style>.q:hover,.q:focus{display:none}</style><div class=q>%</div>",
    "<style>@media print{.q{display:none}}</style><div class=q>%</div>",
    "<style media=print>.q{display:none}</style><div class=q>%</div>",
    "<style>@media (max-width:600px){.q{display:none}}</style><div class=q>%</div>",
    "<style>p:nth-child(77),.Q,#q{display:none}</style><div class=q>%</div>",
    "<style>.q::before{content:'> ';display:none}</style><div class=q>%</div>",
    "<style>@supports not (display:grid){.q{display:none}}</style><div class=q>%</div>",
    "<table bgcolor=navy><tr><td><font color=white>%</font></td></tr></table>",
    "<table style='border-collapse:collapse;width:144pt'><col style='width:48pt'><tr><td>%</td></tr></table>",
    "<details open><summary>s</summary>%</details>",
    "<button>%</button>",
    "<ruby>a<rt>%</rt></ruby>",
    "<math><mfrac><mi>%</mi><mn>2</mn></mfrac></math>",
    "<div hidden style='display:block'>%</div>",
    "<span style='color:rgba(var(--palette-neutral-100,0, 0, 0),0.9)'>%</span>",
    "<span style='background:rgba(var(--palette-neutral-0,255, 255, 255),1)'>%</span>",
    "<span style='--t:1;color:rgb(15 23 42 / var(--t))'>%</span>",
    "<span style='--brand:#c00;color:var(--brand)'>%</span>",
    "<span style='color:var(--bs-body-color)'>%</span>",
    "<span style='color:var(--slate-900,#0f172a)'>%</span>",
    "<sup style='font-size:.75em;line-height:0;position:relative;top:-.5em'>%</sup>",
    "<div style='box-shadow:0 20px 25px -5px rgb(0 0 0 / .1),0 8px 10px -6px rgba(0,0,0,.1)'>%</div>",
    "<div style='animation:auto ease 0s 1 normal none running none'>%</div>",
    "<div style='column-count:2;column-gap:20px'>%</div>",
    "<a style='background:#28a745 linear-gradient(180deg,#48b461,#28a745);color:#fff'>%</a>",
    "<div style='filter:brightness(1.1);transform:rotate(-3deg) scale(1.05)'>%</div>",
    "<div style='position:sticky;top:0;background:#fff'>%</div>",
    "<div style='position:relative'><p>%</p><a href=/x style='position:absolute;inset:0'></a></div>",
    "<ul style='margin-left:-20px;padding-left:60px;text-indent:-12px'><li>%</ul>",
    "<div style='display:-webkit-box;-webkit-line-clamp:2;overflow:hidden'>%</div>",
    "<style>:root{color-scheme:light dark}</style>%",
    "<style>[data-ogsc] .q{color:#fff!important}</style><div class=q>%</div>",
    "<style>.w:hover .q{display:none}</style><div class=w><div class=q>%</div></div>",
    "<style>@font-face{font-family:a;src:url(https://fonts.gstatic.com/s/inter/v1/x.woff2)}</style>%",
    "<link rel=stylesheet href='https://fonts.googleapis.com/css2?family=Open+Sans:wght@400;700'>%",
    "<span style='--r:215;--g:58;background:rgba(var(--r),var(--g),0,.2);color:#d73a4a'>%</span>",
    "<code style='color:var(--highlight-color);background:var(--highlight-bg)'>%</code>",
    "<pre style='margin:0 0 calc(var(--space) + 4px)'>%</pre>",
    "<div style='contain:inline-size'>%</div>",
    "<h1 style='background:linear-gradient(#ff8a00,#e52e71);background-clip:text;color:transparent'>%</h1>",
    "<div style='height:32px;overflow:hidden;white-space:nowrap'>%</div>",
    "<div style='display:-webkit-box;-webkit-line-clamp:3;width:420px;overflow:hidden'>%</div>",
    "<span style='line-height:0'><img src=x.png alt=Scan></span><p>%</p>",
    "<div style='position:relative'>%<b style='position:absolute;top:0;right:0'>Copy</b></div>",
    "<style>.card{background:#123;color:#eee}.card h2{color:#fff}</style><div class=card><h2>%</h2></div>",
    "<p style='font:var(--font-body);line-height:var(--line-height-2);letter-spacing:var(--tracking,-.02em)'>%</p>",
    "<p style='box-shadow:var(--ds-shadow-raised,0 1px 1px #091e4240)'>%</p>",
    "<p style='--brand:#fff;color:var(--ds-text,#172b4d);background:hsl(var(--background))'>%</p>",
    "<p style='color:var(--colorNeutralForeground1,#242424)'>%</p>",
    "<div style='display:flex;width:200px;overflow:hidden'><b>%</b></div>",
    "<p style='color:var(--bs-card-color);background:var(--mui-palette-primary)'>%</p>",
    "<p style='color:var(--mdc-text,var(--mdc-ink,rgb(20, 20, 20)))'>%</p>",
    "<div style='height:24px;background:#1976d2;color:#fff'><span style='padding:0 8px'>%</span></div>",
    "<div style='background:#f44336;width:6px;color:#fff;white-space:nowrap'><b style='color:#333'>%</b></div>",
    "<div style='height:32px;line-height:32px;overflow:hidden'><div><span>%</span></div></div>",
    "<div style='position:absolute;right:0;top:0'><svg width=16 height=16></svg></div><p>%</p>",
];

fn clean(html: &str, format: Format, doubtful: UnclearTextPolicy) -> visible_text::Cleaned {
    clean_text(html, format, &Options { doubtful, ..Options::default() })
}

/// The same construct with a unique class, so that the rules of two of them do not interfere.
fn apart(construct: &str) -> String {
    construct.replace("class=q", "class=r").replace(".q", ".r")
}

/// Constructs that do not change the colours of the text in them.
fn around() -> impl Strategy<Value = &'static str> {
    prop::sample::select(HARMLESS).prop_filter("other colours", |html| {
        !["color", "background", "<button"].iter().any(|word| html.contains(word))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn hidden_text_never_comes_out_without_an_alarm(
        how in prop::sample::select(HIDING),
        around in around(),
        word in "[bcdfgk][aeiou][bcdfgk][aeiou]xq[a-z]{0,9}",
    ) {
        let inside = how.replace('%', &word);
        for html in [inside.clone(), format!("seen {inside} seen"), apart(around).replace('%', &inside)] {
            for format in [Format::Html, Format::Markdown] {
                let left_out = clean(&html, format, UnclearTextPolicy::LeaveOut);
                prop_assert!(!left_out.text.contains(&word), "{html} -> {}", left_out.text);
                prop_assert!(left_out.alarms.any(), "{html} -> {}", left_out.text);
                let kept = clean(&html, format, UnclearTextPolicy::MarkAndKeep);
                prop_assert!(kept.alarms.any(), "{html} -> {}", kept.text);
            }
        }
    }

    #[test]
    fn seen_text_never_gets_lost(
        how in prop::sample::select(HARMLESS),
        other in prop::sample::select(HARMLESS),
        word in "[bcdfgk][aeiou][bcdfgk][aeiou]xq[a-z]{0,9}",
    ) {
        let html = how.replace('%', &word);
        let cleaned = clean(&html, Format::Html, UnclearTextPolicy::LeaveOut);
        prop_assert!(cleaned.text.contains(&word), "{html} -> {}", cleaned.text);
        prop_assert!(!cleaned.alarms.any(), "{html} -> {:?}", cleaned.alarms);
        // Side by side they do not affect each other.
        let html = format!("{html}<p>{}</p>", apart(other).replace('%', "neighbour"));
        let kept = clean(&html, Format::Html, UnclearTextPolicy::MarkAndKeep);
        prop_assert!(kept.text.contains(&word), "{html} -> {}", kept.text);
    }
}

#[test]
fn there_are_enough_of_both_kinds() {
    assert!(HIDING.len() >= 40 && HARMLESS.len() >= 40);
}

#[test]
fn a_mark_names_the_reason_and_stands_once_for_a_run_of_text() {
    let html = "a <p style='clip-path:url(#x)'>one <b>two</b></p> b";
    let cleaned = clean(html, Format::Html, UnclearTextPolicy::LeaveOut);
    assert_eq!(cleaned.text, "a\n\n[left out, may be hidden: may be clipped]\n\nb");
    assert_eq!(cleaned.alarms.doubtful_chars, 6);
    assert!(cleaned.alarms.doubts.has(VisibilityIssue::Clipped));
    let kept = clean(html, Format::Html, UnclearTextPolicy::MarkAndKeep);
    assert_eq!(kept.text, "a\n\n[may be hidden: may be clipped] one two\n\nb");
    assert_eq!(kept.alarms, cleaned.alarms);
    let twice = format!("{html} {html}");
    let kept = clean(&twice, Format::Html, UnclearTextPolicy::MarkAndKeep);
    assert_eq!(kept.text.matches("[may be hidden").count(), 1, "{}", kept.text);
}

/// GitHub shows no style at all: what one would hide is visible to everybody there.
#[test]
fn a_tracker_without_styles_shows_what_they_would_hide() {
    let raw = "Steps\n\n<p style=\"display:none\" hidden class=q>open the shop</p>\n";
    let cleaned = clean(raw, Format::RawMarkdown, UnclearTextPolicy::MarkAndKeep);
    assert_eq!(cleaned.text, "Steps\n\nopen the shop");
    assert!(!cleaned.alarms.any(), "{:?}", cleaned.alarms);
    let encoded = clean(raw, Format::Markdown, UnclearTextPolicy::MarkAndKeep);
    assert_eq!(encoded.text, "Steps");
    assert_eq!(encoded.alarms.tier(), Some(Tier::Alarm));
}

/// The author's page may be dark: white text without a background is kept, with a note.
#[test]
fn white_text_without_a_background_is_kept_with_a_note() {
    let html = "a <b style='color:#fff'>b</b>";
    let kept = clean(html, Format::Html, UnclearTextPolicy::default());
    assert_eq!(kept.text, "a [may be hidden: in the colour of a light page] b");
    assert_eq!(kept.alarms.tier(), Some(Tier::Note));
}

/// A doubt about one element says nothing about the others.
#[test]
fn a_doubt_touches_its_own_element() {
    let html = "<p>one</p><p><span style='clip-path:url(#x)'>two</span> three</p>";
    let cleaned = clean(html, Format::Html, UnclearTextPolicy::LeaveOut);
    assert_eq!(cleaned.text, "one\n\n[left out, may be hidden: may be clipped] three");
}

#[test]
fn attributes_that_matter_are_read_whatever_stands_before_them() {
    let flood: String = (0..500).map(|n| format!(" a{n}=1")).collect();
    let classes: String = (0..500).map(|n| format!("c{n} ")).collect();
    for html in [
        format!("<p{flood} style='display:none'>secret</p>"),
        format!("<p{flood} hidden>secret</p>"),
        format!("<style>.last{{display:none}}</style><p class='{classes} last'>secret</p>"),
        format!("<style>[last]{{display:none}}</style><p{flood} last>secret</p>"),
        format!(
            "<style>{}.q{{display:none}}</style><p class=q>secret</p>",
            ".r{color:red}".repeat(5_000)
        ),
        format!(
            "<style>.top .q{{display:none}}</style><div class=top>{}<p class=q>secret",
            "<div>".repeat(300)
        ),
    ] {
        let cleaned = clean(&html, Format::Html, UnclearTextPolicy::LeaveOut);
        assert!(!cleaned.text.contains("secret") && cleaned.alarms.any(), "{}", &html[..80]);
    }
}

#[test]
fn every_budget_that_is_hit_is_a_doubt() {
    let rules: String = (0..25_000).map(|n| format!(".r{n}{{color:red}}")).collect();
    let slow: String = (0..2_000).map(|n| format!("div .a{n} *{{color:red}}")).collect();
    for html in [
        format!("<style>{rules}</style><p>text</p>"),
        format!("<style>{slow}</style>{}<p>text", "<div><span></span>".repeat(1_000)),
        format!("<p style='{}'>text</p>", "color:red;".repeat(300)),
        format!("<style>{}a{{color:red}}</style><p>text</p>", "@media screen{".repeat(40)),
    ] {
        let cleaned = clean(&html, Format::Html, UnclearTextPolicy::LeaveOut);
        assert!(
            cleaned.alarms.doubts.has(VisibilityIssue::Budget),
            "{} {:?}",
            &html[..60],
            cleaned.alarms
        );
    }
}

#[test]
fn structure_that_was_lost_is_kept() {
    let full = |html: &str| clean(html, Format::Html, UnclearTextPolicy::LeaveOut).text;
    for (html, text) in [
        ("<select><option>a<option selected>b<option>c</select>", "b"),
        ("<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "1/2"),
        (
            "<math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></math>",
            "(a+b)/2",
        ),
        ("<math><msup><mi>x</mi><mn>2</mn></msup></math>", "x^2"),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢(kan)"),
        ("const<span style='color:#fff'> </span>total", "const total"),
        ("<input value='typed'> <textarea rows=2>few</textarea>", "typed few"),
        (
            "<a href='https://eur01.safelinks.protection.outlook.com/?url=https%3A%2F%2Fe.com%2Fa%3Fb%3D1&data=x&reserved=0'>docs</a>",
            "[docs](https://e.com/a?b=1)",
        ),
    ] {
        assert_eq!(full(html), text, "{html}");
    }
}
