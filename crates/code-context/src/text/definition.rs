//! Finds definitions line by line with patterns per language family.
//!
//! A grammar per language would be exact; these patterns read every language at the speed of the
//! tokeniser, tolerate broken and incomplete code, and never recurse, so hostile nesting costs
//! nothing. What they miss (a definition spread over lines in an unusual way) is still in the index
//! as an identifier.

use crate::text::language::Language;
use crate::text::term::is_word_byte;

/// Most definitions per file.
pub(crate) const MAX_PER_FILE: usize = 400;

/// Words that start a definition: the name follows.
const INTRODUCES: &[(Language, &[&[u8]])] = &[
    (Language::C, &[b"struct", b"class", b"enum", b"union", b"namespace", b"typedef", b"concept"]),
    (
        Language::CSharp,
        &[b"class", b"interface", b"struct", b"enum", b"record", b"delegate", b"event"],
    ),
    (Language::Java, &[b"class", b"interface", b"enum", b"record", b"trait", b"object", b"def"]),
    (Language::Kotlin, &[b"class", b"interface", b"object", b"fun", b"typealias", b"val", b"var"]),
    (
        Language::Script,
        &[
            b"function",
            b"class",
            b"interface",
            b"type",
            b"enum",
            b"namespace",
            b"module",
            b"const",
            b"let",
            b"var",
        ],
    ),
    (Language::Python, &[b"def", b"class", b"cdef", b"cpdef"]),
    (Language::Go, &[b"func", b"type", b"var", b"const"]),
    (
        Language::Rust,
        &[
            b"fn",
            b"struct",
            b"enum",
            b"trait",
            b"type",
            b"mod",
            b"const",
            b"static",
            b"union",
            b"macro_rules",
        ],
    ),
    (
        Language::Swift,
        &[
            b"func",
            b"class",
            b"struct",
            b"enum",
            b"protocol",
            b"extension",
            b"actor",
            b"typealias",
            b"let",
            b"var",
        ],
    ),
    (Language::Ruby, &[b"def", b"class", b"module", b"attr_reader", b"attr_accessor"]),
    (Language::Php, &[b"function", b"class", b"interface", b"trait", b"enum"]),
    (Language::Shell, &[b"function", b"sub"]),
    (Language::Dashed, &[b"function", b"table", b"view", b"procedure", b"class", b"sub"]),
    (
        Language::Grammar,
        &[
            b"message",
            b"service",
            b"rpc",
            b"enum",
            b"class",
            b"interface",
            b"def",
            b"fn",
            b"type",
            b"let",
            b"module",
        ],
    ),
];

fn introduces(language: Language, word: &[u8]) -> bool {
    INTRODUCES.iter().any(|(spoken, words)| *spoken == language && is_one_of(word, words))
}

/// Whether the word is in the list. Called for every line, so the first letter is compared first.
fn is_one_of(word: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|known| known.first() == word.first() && *known == word)
}

/// Words that may precede a definition without naming it.
const MODIFIERS: &[&[u8]] = &[
    b"public",
    b"private",
    b"protected",
    b"internal",
    b"static",
    b"final",
    b"abstract",
    b"override",
    b"virtual",
    b"async",
    b"sealed",
    b"export",
    b"default",
    b"inline",
    b"extern",
    b"unsafe",
    b"readonly",
    b"synchronized",
    b"partial",
    b"pub",
    b"crate",
    b"open",
    b"suspend",
    b"data",
    b"declare",
    b"constexpr",
    b"explicit",
    b"friend",
    b"mutating",
    b"operator",
    b"template",
    b"new",
    b"const",
    b"required",
    b"fileprivate",
    b"lazy",
    b"companion",
    b"native",
    b"volatile",
    b"implicit",
];

/// Words that look like a call's name or a type but start a statement.
const STATEMENTS: &[&[u8]] = &[
    b"if",
    b"for",
    b"while",
    b"switch",
    b"return",
    b"throw",
    b"else",
    b"catch",
    b"await",
    b"yield",
    b"case",
    b"do",
    b"delete",
    b"typeof",
    b"sizeof",
    b"using",
    b"lock",
    b"foreach",
    b"in",
    b"is",
    b"as",
    b"not",
    b"and",
    b"or",
    b"assert",
    b"goto",
    b"defer",
    b"go",
    b"select",
    b"match",
    b"when",
    b"super",
    b"this",
    b"with",
    b"import",
    b"from",
    b"raise",
    b"print",
    b"echo",
    b"require",
    b"include",
    b"package",
    b"function",
    b"try",
    b"finally",
    b"elif",
    b"unless",
    b"until",
    b"loop",
    b"break",
    b"continue",
    b"base",
];

/// The name defined on this line, as a byte range, if there is one.
pub(crate) fn defined_name(language: Language, line: &[u8]) -> Option<std::ops::Range<usize>> {
    let indent = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    // Deeply indented or very long lines are expressions or data.
    if indent == line.len() || indent > 24 || !language.is_code() {
        return None;
    }
    let line = &line[..line.len().min(400)];
    if language == Language::C && line[indent] == b'#' {
        return macro_name(line, indent + 1);
    }
    keyword_name(language, line, indent).or_else(|| callable_name(language, line, indent))
}

fn macro_name(line: &[u8], start: usize) -> Option<std::ops::Range<usize>> {
    let (keyword, after) = word_at(line, start)?;
    if &line[keyword] != b"define" {
        return None;
    }
    word_at(line, after).map(|(name, _)| name)
}

/// The next word at or after `start`, skipping blanks, and its end.
fn word_at(line: &[u8], start: usize) -> Option<(std::ops::Range<usize>, usize)> {
    let begin =
        start + line.get(start..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let length = line.get(begin..)?.iter().take_while(|byte| is_word_byte(**byte)).count();
    (length > 0).then_some((begin..begin + length, begin + length))
}

/// `class Cart`, `pub(crate) fn total`, `func (c *Cart) Total`, `export const total =`.
fn keyword_name(language: Language, line: &[u8], indent: usize) -> Option<std::ops::Range<usize>> {
    let mut position = indent;
    for _ in 0..8 {
        if line.get(position) == Some(&b'@') {
            position += 1;
        }
        let (word, after) = word_at(line, position)?;
        let text = &line[word];
        if introduces(language, text) {
            return name_after(language, line, text, after, indent);
        }
        if !is_one_of(text, MODIFIERS) {
            return None;
        }
        position = skip_parentheses(line, after);
    }
    None
}

fn name_after(
    language: Language,
    line: &[u8],
    keyword: &[u8],
    after: usize,
    indent: usize,
) -> Option<std::ops::Range<usize>> {
    let binding = matches!(keyword, b"const" | b"let" | b"var" | b"val" | b"static");
    if binding && indent > 0 && language != Language::Rust {
        return None;
    }
    let mut position = after;
    if language == Language::Go && keyword == b"func" {
        position = skip_parentheses(line, skip_blanks(line, after));
    }
    while matches!(line.get(position), Some(b' ' | b'\t' | b'*' | b'&' | b'!' | b':' | b'<' | b'>'))
    {
        position += 1;
    }
    let (mut name, mut end) = word_at(line, position)?;
    // `def self.total`, `fun Cart.total`, `enum class Kind`, `type Cart struct`.
    while matches!(language, Language::Ruby | Language::Kotlin | Language::Swift)
        && line.get(end) == Some(&b'.')
    {
        (name, end) = word_at(line, end + 1)?;
    }
    if matches!(&line[name.clone()], b"class" | b"struct" | b"mut" | b"interface" | b"enum" | b"fn")
    {
        (name, end) = word_at(line, end)?;
    }
    // `struct cart *find(...)` in C defines the function, and `struct cart;` nothing.
    if language == Language::C
        && keyword != b"namespace"
        && (line.contains(&b'(') || line.ends_with(b";"))
    {
        return None;
    }
    let _ = end;
    (name.len() > 1).then_some(name)
}

fn skip_blanks(line: &[u8], position: usize) -> usize {
    position
        + line
            .get(position..)
            .map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count())
}

/// The position after a pair of parentheses that opens here, if one does.
fn skip_parentheses(line: &[u8], position: usize) -> usize {
    if line.get(position) != Some(&b'(') {
        return position;
    }
    line[position..]
        .iter()
        .position(|byte| *byte == b')')
        .map_or(line.len(), |offset| position + offset + 1)
}

/// `public async Task<int> Total(`, `static int total(`, `total(items) {`, `total = (items) =>`.
fn callable_name(language: Language, line: &[u8], indent: usize) -> Option<std::ops::Range<usize>> {
    let typed = matches!(language, Language::C | Language::CSharp | Language::Java);
    if !(typed || language == Language::Script) {
        return None;
    }
    if language == Language::Script {
        return script_method(line, indent);
    }
    let open = line.iter().position(|byte| *byte == b'(');
    let end_of_head = open.unwrap_or(line.len());
    let head = &line[indent..end_of_head];
    if head.iter().any(|byte| {
        matches!(byte, b'=' | b'"' | b'\'' | b';' | b'+' | b'/' | b'|' | b'%' | b'{' | b'}')
            || (*byte == b'.' && language == Language::C)
    }) {
        return property_name(language, line, indent);
    }
    open?;
    let end = indent + head.iter().rposition(|byte| is_word_byte(*byte))? + 1;
    // A generic method: the name is before the angle bracket.
    let end = if head.ends_with(b">") {
        indent + head.iter().position(|byte| *byte == b'<')?
    } else {
        end
    };
    let start = line[..end]
        .iter()
        .rposition(|byte| !is_word_byte(*byte))
        .map_or(0, |at| at + 1)
        .max(indent);
    let before = line[indent..start].trim_ascii_end();
    let (first, _) = word_at(line, indent)?;
    let plain_call = before.is_empty()
        || before.ends_with(b".")
        || before.ends_with(b"->")
        || before.ends_with(b"(")
        || before.ends_with(b",");
    if start >= end
        || is_one_of(&line[start..end], STATEMENTS)
        || is_one_of(&line[first.clone()], STATEMENTS)
        || &line[first] == b"new"
    {
        return None;
    }
    // C functions may start in the first column after their type's line; `Cart::total(` has no
    // type.
    let qualified = language == Language::C && before.ends_with(b"::") && indent == 0;
    if (plain_call && !(language == Language::C && indent == 0 && !line.ends_with(b";")))
        && !qualified
    {
        return None;
    }
    (end - start > 1 && !line[start].is_ascii_digit()).then_some(start..end)
}

/// `public int Total { get; }`, `public const string Name = "…"`, `private readonly Cart _cart;`.
fn property_name(language: Language, line: &[u8], indent: usize) -> Option<std::ops::Range<usize>> {
    let (first, _) = word_at(line, indent)?;
    if !is_one_of(&line[first], MODIFIERS) || language == Language::C {
        return None;
    }
    let stop = line.iter().position(|byte| matches!(byte, b'=' | b'{' | b';'))?;
    let end = line[..stop].iter().rposition(|byte| is_word_byte(*byte))? + 1;
    let start = line[..end]
        .iter()
        .rposition(|byte| !is_word_byte(*byte))
        .map_or(0, |at| at + 1)
        .max(indent);
    (end - start > 1).then_some(start..end)
}

/// `total(items) {` and `total = (items) => {` inside a class or an object.
fn script_method(line: &[u8], indent: usize) -> Option<std::ops::Range<usize>> {
    let mut position = indent;
    let (mut name, mut end) = word_at(line, position)?;
    while is_one_of(&line[name.clone()], MODIFIERS)
        || matches!(&line[name.clone()], b"get" | b"set")
    {
        position = end;
        match word_at(line, position) {
            Some(next) => (name, end) = next,
            None => break,
        }
    }
    if is_one_of(&line[name.clone()], STATEMENTS) {
        return None;
    }
    let rest = line[end..].trim_ascii();
    let method = rest.starts_with(b"(")
        && rest.ends_with(b"{")
        && !rest.windows(2).any(|pair| pair == b"=>");
    let arrow = (rest.starts_with(b"=") || rest.starts_with(b":"))
        && (rest.windows(2).any(|pair| pair == b"=>")
            || rest.windows(8).any(|word| word == b"function"));
    ((method || arrow) && name.len() > 1 && indent <= 8).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(language: Language, line: &str) -> &str {
        defined_name(language, line.as_bytes()).map_or("", |range| &line[range])
    }

    #[test]
    fn each_language_names_its_definitions() {
        for (language, line, expected) in [
            (Language::Python, "    def total(self):", "total"),
            (Language::Python, "class Cart(Base):", "Cart"),
            (Language::Python, "    async def fetch(self):", "fetch"),
            (Language::Rust, "pub(crate) fn total<T>(x: T) {", "total"),
            (Language::Rust, "    pub struct Cart {", "Cart"),
            (Language::Rust, "macro_rules! cart {", "cart"),
            (Language::Go, "func (c *Cart) Total(x int) int {", "Total"),
            (Language::Go, "func Total() {", "Total"),
            (Language::Go, "type Cart struct {", "Cart"),
            (Language::Script, "export default function total(x) {", "total"),
            (Language::Script, "export const total = (x) => x;", "total"),
            (Language::Script, "  render(props) {", "render"),
            (Language::Script, "  onClick = (event) => {", "onClick"),
            (Language::Script, "export interface Cart {", "Cart"),
            (Language::Java, "    public static <T> List<T> total(T x) {", "total"),
            (Language::Java, "public final class Cart extends Base {", "Cart"),
            (Language::Java, "    int total(int x) {", "total"),
            (Language::CSharp, "    public async Task<int> TotalAsync(int x)", "TotalAsync"),
            (Language::CSharp, "    public int Total { get; set; }", "Total"),
            (Language::CSharp, "    public T Get<T>(string key)", "Get"),
            (Language::CSharp, "internal sealed record Cart(int X);", "Cart"),
            (Language::C, "static int cart_total(cart *c) {", "cart_total"),
            (Language::C, "void Cart::total(int x) {", "total"),
            (Language::C, "#define CART_MAX 10", "CART_MAX"),
            (Language::C, "struct cart {", "cart"),
            (Language::Swift, "    public func total(x: Int) -> Int {", "total"),
            (Language::Kotlin, "    override fun total(x: Int): Int {", "total"),
            (Language::Kotlin, "data class Cart(val x: Int)", "Cart"),
            (Language::Ruby, "  def self.total(x)", "total"),
            (Language::Ruby, "module Shop", "Shop"),
            (Language::Php, "    public function total($x)", "total"),
        ] {
            assert_eq!(name(language, line), expected, "{line}");
        }
    }

    #[test]
    fn statements_define_nothing() {
        for (language, line) in [
            (Language::Java, "        return total(x);"),
            (Language::Java, "        total(x);"),
            (Language::CSharp, "        if (total(x)) {"),
            (Language::CSharp, "        var x = Total(y);"),
            (Language::C, "    cart_total(c);"),
            (Language::Script, "    if (x) {"),
            (Language::Script, "    total(x);"),
            (Language::Python, "    total(x)"),
            (Language::Prose, "class of its own"),
        ] {
            assert_eq!(name(language, line), "", "{line}");
        }
    }

    const PATHS: [&str; 14] = [
        "a.c", "a.cs", "a.java", "a.kt", "a.ts", "a.py", "a.go", "a.rs", "a.swift", "a.rb",
        "a.php", "a.sh", "a.sql", "a.proto",
    ];

    proptest::proptest! {
        #[test]
        fn any_line_is_survived(line in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120), code in 0..PATHS.len()) {
            if let Some(range) = defined_name(Language::of_path(PATHS[code]), &line) {
                assert!(range.end <= line.len() && !range.is_empty());
            }
        }
    }
}
