//! Budgets: cuts a text where its structure allows it, with a mark that states how much is missing.

use super::parse::floor_char_boundary;

/// Bytes reserved for the mark.
const MARK_ROOM: usize = 48;

/// Cuts `text` to about `max_bytes`. Returns it with the number of omitted bytes.
///
/// The cut is before a paragraph if one begins in the last third of what fits, else before a line,
/// else between words. An open code block is closed.
pub fn to_bytes(text: String, max_bytes: usize) -> (String, usize) {
    if text.len() <= max_bytes {
        return (text, 0);
    }
    let fits = floor_char_boundary(&text, max_bytes.saturating_sub(MARK_ROOM));
    let end = boundary(&text, fits);
    let characters = text[end..].trim_start().chars().count();
    let mut kept = text[..end].trim_end().to_owned();
    if let Some(fence) = open_fence(&kept) {
        kept.push('\n');
        kept.push_str(&fence);
    }
    if !kept.is_empty() {
        kept.push('\n');
    }
    kept.push_str(&format!("[… {characters} more characters left out]"));
    (kept, text.len() - end)
}

fn boundary(text: &str, fits: usize) -> usize {
    let head = &text[..fits];
    let paragraph = head.rfind("\n\n").filter(|&at| at >= fits - fits / 3);
    let line = || head.rfind('\n').filter(|&at| at >= fits / 2);
    let word = || head.rfind(' ').filter(|&at| at >= fits / 2);
    paragraph.or_else(line).or_else(word).unwrap_or(fits)
}

/// The fence of an open code block.
fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<String> = None;
    for line in text.lines() {
        let line = line.trim_start_matches([' ', '>']);
        let ticks = line.bytes().take_while(|&byte| byte == b'`').count();
        if ticks < 3 {
            continue;
        }
        match &open {
            Some(fence) if ticks >= fence.len() && line.len() == ticks => open = None,
            Some(_) => {}
            None => open = Some("`".repeat(ticks)),
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        assert_eq!(to_bytes("abc".into(), 3), ("abc".into(), 0));
    }

    #[test]
    fn a_cut_falls_between_lines_and_says_how_much_is_missing() {
        let text = (0..40).map(|n| format!("line number {n}")).collect::<Vec<_>>().join("\n");
        let (kept, left_out) = to_bytes(text.clone(), 200);
        assert!(kept.len() <= 200, "{}", kept.len());
        let (body, mark) = kept.rsplit_once('\n').unwrap();
        assert!(text.starts_with(body));
        assert!(text[body.len()..].starts_with('\n'));
        assert_eq!(left_out, text.len() - body.len());
        assert_eq!(mark, format!("[… {} more characters left out]", left_out - 1));
    }

    #[test]
    fn an_open_code_block_is_closed() {
        let text = format!("intro\n```\n{}```\nend", "let x = 1;\n".repeat(50));
        let (kept, _) = to_bytes(text, 200);
        assert_eq!(kept.matches("```").count(), 2, "{kept}");
    }

    #[test]
    fn tiny_budgets_and_wide_characters_are_no_trouble() {
        for max in 0..60 {
            let (kept, left_out) = to_bytes("ünï — 修复登录错误 ".repeat(9), max);
            assert!(kept.contains("left out"));
            assert!(left_out > 0);
        }
    }
}
