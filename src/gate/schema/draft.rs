//! The JSON Schema dialect: 2020-12, and draft-07 for schemas that say so.
//!
//! Never hands a schema to the compiler before walk, references and bounds have passed it, and
//! never lets the compiler fetch anything.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value as Tree;

use crate::gate::json::{Document, Value};

use super::error::{ArgumentError, SchemaError};
use super::instance::{Exact, Instance, Looks};
use super::keywords::Draft;
use super::options::SchemaOptions;
use super::walk::Survey;
use super::{Checker, Compiled, Schema, lower, references, report, walk};

/// Most bytes that one compiled pattern may take, and its cache besides.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Most looks at values that one check may take: a hundred schemas for each of fifty thousand
/// values, some tens of milliseconds.
const LOOKS_MAX: u64 = 5_000_000;

/// Most looks that finding the reason of a failure may take; each may build an error.
const EXPLAIN_LOOKS_MAX: u64 = 200_000;

/// What the root may describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Object,
    Any,
}

/// A compiled JSON Schema.
#[derive(Debug)]
pub(super) struct DraftSchema {
    validator: Validator<Exact>,
}

impl DraftSchema {
    /// Checks a value; the first failure in the validator's fixed order of keywords.
    pub(super) fn check(&self, value: Value<'_>) -> Result<(), ArgumentError> {
        let looks = Looks::new(LOOKS_MAX);
        let valid = self.validator.is_valid(Instance::Value(value, &looks));
        if looks.are_spent() {
            return Err(report::whole_value("takes too many steps to check"));
        }
        if valid {
            return Ok(());
        }
        Err(self.explain(value))
    }

    /// Finds the failure. The verdict stands; only its reason may be too costly to find.
    #[cold]
    fn explain(&self, value: Value<'_>) -> ArgumentError {
        let looks = Looks::new(EXPLAIN_LOOKS_MAX);
        let found = self.validator.validate(Instance::Value(value, &looks));
        match found {
            Err(error) if !looks.are_spent() => report::argument_error(&error, value),
            Err(_) | Ok(()) => report::whole_value("must match the schema"),
        }
    }
}

/// Compiles a schema.
pub(super) fn compile(
    document: &Document,
    options: &SchemaOptions,
    root: Root,
) -> Result<Compiled, SchemaError> {
    let mut survey = walk::survey(document.root(), options.properties_max)?;
    let rewritten = references::resolve(document, &mut survey)?;
    references::bound(&survey, usize::from(options.depth_max))?;
    let mut tree = lower::lower_with(document.root(), &rewritten);
    if let Tree::Object(entries) = &mut tree {
        // Both are settled: the draft is named below, and references are local.
        entries.remove("$schema");
        entries.remove("$id");
    }
    let validator = build(&tree, survey.draft)?;
    if root == Root::Object {
        references::root_is_object(document, &survey)?;
    }
    let Survey { notes, .. } = survey;
    Ok(Compiled {
        schema: Schema {
            checker: Checker::Draft(DraftSchema { validator }),
        },
        notes,
    })
}

fn build(tree: &Tree, draft: Draft) -> Result<Validator<Exact>, SchemaError> {
    jsonschema::options_for::<Exact>()
        .with_draft(crate_draft(draft))
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(PATTERN_BYTES_MAX)
                .dfa_size_limit(PATTERN_BYTES_MAX),
        )
        .build(tree)
        .map_err(|error| report::schema_error(&error))
}

/// The validator's name of a draft.
pub(super) fn crate_draft(draft: Draft) -> jsonschema::Draft {
    match draft {
        Draft::Draft07 => jsonschema::Draft::Draft7,
        Draft::Draft202012 => jsonschema::Draft::Draft202012,
    }
}
