//! Deep texts and long rows of references on threads with little stack.
//!
//! Never measures time; an overflow ends the process and so fails the run.

use bytes::Bytes;
use callgate::gate::json::{Document, JsonLimits};
use callgate::gate::schema::{Schema, SchemaDialect, SchemaOptions};

fn on_stack_of(kibibytes: usize, work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(kibibytes << 10);
    thread.spawn(work).unwrap().join().unwrap();
}

fn nested(levels: usize, leaf: &str) -> String {
    format!(
        "{{\"a\":{}{leaf}{}}}",
        "[".repeat(levels - 1),
        "]".repeat(levels - 1)
    )
}

#[test]
fn a_hundred_thousand_levels_are_refused_on_a_quarter_of_a_mebibyte() {
    on_stack_of(256, || {
        let text = Bytes::from(nested(100_000, "1"));
        let error = Document::parse(&text, &JsonLimits::default()).unwrap_err();
        assert_eq!(error.code(), "json_too_deep");
    });
}

#[test]
fn the_deepest_admissible_text_is_written_on_a_quarter_of_a_mebibyte() {
    on_stack_of(256, || {
        let limits = JsonLimits {
            depth_max: u16::MAX,
            ..JsonLimits::default()
        };
        let text = Bytes::from(nested(128, " 1.0 "));
        let document = Document::parse(&text, &limits).unwrap();
        assert_eq!(document.dispatch_form().len(), text.len() - 2);
        assert_eq!(document.signature_form().len(), text.len() - 4);
        assert!(Document::parse(&Bytes::from(nested(129, "1")), &limits).is_err());
    });
}

#[test]
fn the_longest_row_of_references_at_the_deepest_value_is_checked_on_two_mebibytes() {
    on_stack_of(2048, || {
        let row: String = (0..14)
            .map(|at| {
                format!(
                    r##""d{at}":{{"allOf":[{{"$ref":"#/$defs/d{}"}}]}},"##,
                    at + 1
                )
            })
            .collect();
        let end = r##""d14":{"type":["array","string"],"items":{"$ref":"#/$defs/d0"}}"##;
        let root = r##""type":"object","properties":{"a":{"$ref":"#/$defs/d0"}}"##;
        let schema = Bytes::from(format!(r#"{{{root},"$defs":{{{row}{end}}}}}"#));
        let dialect = SchemaDialect::JsonSchema202012;
        let compiled = Schema::compile(&schema, dialect, &SchemaOptions::default()).unwrap();
        let document =
            Document::parse_object(&Bytes::from(nested(64, "1")), &JsonLimits::default()).unwrap();
        let error = compiled.schema.check(&document).unwrap_err();
        assert_eq!(error.code(), "tool_argument_type_mismatch");
        assert_eq!(error.path(), format!("$.a{}", "[0]".repeat(63)));
    });
}
