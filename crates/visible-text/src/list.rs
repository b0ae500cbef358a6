//! Lists: the marker of each item.

/// How the items of a list are marked. Only elements and attributes decide: editors add
/// `list-style` everywhere, and other text refers to the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListStyle {
    /// A symbol.
    Bullet,
    /// 1 2 3
    Decimal,
    /// a b c
    LowerAlpha,
    /// A B C
    UpperAlpha,
    /// i ii iii
    LowerRoman,
    /// I II III
    UpperRoman,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    style: ListStyle,
    /// Number of the next item.
    next: i64,
    step: i64,
    /// Number of open items: one, or zero between items.
    pub(super) open_items: usize,
}

impl List {
    /// A list with symbols.
    pub(super) fn bullets() -> Self {
        Self { style: ListStyle::Bullet, next: 1, step: 1, open_items: 0 }
    }

    /// A numbered list by its attributes.
    pub(super) fn numbered(
        kind: Option<&str>,
        start: Option<i64>,
        count_down_from: Option<i64>,
    ) -> Self {
        let style = kind.and_then(style_of_type).unwrap_or(ListStyle::Decimal);
        match count_down_from {
            Some(items) => Self { style, next: start.unwrap_or(items), step: -1, open_items: 0 },
            None => Self { style, next: start.unwrap_or(1), step: 1, open_items: 0 },
        }
    }

    /// The marker of the next item, which may set its own number and style.
    pub(super) fn marker(&mut self, value: Option<i64>, style: Option<ListStyle>) -> String {
        let number = value.unwrap_or(self.next);
        self.next = number.saturating_add(self.step);
        match style.unwrap_or(self.style) {
            ListStyle::Bullet => "- ".to_owned(),
            ListStyle::Decimal => format!("{number}. "),
            ListStyle::LowerAlpha => format!("{}. ", letters(number)),
            ListStyle::UpperAlpha => format!("{}. ", letters(number).to_ascii_uppercase()),
            ListStyle::LowerRoman => format!("{}. ", roman(number)),
            ListStyle::UpperRoman => format!("{}. ", roman(number).to_ascii_uppercase()),
        }
    }

    /// The indent of a list between the items of this one.
    pub(super) fn indent_outside_items(&self) -> Option<&'static str> {
        let indent = if self.style == ListStyle::Bullet { "  " } else { "   " };
        (self.open_items == 0).then_some(indent)
    }
}

/// The `type` attribute of a list or an item; the case of the letter matters.
pub(super) fn style_of_type(kind: &str) -> Option<ListStyle> {
    Some(match kind.trim() {
        "1" => ListStyle::Decimal,
        "a" => ListStyle::LowerAlpha,
        "A" => ListStyle::UpperAlpha,
        "i" => ListStyle::LowerRoman,
        "I" => ListStyle::UpperRoman,
        other if ["disc", "circle", "square"].iter().any(|b| other.eq_ignore_ascii_case(b)) => {
            ListStyle::Bullet
        }
        _ => return None,
    })
}

fn letters(number: i64) -> String {
    let Ok(mut left) = u32::try_from(number) else { return number.to_string() };
    if left == 0 {
        return number.to_string();
    }
    let mut reversed = Vec::new();
    while left > 0 {
        left -= 1;
        reversed.push(char::from_digit(left % 26 + 10, 36).unwrap_or('a'));
        left /= 26;
    }
    reversed.into_iter().rev().collect()
}

fn roman(number: i64) -> String {
    const PARTS: &[(i64, &str)] = &[
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    if !(1..4000).contains(&number) {
        return number.to_string();
    }
    let mut left = number;
    let mut text = String::new();
    for &(value, sign) in PARTS {
        while left >= value {
            text.push_str(sign);
            left -= value;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_every_style() {
        let markers = |kind: &str, start: i64| {
            let mut list = List::numbered(Some(kind), Some(start), None);
            format!("{}{}", list.marker(None, None), list.marker(None, None))
        };
        assert_eq!(markers("1", 9), "9. 10. ");
        assert_eq!(markers("a", 26), "z. aa. ");
        assert_eq!(markers("A", 1), "A. B. ");
        assert_eq!(markers("i", 3), "iii. iv. ");
        assert_eq!(markers("I", 1999), "MCMXCIX. MM. ");
        assert_eq!(markers("a", -1), "-1. 0. ");
    }

    #[test]
    fn an_item_can_set_the_number_and_a_list_can_count_down() {
        let mut list = List::numbered(None, Some(5), None);
        assert_eq!(list.marker(Some(9), None), "9. ");
        assert_eq!(list.marker(None, None), "10. ");
        let mut down = List::numbered(None, None, Some(2));
        assert_eq!(
            (down.marker(None, None), down.marker(None, None)),
            ("2. ".into(), "1. ".into())
        );
        let mut huge = List::numbered(None, Some(i64::MAX), None);
        huge.marker(None, None);
        assert_eq!(huge.marker(None, None), format!("{}. ", i64::MAX));
    }
}
