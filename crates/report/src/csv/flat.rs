//! [`flat`]: any result as CSV, for kinds without columns of their own.

use serde_json::Value;

use super::line;

/// A row a number, text or switch of a JSON value, by its JSON pointer (RFC 6901): `/rows/0/rate_per_s,123.4`. Figures that were not
/// measured have no row.
pub fn flat(value: &Value) -> String {
    let mut rows = vec![vec!["figure".to_owned(), "value".to_owned()]];
    collect(value, &mut String::new(), &mut rows);
    rows.iter().map(|fields| line(fields)).collect()
}

fn collect(value: &Value, at: &mut String, rows: &mut Vec<Vec<String>>) {
    let mut below = |name: &str, value: &Value, at: &mut String| {
        let length = at.len();
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        collect(value, at, rows);
        at.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(name, value, at)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, value)| below(&index.to_string(), value, at)),
        Value::Null => {}
        Value::String(text) => rows.push(vec![at.clone(), text.clone()]),
        other => rows.push(vec![at.clone(), other.to_string()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_pointer() {
        let value = serde_json::json!({"rows": [{"rate": 1.5, "name": "a, b"}], "a/b": true, "none": null});
        assert_eq!(flat(&value), "figure,value\n/a~1b,true\n/rows/0/name,\"a, b\"\n/rows/0/rate,1.5\n");
    }
}
