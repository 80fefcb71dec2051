//! Resolves references inside one document, and bounds what can apply to one value.
//!
//! Never fetches anything: what is not in the document does not exist.

use std::collections::BTreeMap;

use crate::gate::json::path;
use crate::gate::json::{Document, Kind};

use super::error::SchemaError;
use super::walk::{Reference, Survey};

/// Most schemas that may apply to one and the same value, counted with repetition. Unions of unions
/// multiply: without a bound, a kilobyte of schema can ask for years of checking.
const APPLIED_MAX: u32 = 1_000;

/// Resolves every reference; returns the texts that the compiler shall see, by node.
pub(super) fn resolve(
    document: &Document,
    survey: &mut Survey,
) -> Result<BTreeMap<u32, String>, SchemaError> {
    let mut rewritten = BTreeMap::new();
    for reference in std::mem::take(&mut survey.references) {
        let fragment = local_fragment(&reference, survey.base.as_deref())?;
        let target = target(document, survey, &reference, &fragment)?;
        survey.edge(reference.from, target);
        rewritten.insert(reference.at, format!("#{}", raw_fragment(&reference.text)));
    }
    Ok(rewritten)
}

/// Refuses circles that never reach into the value, long rows and large unions.
pub(super) fn bound(survey: &Survey, depth_max: usize) -> Result<(), SchemaError> {
    let mut bounds = Bounds {
        survey,
        depth_max,
        done: BTreeMap::new(),
        open: Vec::new(),
    };
    for schema in survey.schemas.keys() {
        bounds.measure(*schema)?;
    }
    Ok(())
}

fn raw_fragment(text: &str) -> &str {
    text.split_once('#').map_or("", |(_, fragment)| fragment)
}

/// The decoded fragment of a reference into this document.
fn local_fragment(reference: &Reference, base: Option<&str>) -> Result<String, SchemaError> {
    let (resource, fragment) = reference
        .text
        .split_once('#')
        .unwrap_or((&reference.text, ""));
    if !resource.is_empty() && base != Some(resource) {
        return Err(unresolved(reference, "leads out of the schema"));
    }
    percent_decoded(fragment).ok_or_else(|| unresolved(reference, "is not a valid fragment"))
}

fn target(
    document: &Document,
    survey: &Survey,
    reference: &Reference,
    fragment: &str,
) -> Result<u32, SchemaError> {
    let is_pointer = fragment.is_empty() || fragment.starts_with('/');
    if reference.dynamic && (is_pointer || !survey.dynamic_anchors.contains(fragment)) {
        return Err(SchemaError::UnsupportedKeyword {
            path: reference.path.clone(),
            keyword: String::from("$dynamicRef"),
            reason: "it must name a `$dynamicAnchor` of this schema",
        });
    }
    let found = if is_pointer {
        let value = document.root().pointer(fragment);
        value.map(|value| value.identity().1)
    } else {
        survey.anchors.get(fragment).copied()
    };
    match found {
        None => Err(unresolved(reference, "leads nowhere")),
        Some(target) if !survey.schemas.contains_key(&target) => Err(unresolved(
            reference,
            "leads to something that is not a schema",
        )),
        Some(target) => Ok(target),
    }
}

fn unresolved(reference: &Reference, reason: &'static str) -> SchemaError {
    SchemaError::UnresolvedRef {
        path: reference.path.clone(),
        reference: path::shown(&reference.text),
        reason,
    }
}

fn percent_decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next()?)? * 16 + hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// What one schema asks of one value, itself included.
#[derive(Clone, Copy)]
struct Measure {
    applied: u32,
    depth: usize,
}

struct Bounds<'s> {
    survey: &'s Survey,
    depth_max: usize,
    done: BTreeMap<u32, Measure>,
    open: Vec<u32>,
}

impl Bounds<'_> {
    /// Recursion is bounded by `depth_max`, since a longer row is an error.
    fn measure(&mut self, schema: u32) -> Result<Measure, SchemaError> {
        if let Some(done) = self.done.get(&schema) {
            return Ok(*done);
        }
        if self.open.contains(&schema) {
            return Err(SchemaError::UnresolvedRef {
                path: String::from("$"),
                reference: String::from("$ref"),
                reason: "leads in a circle that never reaches into the value",
            });
        }
        if self.open.len() >= self.depth_max {
            return Err(self.too_deep());
        }
        self.open.push(schema);
        let measure = self.sum(schema)?;
        self.open.pop();
        self.done.insert(schema, measure);
        Ok(measure)
    }

    fn sum(&mut self, schema: u32) -> Result<Measure, SchemaError> {
        let mut sum = Measure {
            applied: 1,
            depth: 1,
        };
        for next in self.survey.schemas.get(&schema).into_iter().flatten() {
            let next = self.measure(*next)?;
            sum.applied = sum.applied.saturating_add(next.applied);
            sum.depth = sum.depth.max(next.depth + 1);
        }
        if sum.applied > APPLIED_MAX {
            return Err(SchemaError::TooLarge {
                what: "schemas for one value",
                max: APPLIED_MAX as usize,
            });
        }
        if sum.depth > self.depth_max {
            return Err(self.too_deep());
        }
        Ok(sum)
    }

    fn too_deep(&self) -> SchemaError {
        SchemaError::TooDeep {
            path: String::from("$"),
            depth_max: self.depth_max,
        }
    }
}

/// Refuses a root that admits no object, followed through `$ref`.
pub(super) fn root_is_object(document: &Document, survey: &Survey) -> Result<(), SchemaError> {
    let root = document.root();
    let mut schema = root;
    // Circles were refused before; the bound only says so to the reader.
    for _ in 0..survey.schemas.len() {
        if let Some(kind) = schema.get("type") {
            let object = |value: crate::gate::json::Value<'_>| value.as_str() == Some("object");
            if object(kind) || kind.items().any(object) {
                return Ok(());
            }
            return Err(not_object("$.type"));
        }
        if schema.kind() != Kind::Object {
            return Err(not_object("$"));
        }
        let target = schema.get("$ref").and_then(|reference| {
            let fragment = percent_decoded(raw_fragment(reference.as_str()?))?;
            match survey.anchors.get(&fragment) {
                Some(_) => None,
                None => root.pointer(&fragment),
            }
        });
        match target {
            Some(target) => schema = target,
            None => return Ok(()),
        }
    }
    Ok(())
}

fn not_object(path: &str) -> SchemaError {
    SchemaError::RootNotObject {
        path: path.to_owned(),
    }
}
