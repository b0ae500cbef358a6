//! Evaluates a query: which items it returns, in which order.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use super::tracker_data::{AdoData, PROJECT, Revision, Stored};
use super::wiql::{Condition, Operand, Operator, Refused, WiqlQuery, date_literal};

#[derive(Debug, Clone, Copy)]
pub struct QueryScope {
    /// `timePrecision=true` is in the address.
    pub time_precision: bool,
    /// A team is in the path.
    pub has_team: bool,
    /// The server's time.
    pub now: Timestamp,
}

/// An operand's value, ready for comparison.
enum WantedValue {
    Text(String),
    Number(i64),
    Date(Timestamp),
}

/// Ids of the matching items, in the query's order.
pub fn run(board: &AdoData, query: &WiqlQuery, scope: QueryScope) -> Result<Vec<i64>, Refused> {
    for field in query.columns.iter().chain(query.order.iter().map(|(field, _)| field)) {
        known(board, field)?;
    }
    let test = match &query.condition {
        Some(condition) => Some(prepare(board, condition, scope)?),
        None => None,
    };
    // Sort keys are looked up once per row instead of once per comparison.
    let mut found: Vec<(Vec<Option<&Stored>>, i64)> = Vec::new();
    for item in board.items.values().filter(|item| item.deleted.is_none()) {
        let Some(revision) = item.revisions.last() else { continue };
        if test.as_ref().is_none_or(|test| test.holds(revision)) {
            let key = |(field, _): &(String, bool)| revision.values.get(field.as_str());
            found.push((query.order.iter().map(key).collect(), item.id));
        }
    }
    found.sort_by(|(a, _), (b, _)| {
        let by_field = |at: usize| {
            let order = compare(a[at], b[at]);
            if query.order[at].1 { order.reverse() } else { order }
        };
        (0..query.order.len()).map(by_field).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

fn known<'a>(board: &'a AdoData, field: &str) -> Result<(&'a str, &'static str), Refused> {
    // Short names are accepted for the common fields, as in the service.
    let with_prefix = format!("System.{field}");
    board.field(field).or_else(|| board.field(&with_prefix)).ok_or_else(|| Refused {
        code: "TF51005",
        message: format!("The query references a field that does not exist. Error: «{field}»"),
    })
}

/// A condition with evaluated operands.
enum Test {
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Not(Box<Self>),
    Compare { field: String, operator: Operator, values: Vec<WantedValue> },
}

fn prepare(board: &AdoData, condition: &Condition, scope: QueryScope) -> Result<Test, Refused> {
    let boxed = |condition: &Condition| prepare(board, condition, scope).map(Box::new);
    Ok(match condition {
        Condition::And(a, b) => Test::And(boxed(a)?, boxed(b)?),
        Condition::Or(a, b) => Test::Or(boxed(a)?, boxed(b)?),
        Condition::Not(inner) => Test::Not(boxed(inner)?),
        Condition::Compare { field, operator, values } => {
            let (name, kind) = known(board, field)?;
            let wanted = |value: &Operand| resolve(value, kind, scope);
            let values = values.iter().map(wanted).collect::<Result<_, _>>()?;
            Test::Compare { field: name.to_owned(), operator: *operator, values }
        }
    })
}

fn resolve(operand: &Operand, kind: &str, scope: QueryScope) -> Result<WantedValue, Refused> {
    match operand {
        Operand::Number(number) => Ok(WantedValue::Number(*number)),
        Operand::Text(text) if kind == "dateTime" => {
            let (at, has_time) = date_literal(text).ok_or_else(|| Refused {
                code: "TF51006",
                message: format!("«{text}» is not a date"),
            })?;
            if has_time && !scope.time_precision {
                let message = format!(
                    "You cannot supply a time with the date when running a query using date \
                     precision. The error is caused by «'{text}'»."
                );
                return Err(Refused { code: "", message });
            }
            Ok(WantedValue::Date(at))
        }
        Operand::Text(text) => Ok(WantedValue::Text(text.clone())),
        Operand::Macro(name, days) => resolve_macro(name, *days, scope),
    }
}

fn resolve_macro(name: &str, days: i64, scope: QueryScope) -> Result<WantedValue, Refused> {
    let day = SignedDuration::from_hours(24);
    match name {
        "project" => Ok(WantedValue::Text(PROJECT.to_owned())),
        "me" => Ok(WantedValue::Text("Parcel Build Service".to_owned())),
        "today" => {
            let midnight = scope.now.as_second().div_euclid(86_400) * 86_400;
            let at = Timestamp::from_second(midnight).unwrap_or(scope.now);
            let shift = day.saturating_mul(i32::try_from(days).unwrap_or(0));
            Ok(WantedValue::Date(at.checked_add(shift).unwrap_or(at)))
        }
        "currentiteration" if scope.has_team => {
            Ok(WantedValue::Text(format!("{PROJECT}\\Sprint 31")))
        }
        "currentiteration" => Err(Refused {
            code: "VS402612",
            message: "The macro '@CurrentIteration' is not supported without a team context."
                .into(),
        }),
        other => Err(Refused {
            code: "TF51006",
            message: format!("The query uses an unknown macro «@{other}»"),
        }),
    }
}

impl Test {
    fn holds(&self, revision: &Revision) -> bool {
        match self {
            Self::And(a, b) => a.holds(revision) && b.holds(revision),
            Self::Or(a, b) => a.holds(revision) || b.holds(revision),
            Self::Not(inner) => !inner.holds(revision),
            Self::Compare { field, operator, values } => {
                let value = revision.values.get(field.as_str());
                values.iter().any(|wanted| matches(field, value, *operator, wanted))
            }
        }
    }
}

fn matches(field: &str, value: Option<&Stored>, operator: Operator, wanted: &WantedValue) -> bool {
    let order = value.and_then(|value| order_of(value, wanted));
    match operator {
        Operator::Equal | Operator::In => match value {
            Some(_) => order == Some(Ordering::Equal),
            None => matches!(wanted, WantedValue::Text(text) if text.is_empty()),
        },
        Operator::NotEqual => order != Some(Ordering::Equal),
        Operator::Less => order == Some(Ordering::Less),
        Operator::LessOrEqual => order.is_some_and(Ordering::is_le),
        Operator::Greater => order == Some(Ordering::Greater),
        Operator::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
        Operator::Contains => contains(field, value, wanted),
        Operator::Under => under(value, wanted),
    }
}

fn order_of(value: &Stored, wanted: &WantedValue) -> Option<Ordering> {
    match (value, wanted) {
        (Stored::Text(text), WantedValue::Text(wanted)) => {
            Some(text.to_lowercase().cmp(&wanted.to_lowercase()))
        }
        (Stored::Person(person), WantedValue::Text(wanted)) => {
            let same = wanted.eq_ignore_ascii_case(&person.name)
                || wanted.eq_ignore_ascii_case(&person.mail);
            Some(if same { Ordering::Equal } else { person.name.as_str().cmp(wanted) })
        }
        (Stored::Number(number), WantedValue::Number(wanted)) => Some(number.cmp(wanted)),
        (Stored::Number(number), WantedValue::Text(wanted)) => {
            wanted.parse().ok().map(|wanted| number.cmp(&wanted))
        }
        (Stored::Date(at), WantedValue::Date(wanted)) => Some(at.cmp(wanted)),
        _ => None,
    }
}

fn contains(field: &str, value: Option<&Stored>, wanted: &WantedValue) -> bool {
    let (Some(Stored::Text(text)), WantedValue::Text(wanted)) = (value, wanted) else {
        return false;
    };
    if field == "System.Tags" {
        return text.split(';').any(|tag| tag.trim().eq_ignore_ascii_case(wanted));
    }
    text.to_lowercase().contains(&wanted.to_lowercase())
}

fn under(value: Option<&Stored>, wanted: &WantedValue) -> bool {
    let (Some(Stored::Text(text)), WantedValue::Text(wanted)) = (value, wanted) else {
        return false;
    };
    let (text, wanted) = (text.to_lowercase(), wanted.to_lowercase());
    text == wanted || text.starts_with(&format!("{wanted}\\"))
}

fn compare(a: Option<&Stored>, b: Option<&Stored>) -> Ordering {
    match (a, b) {
        (Some(Stored::Number(a)), Some(Stored::Number(b))) => a.cmp(b),
        (Some(Stored::Date(a)), Some(Stored::Date(b))) => a.cmp(b),
        (Some(Stored::Text(a)), Some(Stored::Text(b))) => a.cmp(b),
        (Some(Stored::Person(a)), Some(Stored::Person(b))) => a.name.cmp(&b.name),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
