//! Whether a document is as docs/schema.json says, which is JSON Schema 2020-12: the part of it that is used there,
//! since validators of all of it are large. It is asked of every document that a build with debug assertions writes,
//! and so of all that tests make. A key that the schema does not name is an error here, where the schema itself leaves
//! room for later versions.

use serde_json::{Map, Value};
use std::sync::LazyLock;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../docs/schema.json")).expect("docs/schema.json is JSON")
});

/// Makes sure that a document is what is published of it.
///
/// # Panics
/// Where it is not: with the place in the document.
pub fn assert_fits(text: &str) {
    let document: Value = serde_json::from_str(text).expect("a document is JSON");
    let of_command =
        alternatives(&SCHEMA).iter().filter(|one| fits(&one["properties"]["command"], &document["command"]));
    let found: Vec<_> = of_command.map(|one| check(one, &document, "")).collect();
    if !found.iter().any(Result::is_ok) {
        panic!("not as docs/schema.json says: {} {:?}", document["command"], nearest(found));
    }
}

fn alternatives(schema: &Value) -> &[Value] {
    schema["anyOf"].as_array().map_or(&[], Vec::as_slice)
}

fn fits(schema: &Value, value: &Value) -> bool {
    check(schema, value, "").is_ok()
}

/// What is wrong, with its place.
type Checked = Result<(), String>;

/// Of several, the one that was found deepest: it is of the alternative that was meant.
fn nearest(found: Vec<Checked>) -> Checked {
    let depth = |checked: &Checked| checked.as_ref().err().map_or(0, |error| error.matches('/').count());
    found.into_iter().max_by_key(depth).unwrap_or_else(|| Err("no schema".to_owned()))
}

fn check(schema: &Value, value: &Value, place: &str) -> Checked {
    let Some(keywords) = schema.as_object() else { return Ok(()) };
    let wrong = |what: &str| Err(format!("{place}: {what}"));
    if let Some(name) = keywords.get("$ref").and_then(Value::as_str) {
        let definition = name.strip_prefix('#').and_then(|path| SCHEMA.pointer(path));
        check(definition.expect("a definition of docs/schema.json"), value, place)?;
    }
    if keywords.contains_key("anyOf") {
        let found: Vec<Checked> = alternatives(schema).iter().map(|one| check(one, value, place)).collect();
        if !found.iter().any(Result::is_ok) {
            return nearest(found);
        }
    }
    if keywords.get("const").is_some_and(|wanted| wanted != value) {
        return wrong("another value than the only one");
    }
    if keywords.get("enum").and_then(Value::as_array).is_some_and(|wanted| !wanted.contains(value)) {
        return wrong(&format!("{value} is none of the values that are listed"));
    }
    match keywords.get("type") {
        Some(Value::String(wanted)) if !is(value, wanted) => return wrong(&format!("no {wanted}")),
        Some(Value::Array(wanted)) if !wanted.iter().any(|wanted| is(value, wanted.as_str().unwrap_or_default())) => {
            return wrong(&format!("none of {wanted:?}"));
        }
        _ => {}
    }
    match value {
        Value::Object(fields) => object(keywords, fields, place),
        Value::Array(items) => array(keywords, items, place),
        _ => Ok(()),
    }
}

fn is(value: &Value, wanted: &str) -> bool {
    match (wanted, value) {
        // Sums may be longer than 64 bits: a number's text says whether it is whole.
        ("integer", Value::Number(number)) => !number.to_string().contains(['.', 'e', 'E']),
        ("number", Value::Number(_))
        | ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        _ => false,
    }
}

fn object(keywords: &Map<String, Value>, fields: &Map<String, Value>, place: &str) -> Checked {
    let none = Map::new();
    let known = keywords.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for name in keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("{place}: {name} is missing"));
        }
    }
    for (name, value) in fields {
        let place = format!("{place}/{name}");
        match (known.get(name), keywords.get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema)) => check(schema, value, &place)?,
            // What says nothing of its fields leaves them to others, as `$ref` and `anyOf` do.
            (None, None) if known.is_empty() => {}
            (None, None) => return Err(format!("{place}: not in the schema")),
        }
    }
    Ok(())
}

fn array(keywords: &Map<String, Value>, items: &[Value], place: &str) -> Checked {
    let count = |name: &str| keywords.get(name).and_then(Value::as_u64).map(|count| count as usize);
    if count("minItems").is_some_and(|least| items.len() < least)
        || count("maxItems").is_some_and(|most| items.len() > most)
    {
        return Err(format!("{place}: {} items", items.len()));
    }
    let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rest = keywords.get("items").unwrap_or(&Value::Null);
    for (at, item) in items.iter().enumerate() {
        check(first.get(at).unwrap_or(rest), item, &format!("{place}/{at}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What [`check`] knows, and what says nothing of a value.
    const KEYWORDS: [&str; 15] = [
        "$ref",
        "anyOf",
        "const",
        "enum",
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
        "title",
        "$schema",
        "$defs",
    ];

    fn keywords(schema: &Value) {
        let Some(fields) = schema.as_object() else { return };
        for (name, value) in fields {
            assert!(KEYWORDS.contains(&name.as_str()), "{name} is not checked");
            match name.as_str() {
                "properties" | "$defs" => value.as_object().unwrap().values().for_each(keywords),
                "anyOf" | "prefixItems" => value.as_array().unwrap().iter().for_each(keywords),
                "items" | "additionalProperties" => keywords(value),
                "$ref" => assert!(SCHEMA.pointer(&value.as_str().unwrap()[1..]).is_some(), "{value}"),
                _ => {}
            }
        }
    }

    #[test]
    fn the_schema_has_no_keyword_that_is_not_checked() {
        keywords(&SCHEMA);
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_place() {
        let schema = json!({
            "type": "object", "required": ["a"],
            "properties": {
                "a": { "type": ["integer", "null"] },
                "b": { "type": "array", "items": { "enum": ["x", 1] }, "maxItems": 2 },
                "c": { "anyOf": [{ "type": "null" }, { "type": "object", "properties": { "d": { "const": 1 } } }] },
                "e": { "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "boolean" }, "minItems": 1 },
                "f": { "type": "object", "additionalProperties": { "type": "number" } },
            },
        });
        let long: Value = serde_json::from_str("340282366920938463463374607431768211455").unwrap();
        for (value, wrong) in [
            (json!({ "a": 1, "b": ["x", 1], "c": { "d": 1 }, "e": ["x", true], "f": { "any": 0.5 } }), ""),
            (json!({ "a": long, "c": null }), ""),
            (json!({}), ": a is missing"),
            (json!({ "a": 1.5 }), "/a: none of"),
            (json!({ "a": 1, "other": 1 }), "/other: not in the schema"),
            (json!({ "a": 1, "b": ["y"] }), "/b/0: \"y\" is none"),
            (json!({ "a": 1, "b": ["x", "x", "x"] }), "/b: 3 items"),
            (json!({ "a": 1, "c": { "d": 2 } }), "/c/d: another value"),
            (json!({ "a": 1, "e": [] }), "/e: 0 items"),
            (json!({ "a": 1, "e": [true] }), "/e/0: no string"),
            (json!({ "a": 1, "e": ["x", 1] }), "/e/1: no boolean"),
            (json!({ "a": 1, "f": { "any": "1" } }), "/f/any: no number"),
            (json!([]), ": no object"),
        ] {
            let found = check(&schema, &value, "").err().unwrap_or_default();
            assert!(found.starts_with(wrong) && found.is_empty() == wrong.is_empty(), "{value}: {found}");
        }
    }

    #[test]
    #[should_panic(expected = "/library: no string")]
    fn a_document_that_is_not_as_published_is_found() {
        assert_fits(r#"{"format": 1, "command": "mpi build", "library": 1}"#);
    }

    #[test]
    #[should_panic(expected = "no schema")]
    fn a_command_without_a_schema_is_found() {
        assert_fits(r#"{"format": 1, "command": "new"}"#);
    }
}
