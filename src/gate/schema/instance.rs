//! Lets the JSON Schema validator walk our documents as they are.
//!
//! Never builds a tree of its own while checking, and never shows a value to an error.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object};
use serde_json::Value as Tree;

use crate::gate::json::{Entries, Items, Kind, Number, Value};

use super::lower::{lower, number};

/// How much of a string one look covers: patterns and lengths read all of it, each time.
const BYTES_PER_LOOK: u64 = 16;

/// Largest value that is copied into an error, in nodes.
const COPIED_NODES_MAX: usize = 64;

/// Our documents, as a representation of JSON.
#[derive(Debug)]
pub(super) struct Exact;

/// How many looks at values a check may still take.
///
/// The compiler's own bounds do not hold for every schema: unions that recurse can ask for a number
/// of looks that doubles with each level. When none are left, every value looks like `null`, the
/// validator comes to its end at once, and its answer is thrown away.
#[derive(Debug)]
pub(super) struct Looks(AtomicU64);

impl Looks {
    pub(super) fn new(most: u64) -> Self {
        Looks(AtomicU64::new(most))
    }

    pub(super) fn are_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes that many looks. Only one thread checks, so the two steps need not be one.
    #[inline]
    fn take(&self, count: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(count), Ordering::Relaxed);
        left > 0
    }
}

/// A value of a document, or the name of a property on its own.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instance<'a> {
    Value(Value<'a>, &'a Looks),
    Name(&'a str),
}

#[derive(Debug)]
pub(super) struct ObjectInstance<'a>(Value<'a>, &'a Looks);
#[derive(Debug)]
pub(super) struct ArrayInstance<'a>(Value<'a>, &'a Looks);
#[derive(Debug)]
pub(super) struct NumberInstance<'a>(Number<'a>);
#[derive(Debug)]
pub(super) struct Members<'a>(Entries<'a>, &'a Looks);
#[derive(Debug)]
pub(super) struct Elements<'a>(Items<'a>, &'a Looks);

impl Json for Exact {
    type Node<'a> = Instance<'a>;
    type PreparedKey = Box<str>;
    type StringBuffer = ();

    const ACYCLIC: bool = true;

    fn prepare_key(key: &str) -> Box<str> {
        key.into()
    }

    fn with_string_node<T>(_: &mut (), name: &str, then: impl FnOnce(Instance<'_>) -> T) -> T {
        then(Instance::Name(name))
    }
}

impl<'a> Instance<'a> {
    #[inline]
    fn kind(&self) -> Kind {
        match self {
            Instance::Value(value, looks) if looks.take(1) => value.kind(),
            Instance::Value(..) => Kind::Null,
            Instance::Name(_) => Kind::String,
        }
    }

    #[inline]
    fn container(&self, kind: Kind) -> Option<(Value<'a>, &'a Looks)> {
        match self {
            Instance::Value(value, looks) if self.kind() == kind => Some((*value, *looks)),
            Instance::Value(..) | Instance::Name(_) => None,
        }
    }

    #[inline]
    fn string(&self) -> Option<&'a str> {
        match self {
            Instance::Value(value, looks) => {
                let string = value.as_str()?;
                looks.take(string.len() as u64 / BYTES_PER_LOOK);
                Some(string)
            }
            Instance::Name(name) => Some(name),
        }
    }
}

impl<'a> Node<'a, Exact> for Instance<'a> {
    type Object = ObjectInstance<'a>;
    type Array = ArrayInstance<'a>;
    type Number = NumberInstance<'a>;

    #[inline]
    fn as_object(&self) -> Option<ObjectInstance<'a>> {
        let (value, looks) = self.container(Kind::Object)?;
        Some(ObjectInstance(value, looks))
    }

    #[inline]
    fn as_array(&self) -> Option<ArrayInstance<'a>> {
        let (value, looks) = self.container(Kind::Array)?;
        Some(ArrayInstance(value, looks))
    }

    #[inline]
    fn as_string(&self) -> Option<Cow<'a, str>> {
        self.string().map(Cow::Borrowed)
    }

    #[inline]
    fn as_number(&self) -> Option<NumberInstance<'a>> {
        match self {
            Instance::Value(value, _) => value.as_number().map(NumberInstance),
            Instance::Name(_) => None,
        }
    }

    #[inline]
    fn is_number(&self) -> bool {
        self.json_type() == JsonType::Number
    }

    #[inline]
    fn as_boolean(&self) -> Option<bool> {
        match self {
            Instance::Value(value, _) => value.as_bool(),
            Instance::Name(_) => None,
        }
    }

    #[inline]
    fn is_null(&self) -> bool {
        self.json_type() == JsonType::Null
    }

    #[inline]
    fn json_type(&self) -> JsonType {
        match self.kind() {
            Kind::Null => JsonType::Null,
            Kind::Boolean => JsonType::Boolean,
            Kind::Number => JsonType::Number,
            Kind::String => JsonType::String,
            Kind::Array => JsonType::Array,
            Kind::Object => JsonType::Object,
        }
    }

    fn string_length_within(&self, min: u64, max: u64) -> Option<bool> {
        let string = self.string()?;
        // A character takes one to four bytes, which often decides without counting.
        let bytes = string.len() as u64;
        if bytes < min || bytes.div_ceil(4) > max {
            return Some(false);
        }
        if min <= bytes.div_ceil(4) && bytes <= max {
            return Some(true);
        }
        Some((min..=max).contains(&(string.chars().count() as u64)))
    }

    fn equals_value(&self, expected: &Tree) -> bool {
        match self {
            Instance::Value(value, _) => equals(*value, expected),
            Instance::Name(name) => expected.as_str() == Some(name),
        }
    }

    /// Only errors ask for this, and ours are made of paths and rules; so a large value is not
    /// copied for each branch of a union that it fails.
    fn to_value(&self) -> Cow<'a, Tree> {
        Cow::Owned(match self {
            Instance::Value(value, _) if value.nodes() > COPIED_NODES_MAX => Tree::Null,
            Instance::Value(value, _) => lower(*value),
            Instance::Name(name) => Tree::String((*name).to_owned()),
        })
    }

    #[inline]
    fn identity(&self) -> Option<NodeIdentity> {
        match self {
            Instance::Value(value, _) => {
                let (document, index) = value.identity();
                Some(NodeIdentity::tagged(document, index))
            }
            Instance::Name(_) => None,
        }
    }
}

impl<'a> Object<'a, Exact> for ObjectInstance<'a> {
    type Node = Instance<'a>;
    type MemberName = &'a str;
    type MembersIter = Members<'a>;

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn get(&self, key: &Box<str>) -> Option<Instance<'a>> {
        let value = self.0.get(key)?;
        Some(Instance::Value(value, self.1))
    }

    #[inline]
    fn members(&self) -> Members<'a> {
        Members(self.0.entries(), self.1)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, Instance<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.0.next()?;
        Some((entry.key(), Instance::Value(entry.value(), self.1)))
    }
}

impl<'a> Array<'a, Exact> for ArrayInstance<'a> {
    type Node = Instance<'a>;
    type ElementsIter = Elements<'a>;

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn elements(&self) -> Elements<'a> {
        Elements(self.0.items(), self.1)
    }

    /// Equal values are those with one signature form: exact, and never quadratic.
    fn is_unique(&self) -> bool {
        self.1.take(self.0.nodes() as u64);
        let mut seen = BTreeSet::new();
        self.0
            .items()
            .all(|item| seen.insert(item.signature_form()))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Instance<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let item = self.0.next()?;
        Some(Instance::Value(item, self.1))
    }
}

impl JsonNumber for NumberInstance<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.as_u64()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.as_i64()
    }

    fn as_f64(&self) -> Option<f64> {
        Some(self.0.as_f64())
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0.token())
    }

    fn to_number(&self) -> Cow<'_, serde_json::Number> {
        Cow::Owned(number(self.0))
    }

    fn is_integer(&self) -> bool {
        self.0.is_integral()
    }

    fn is_written_as_integer(&self) -> bool {
        !self.0.token().contains(['.', 'e', 'E'])
    }
}

/// Equality as JSON Schema has it, numbers by exact value.
fn equals(value: Value<'_>, expected: &Tree) -> bool {
    match expected {
        Tree::Null => value.kind() == Kind::Null,
        Tree::Bool(expected) => value.as_bool() == Some(*expected),
        Tree::String(expected) => value.as_str() == Some(expected),
        Tree::Number(expected) => {
            let token = expected.to_string();
            value.as_number() == Some(Number::new(&token))
        }
        Tree::Array(expected) => {
            value.kind() == Kind::Array
                && value.len() == expected.len()
                && value
                    .items()
                    .zip(expected)
                    .all(|(item, expected)| equals(item, expected))
        }
        Tree::Object(expected) => {
            value.kind() == Kind::Object
                && value.len() == expected.len()
                && value.entries().all(|entry| {
                    expected
                        .get(entry.key())
                        .is_some_and(|it| equals(entry.value(), it))
                })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::json::{Document, JsonLimits};

    #[test]
    fn documents_keep_the_contract_of_a_json_representation() {
        use jsonschema::json::conformance;
        let text = serde_json::to_vec(&conformance::document()).unwrap_or_default();
        let document = Document::parse(&text.into(), &JsonLimits::default());
        let document = document.ok();
        let looks = Looks::new(1_000);
        let root = document
            .as_ref()
            .map(|it| Instance::Value(it.root(), &looks));
        assert!(root.is_some_and(|root| {
            conformance::assert_conformance::<Exact>(&root);
            true
        }));
    }
}
