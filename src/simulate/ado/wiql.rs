//! Parses the tracker's query language into a condition and an order.

use jiff::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct WiqlQuery {
    /// Columns after SELECT.
    pub columns: Vec<String>,
    /// WHERE; `None` matches everything.
    pub condition: Option<Condition>,
    /// ORDER BY: field, descending.
    pub order: Vec<(String, bool)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
    Compare {
        /// Reference name.
        field: String,
        operator: Operator,
        /// Several for IN.
        values: Vec<Operand>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]

pub enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Contains,
    Under,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// Dates are strings until they are compared with a date field.
    Text(String),
    Number(i64),
    /// `@project`, `@me`, `@today - 7`, …
    Macro(String, i64),
}

/// Why a query is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Such as `TF51006`.
    pub code: &'static str,
    pub message: String,
}

fn refused(message: impl Into<String>) -> Refused {
    Refused { code: "TF51006", message: message.into() }
}

#[derive(Debug, Clone, PartialEq)]
enum WiqlToken {
    Field(String),
    Text(String),
    Number(i64),
    Macro(String),
    Word(String),
    Sign(&'static str),
}

fn tokens(text: &str) -> Result<Vec<WiqlToken>, Refused> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '[' => bracketed(rest)?,
            '\'' | '"' => quoted(rest, first)?,
            '@' => named(&rest[1..], 1, WiqlToken::Macro),
            '0'..='9' => {
                let length = rest.chars().take_while(char::is_ascii_digit).count();
                let number = rest[..length].parse();
                (WiqlToken::Number(number.map_err(|_| refused("number too long"))?), length)
            }
            c if c.is_alphabetic() => named(rest, 0, WiqlToken::Word),
            _ => sign(rest)?,
        };
        out.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(out)
}

fn bracketed(rest: &str) -> Result<(WiqlToken, usize), Refused> {
    let end = rest.find(']').ok_or_else(|| refused("a field name is not closed"))?;
    Ok((WiqlToken::Field(rest[1..end].to_owned()), end + 1))
}

fn quoted(rest: &str, quote: char) -> Result<(WiqlToken, usize), Refused> {
    let mut value = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        if c != quote {
            value.push(c);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return Ok((WiqlToken::Text(value), at + 1));
        }
    }
    Err(refused("a string is not closed"))
}

fn named(rest: &str, before: usize, make: fn(String) -> WiqlToken) -> (WiqlToken, usize) {
    let length: usize = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || "._".contains(*c))
        .map(char::len_utf8)
        .sum();
    (make(rest[..length].to_ascii_lowercase()), length + before)
}

fn sign(rest: &str) -> Result<(WiqlToken, usize), Refused> {
    const SIGNS: [&str; 11] = ["<>", "<=", ">=", "<", ">", "=", "(", ")", ",", "-", "+"];
    let found = SIGNS.iter().find(|sign| rest.starts_with(**sign));
    let sign = found.ok_or_else(|| refused(format!("unexpected {:?}", rest.chars().next())))?;
    Ok((WiqlToken::Sign(sign), sign.len()))
}

/// Parses a flat query.
pub fn parse(text: &str) -> Result<WiqlQuery, Refused> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let query = parser.query()?;
    match parser.peek() {
        None => Ok(query),
        Some(token) => Err(refused(format!("unexpected {token:?}"))),
    }
}

struct Parser {
    tokens: Vec<WiqlToken>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&WiqlToken> {
        self.tokens.get(self.at)
    }

    fn take(&mut self) -> Option<WiqlToken> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(WiqlToken::Word(next)) if next == word);
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(WiqlToken::Sign(next)) if *next == sign);
        self.at += usize::from(found);
        found
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Refused> {
        if self.word(word) { Ok(()) } else { Err(refused(format!("expected {word}"))) }
    }

    fn query(&mut self) -> Result<WiqlQuery, Refused> {
        self.expect_word("select")?;
        let columns = self.list_of_fields()?;
        self.expect_word("from")?;
        self.expect_word("workitems")?;
        let condition = if self.word("where") { Some(self.any()?) } else { None };
        let mut order = Vec::new();
        if self.word("order") {
            self.expect_word("by")?;
            loop {
                let field = self.field()?;
                let descending = self.word("desc");
                if !descending {
                    self.word("asc");
                }
                order.push((field, descending));
                if !self.sign(",") {
                    break;
                }
            }
        }
        if self.word("asof") {
            self.operand()?;
        }
        Ok(WiqlQuery { columns, condition, order })
    }

    fn list_of_fields(&mut self) -> Result<Vec<String>, Refused> {
        let mut fields = vec![self.field()?];
        while self.sign(",") {
            fields.push(self.field()?);
        }
        Ok(fields)
    }

    fn field(&mut self) -> Result<String, Refused> {
        match self.take() {
            Some(WiqlToken::Field(name)) => Ok(name),
            Some(WiqlToken::Word(name)) if name.contains('.') => Ok(name),
            other => Err(refused(format!("expected a field, found {other:?}"))),
        }
    }

    fn any(&mut self) -> Result<Condition, Refused> {
        let mut left = self.all()?;
        while self.word("or") {
            left = Condition::Or(Box::new(left), Box::new(self.all()?));
        }
        Ok(left)
    }

    fn all(&mut self) -> Result<Condition, Refused> {
        let mut left = self.one()?;
        while self.word("and") {
            left = Condition::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Condition, Refused> {
        if self.word("not") {
            return Ok(Condition::Not(Box::new(self.one()?)));
        }
        if self.sign("(") {
            let inner = self.any()?;
            return if self.sign(")") { Ok(inner) } else { Err(refused("expected )")) };
        }
        let field = self.field()?;
        let negated = self.word("not");
        let operator = self.operator()?;
        let values =
            if operator == Operator::In { self.operands()? } else { vec![self.operand()?] };
        let compare = Condition::Compare { field, operator, values };
        Ok(if negated { Condition::Not(Box::new(compare)) } else { compare })
    }

    fn operator(&mut self) -> Result<Operator, Refused> {
        match self.take() {
            Some(WiqlToken::Sign("=")) => Ok(Operator::Equal),
            Some(WiqlToken::Sign("<>")) => Ok(Operator::NotEqual),
            Some(WiqlToken::Sign("<")) => Ok(Operator::Less),
            Some(WiqlToken::Sign("<=")) => Ok(Operator::LessOrEqual),
            Some(WiqlToken::Sign(">")) => Ok(Operator::Greater),
            Some(WiqlToken::Sign(">=")) => Ok(Operator::GreaterOrEqual),
            Some(WiqlToken::Word(word)) if word == "in" => Ok(Operator::In),
            Some(WiqlToken::Word(word)) if word == "contains" => {
                self.word("words");
                Ok(Operator::Contains)
            }
            Some(WiqlToken::Word(word)) if word == "under" => Ok(Operator::Under),
            other => Err(refused(format!("expected an operator, found {other:?}"))),
        }
    }

    fn operands(&mut self) -> Result<Vec<Operand>, Refused> {
        if !self.sign("(") {
            return Err(refused("expected ( after IN"));
        }
        let mut values = vec![self.operand()?];
        while self.sign(",") {
            values.push(self.operand()?);
        }
        if self.sign(")") { Ok(values) } else { Err(refused("expected ) after IN")) }
    }

    fn operand(&mut self) -> Result<Operand, Refused> {
        match self.take() {
            Some(WiqlToken::Text(text)) => Ok(Operand::Text(text)),
            Some(WiqlToken::Number(number)) => Ok(Operand::Number(number)),
            Some(WiqlToken::Sign("-")) => match self.take() {
                Some(WiqlToken::Number(number)) => Ok(Operand::Number(-number)),
                other => Err(refused(format!("expected a number, found {other:?}"))),
            },
            Some(WiqlToken::Macro(name)) => {
                let sign = if self.sign("-") { -1 } else { i64::from(self.sign("+")) };
                match (sign, self.peek()) {
                    (0, _) => Ok(Operand::Macro(name, 0)),
                    (_, Some(WiqlToken::Number(days))) => {
                        let days = sign * days;
                        self.at += 1;
                        Ok(Operand::Macro(name, days))
                    }
                    (_, other) => Err(refused(format!("expected days, found {other:?}"))),
                }
            }
            other => Err(refused(format!("expected a value, found {other:?}"))),
        }
    }
}

/// A date literal: the instant, and whether it has a time of day.
pub fn date_literal(text: &str) -> Option<(Timestamp, bool)> {
    let text = text.trim();
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && !text.contains('T')
        && !text.contains(':')
    {
        return date.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| (zoned.timestamp(), false));
    }
    let instant = text.parse().ok().or_else(|| format!("{text}Z").parse().ok());
    instant.map(|instant| (instant, true))
}
