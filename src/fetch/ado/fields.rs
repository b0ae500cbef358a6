//! The values of an item's fields, decoded without building unused parts.
//!
//! Known names cost no allocation, and of an identity, which is half a kilobyte of links, only the
//! name is kept.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Fields read of every item, in addition to the configured long texts.
pub const BASIC: [&str; 18] = [
    "System.Id",
    "System.Title",
    "System.WorkItemType",
    "System.State",
    "System.ChangedDate",
    "System.CreatedDate",
    "System.TeamProject",
    "System.AreaPath",
    "System.IterationPath",
    "System.AssignedTo",
    "System.Tags",
    "System.Parent",
    "Microsoft.VSTS.Common.Priority",
    "Microsoft.VSTS.Common.Severity",
    LINKED_ITEMS,
    LINKED_DEVELOPMENT,
    LINKED_PAGES,
    ATTACHED_FILES,
];

/// Number of links to other items, the parent included.
pub const LINKED_ITEMS: &str = "System.RelatedLinkCount";

/// Number of links to commits, pull requests, builds and so on.
pub const LINKED_DEVELOPMENT: &str = "System.ExternalLinkCount";

/// Number of links to web pages.
pub const LINKED_PAGES: &str = "System.HyperLinkCount";

/// Number of attached files.
pub const ATTACHED_FILES: &str = "System.AttachedFileCount";

/// Number of comments; requested only if comments are read.
pub const COMMENT_COUNT: &str = "System.CommentCount";

/// The XML field of test cases.
pub const TEST_STEPS: &str = "Microsoft.VSTS.TCM.Steps";

/// Long texts that are HTML in every collection, so that their type needs no request.
pub const WELL_KNOWN_TEXTS: [&str; 5] = [
    "System.Description",
    "Microsoft.VSTS.TCM.ReproSteps",
    "Microsoft.VSTS.TCM.SystemInfo",
    TEST_STEPS,
    "Microsoft.VSTS.Common.AcceptanceCriteria",
];

/// Values by reference name; a field without value is absent.
#[derive(Debug, Default)]
pub struct Fields(Vec<(Cow<'static, str>, FieldValue)>);

#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue {
    /// Text, also dates.
    Text(String),
    Integer(i64),
    /// Any other number.
    Float(f64),
    Flag(bool),
    /// An identity, or a text with its format.
    Object {
        /// `displayName`, or else `uniqueName`.
        name: Option<String>,
        text: Option<String>,
    },
    /// Null, or a list.
    Nothing,
}

impl Fields {
    /// Removes and returns a value.
    pub fn take(&mut self, name: &str) -> Option<FieldValue> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of a work item")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::with_capacity(24);
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// A field name, borrowed from this program if it is a known one.
struct Name(Cow<'static, str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                let mut known = BASIC.iter().chain(&WELL_KNOWN_TEXTS);
                Ok(Name(match known.find(|known| **known == name) {
                    Some(known) => Cow::Borrowed(known),
                    None => Cow::Owned(name.to_owned()),
                }))
            }
        }
        deserializer.deserialize_str(Reader)
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueReader)
    }
}

struct ValueReader;

impl<'de> Visitor<'de> for ValueReader {
    type Value = FieldValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<FieldValue, E> {
        Ok(FieldValue::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<FieldValue, E> {
        Ok(FieldValue::Text(text))
    }

    fn visit_i64<E>(self, number: i64) -> Result<FieldValue, E> {
        Ok(FieldValue::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<FieldValue, E> {
        Ok(FieldValue::Integer(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<FieldValue, E> {
        Ok(FieldValue::Float(number))
    }

    fn visit_bool<E>(self, flag: bool) -> Result<FieldValue, E> {
        Ok(FieldValue::Flag(flag))
    }

    fn visit_unit<E>(self) -> Result<FieldValue, E> {
        Ok(FieldValue::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FieldValue, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FieldValue::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldValue, A::Error> {
        let (mut display, mut unique, mut text) = (None, None, None);
        while let Some(Part(part)) = map.next_key()? {
            let slot = match part {
                Key::Display => &mut display,
                Key::Unique => &mut unique,
                Key::Text => &mut text,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if let Self::Value::Text(value) = map.next_value()? {
                *slot = Some(value);
            }
        }
        Ok(FieldValue::Object { name: display.or(unique), text })
    }
}

enum Key {
    Display,
    Unique,
    Text,
    Other,
}

struct Part(Key);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Part, E> {
                Ok(Part(match name {
                    "displayName" => Key::Display,
                    "uniqueName" => Key::Unique,
                    "text" => Key::Text,
                    _ => Key::Other,
                }))
            }
        }
        deserializer.deserialize_str(Reader)
    }
}
