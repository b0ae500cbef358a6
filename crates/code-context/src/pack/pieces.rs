//! Splits a file into parts that can be read separately: complete functions, the heads of types,
//! and the rest between them. Pure.

use std::ops::Range;

use crate::text::document::Definition;

/// A longer part is split.
const MAX_LEN: usize = 90;
/// Lines of each split part.
const PART: usize = 30;
/// Comments and attributes above a definition that belong to it.
const ABOVE: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// From zero.
    pub lines: Range<usize>,
    /// The line that names the enclosing definition, if the part does not begin with it.
    pub head: Option<usize>,
}

/// The parts of a file, in order; together they are the whole file.
pub(crate) fn pieces(lines: &[&str], definitions: &[Definition]) -> Vec<Piece> {
    let mut starts: Vec<(usize, usize)> = definitions
        .iter()
        .map(|definition| (definition.line as usize).saturating_sub(1))
        .filter(|line| *line < lines.len())
        .map(|line| (first_above(lines, line), line))
        .collect();
    starts.sort_unstable();
    starts.dedup_by_key(|(_, line)| *line);
    let mut pieces = Vec::new();
    let mut at = 0;
    for (number, (start, line)) in starts.iter().enumerate() {
        let start = (*start).max(at);
        add(&mut pieces, at..start, None);
        let next = starts.get(number + 1).map_or(lines.len(), |(start, _)| *start);
        let end = end_of(lines, *line).min(next.max(line + 1));
        add(&mut pieces, start..end, Some(*line));
        at = end.max(start);
    }
    add(&mut pieces, at..lines.len(), None);
    pieces
}

/// The definition at `line` with what belongs above it, however long it is.
pub(crate) fn whole_definition(lines: &[&str], line: usize) -> Option<Piece> {
    (line < lines.len())
        .then(|| Piece { lines: first_above(lines, line)..end_of(lines, line), head: None })
}

/// Adds a part; a long one is split into parts that name their definition.
fn add(pieces: &mut Vec<Piece>, lines: Range<usize>, head: Option<usize>) {
    if lines.is_empty() {
        return;
    }
    if lines.len() <= MAX_LEN {
        pieces.push(Piece { lines, head: None });
        return;
    }
    let mut start = lines.start;
    while start < lines.end {
        let end = if lines.end - start < PART * 3 / 2 { lines.end } else { start + PART };
        let inside = head.filter(|head| *head < start);
        pieces.push(Piece { lines: start..end, head: inside });
        start = end;
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Start of the comments and attributes above a definition.
fn first_above(lines: &[&str], line: usize) -> usize {
    const MARKS: &[&str] = &["//", "#", "*", "/*", "@", "[", "--", "\"\"\"", "'''", ";"];
    let depth = indent(lines[line]);
    let belongs = |at: usize| {
        let text = lines[at].trim_start();
        !text.is_empty()
            && indent(lines[at]) + 1 >= depth
            && MARKS.iter().any(|m| text.starts_with(m))
    };
    let mut first = line;
    while first > 0 && line - first < ABOVE && belongs(first - 1) {
        first -= 1;
    }
    first
}

/// The line after the definition at `line`: the first one that is not indented deeper, after its
/// closing line.
fn end_of(lines: &[&str], line: usize) -> usize {
    let depth = indent(lines[line]);
    let mut last = line;
    for (at, text) in lines.iter().enumerate().skip(line + 1) {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') && !trimmed.starts_with("#[") {
            continue;
        }
        if indent(text) > depth {
            last = at;
            continue;
        }
        let closes = trimmed.starts_with(['}', ')', ']']) || matches!(trimmed, "end" | "end;");
        let goes_on = trimmed.starts_with(['{', ':', '=', '?']) || trimmed.starts_with("where");
        if indent(text) == depth && goes_on && last < line + 8 {
            last = at;
            continue;
        }
        if closes && indent(text) == depth {
            last = at;
            // `) {` and `} else {` close one block and open another.
            if trimmed.ends_with('{') || trimmed.ends_with(':') || trimmed.ends_with("=>") {
                continue;
            }
        }
        break;
    }
    last + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, definitions: &[u32]) -> Vec<Range<usize>> {
        let lines: Vec<&str> = text.lines().collect();
        let definitions: Vec<Definition> =
            definitions.iter().map(|line| Definition { line: *line, name: "x".into() }).collect();
        pieces(&lines, &definitions).into_iter().map(|piece| piece.lines).collect()
    }

    #[test]
    fn functions_are_complete_with_what_stands_above_them() {
        let text = "use a;\n\n/// Doc.\nfn one() {\n    x();\n}\n\nfn two(\n    a: u8,\n) -> u8 {\n    a\n}\nlast\n";
        assert_eq!(of(text, &[4, 8]), [0..2, 2..6, 6..7, 7..12, 12..13]);
    }

    #[test]
    fn python_ends_with_its_indentation_and_a_class_keeps_its_head() {
        let text = "class A:\n    x = 1\n\n    @p\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n\nz = 3\n";
        assert_eq!(of(text, &[1, 5, 8]), [0..3, 3..6, 6..7, 7..9, 9..11]);
    }

    #[test]
    fn a_brace_on_its_own_line_belongs_to_the_function() {
        let text = "class A\n{\n    void F()\n    {\n        x();\n    }\n}\n";
        assert_eq!(of(text, &[1, 3]), [0..2, 2..6, 6..7]);
    }

    #[test]
    fn a_long_function_comes_in_parts_that_name_it() {
        let text = format!("fn long() {{\n{}}}\n", "    x();\n".repeat(200));
        let lines: Vec<&str> = text.lines().collect();
        let all = pieces(&lines, &[Definition { line: 1, name: "long".into() }]);
        assert!(all.len() > 3 && all[0].head.is_none());
        assert!(all[1..].iter().all(|piece| piece.head == Some(0)));
    }

    proptest::proptest! {
        #[test]
        fn every_line_is_in_exactly_one_piece(
            text in "([ ]{0,8}[a-z}{)#@/:]{0,6}\n){0,160}",
            definitions in proptest::collection::vec(1u32..170, 0..12),
        ) {
            let count = text.lines().count();
            let mut at = 0;
            for range in of(&text, &definitions) {
                assert_eq!(range.start, at);
                assert!(range.end > range.start);
                at = range.end;
            }
            assert_eq!(at, count);
        }
    }
}
