//! Properties of the reader and the two forms, over generated texts.
//!
//! Never compares with anything but `serde_json` and ourselves.

use bytes::Bytes;
use callgate::gate::json::{Document, JsonError, JsonLimits, Kind, Value};
use proptest::prelude::*;

/// A text that is JSON or nearly so: values with blanks, escapes, odd numbers, shuffled keys.
fn text() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("0"),
        Just("-0"),
        Just("1.0"),
        Just("10e-1"),
        Just("9007199254740993"),
        Just("1e400"),
        Just("-1E+2"),
        Just("01"),
        Just("1."),
        Just("0.10"),
        Just("NaN"),
        Just("123456789012345678901234567890"),
        Just("1e-400"),
        Just("5e-324"),
        Just("-"),
    ]
    .prop_map(str::to_owned);
    let string = prop_oneof![
        "[a-c]{0,3}".prop_map(|s| format!("\"{s}\"")),
        Just(r#""\u0061""#.to_owned()),
        Just(r#""\n\/\"\\ é \ud83d\ude00 \u001F \u000a""#.to_owned()),
        Just(r#""\ud800""#.to_owned()),
        Just("\"\u{1}\"".to_owned()),
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap()),
    ];
    let leaf = prop_oneof![
        4 => number,
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        4 => string.clone(),
        3 => prop_oneof![Just("true"), Just("false"), Just("null"), Just("nul"), Just("")]
            .prop_map(str::to_owned),
    ];
    let blank = prop_oneof![3 => Just(""), 1 => Just(" "), 1 => Just("\n\t"), 1 => Just("\u{a0}")];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        let blank = blank.clone();
        let array = (prop::collection::vec(inner.clone(), 0..5), blank.clone()).prop_map(
            |(items, blank)| format!("[{blank}{}{blank}]", items.join(&format!(",{blank}"))),
        );
        let entry = ("[a-e\\\\]{0,2}", inner, blank)
            .prop_map(|(key, value, blank)| format!("\"{key}\"{blank}:{blank}{value}"));
        let object = prop::collection::vec(entry, 0..5)
            .prop_map(|entries| format!("{{{}}}", entries.join(", ")));
        prop_oneof![array, object]
    })
}

fn parse(text: &str) -> Result<Document, JsonError> {
    Document::parse(&Bytes::from(text.to_owned()), &JsonLimits::default())
}

fn same(ours: Value<'_>, theirs: &serde_json::Value) -> bool {
    use serde_json::Value as Theirs;
    match theirs {
        Theirs::Null => ours.kind() == Kind::Null,
        Theirs::Bool(it) => ours.as_bool() == Some(*it),
        Theirs::String(it) => ours.as_str() == Some(it),
        Theirs::Number(it) => {
            let ours = ours.as_number().unwrap();
            match (it.as_u64(), it.as_i64()) {
                (None, None) => close(ours.as_f64(), it.as_f64().unwrap()),
                (unsigned, signed) => ours.as_u64() == unsigned && ours.as_i64() == signed,
            }
        }
        Theirs::Array(items) => {
            ours.kind() == Kind::Array
                && ours.len() == items.len()
                && ours.items().zip(items).all(|(ours, it)| same(ours, it))
        }
        Theirs::Object(entries) => {
            ours.kind() == Kind::Object
                && ours.len() == entries.len()
                && entries
                    .iter()
                    .all(|(key, it)| same(ours.get(key).unwrap(), it))
        }
    }
}

/// `serde_json` without `float_roundtrip` may be off by the last bit.
fn close(ours: f64, theirs: f64) -> bool {
    ours.to_bits().abs_diff(theirs.to_bits()) <= 1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_serde_json_reads_we_read_alike_and_what_it_refuses_we_refuse(text in text()) {
        let ours = parse(&text);
        match serde_json::from_str::<serde_json::Value>(&text) {
            Err(error) => prop_assert!(ours.is_err(), "{error} in {text}"),
            Ok(theirs) => match ours {
                Err(JsonError::DuplicateKey { .. }) => {}
                Err(error) => prop_assert!(false, "{error} in {text}"),
                Ok(ours) => prop_assert!(same(ours.root(), &theirs), "{text}"),
            },
        }
    }

    #[test]
    fn bytes_of_any_kind_are_refused_exactly_when_serde_json_refuses_them(
        bytes in prop::collection::vec(
            prop_oneof![Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b'"'), Just(b','),
                        Just(b':'), Just(b'1'), Just(b'\\'), Just(b'u'), any::<u8>()],
            0..12,
        )
    ) {
        let ours = Document::parse(&Bytes::from(bytes.clone()), &JsonLimits::default());
        let theirs = serde_json::from_slice::<serde_json::Value>(&bytes);
        let duplicate = matches!(ours, Err(JsonError::DuplicateKey { .. }));
        prop_assert!(duplicate || ours.is_ok() == theirs.is_ok(), "{bytes:?}");
    }

    #[test]
    fn the_dispatch_form_is_its_own_dispatch_form(text in text()) {
        if let Ok(document) = parse(&text) {
            let form = document.dispatch_form();
            let again = Document::parse(&form, &JsonLimits::default()).unwrap();
            prop_assert_eq!(&again.dispatch_form(), &form);
            // Sharing the text proves that the reader recognised the form.
            prop_assert_eq!(again.dispatch_form().as_ptr(), form.as_ptr());
            prop_assert_eq!(again.signature_form(), document.signature_form());
            prop_assert_eq!(&form[..], &again.root().dispatch_form()[..]);
        }
    }

    #[test]
    fn no_cut_of_an_object_is_taken_for_anything_but_cut(text in text(), at in any::<prop::sample::Index>()) {
        let text = format!("{{\"k\":{text}}}");
        if parse(&text).is_ok() {
            let cut = &text.as_bytes()[..1 + at.index(text.len() - 1)];
            let cut = Document::parse(&Bytes::copy_from_slice(cut), &JsonLimits::default());
            prop_assert_eq!(cut.unwrap_err().code(), "json_truncated");
        }
    }
}
