//! Cells of the Table representation, by the expressions of `data/resources-1.36.json`:
//!
//! | expression | cell |
//! | --- | --- |
//! | `/spec/type` | the value at a path; `type=Ready` as a step names an element of a list by one of its fields |
//! | `/spec/x\|none` | the same with a text for what is absent or empty; `\|#0` for JSON instead of text |
//! | `{/a}/{/b\|0}` | text with values; `{./a}` and `{//a}` put a dot or slash before a value, and nothing for nothing |
//! | `#/a,/b` | number of elements, of several lists or maps together |
//! | `@name/path` | what a function says of the value: `@since`, `@duration`, `@labels`, `@selector`, `@query`, `@join` |
//! | `@names`, `@images` | of the containers of the template |
//! | `[path, expression, expression]` | the first expression where there is something at the path, or else the second |

use jiff::Timestamp;
use serde_json::Value;

use super::{
    canonical::parse_time,
    selectors,
    value::{int, list, text},
};

/// The cell of an expression. `kind` is the type of the column: it says what stands for nothing.
pub(super) fn cell(expression: &Value, kind: &str, object: &Value, now: Timestamp) -> Value {
    match expression {
        Value::Array(parts) => {
            let [guard, then, otherwise] = [0, 1, 2].map(|i| parts.get(i).unwrap_or(&Value::Null));
            let chosen = if is_empty(find(object, text(guard))) { otherwise } else { then };
            cell(chosen, kind, object, now)
        }
        expression => text_cell(text(expression), kind, object, now),
    }
}

fn text_cell(expression: &str, kind: &str, object: &Value, now: Timestamp) -> Value {
    if let Some(call) = expression.strip_prefix('@') {
        return call_cell(call, object, now);
    }
    if let Some(paths) = expression.strip_prefix('#') {
        return paths.split(',').map(|path| count(find(object, path))).sum::<usize>().into();
    }
    if expression.contains('{') {
        return fill(expression, object).into();
    }
    if !expression.starts_with('/') {
        return expression.into();
    }
    value_or(expression, object).unwrap_or_else(|| match kind {
        "integer" => 0.into(),
        "boolean" => false.into(),
        "date" => Value::Null,
        _ => "".into(),
    })
}

/// The value at `path|default`.
fn value_or(expression: &str, object: &Value) -> Option<Value> {
    let (path, default) = expression.split_once('|').map_or((expression, None), |(path, word)| (path, Some(word)));
    let found = find(object, path);
    if !is_empty(found) || found.is_boolean() {
        return Some(found.clone());
    }
    default.map(|word| match word.strip_prefix('#') {
        Some(json) => serde_json::from_str(json).unwrap_or_default(),
        None => word.into(),
    })
}

pub(super) fn field(expression: &str, object: &Value) -> String {
    value_or(expression, object).as_ref().map(plain).unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn fill(template: &str, object: &Value) -> String {
    let mut out = String::new();
    for (i, part) in template.split('{').enumerate() {
        let Some((expression, rest)) = part.split_once('}').filter(|_| i > 0) else {
            out.push_str(part);
            continue;
        };
        let prefixed = expression.strip_prefix("./").or_else(|| expression.strip_prefix("//"));
        let path = prefixed.map_or_else(|| expression.to_owned(), |path| format!("/{path}"));
        let shown = field(&path, object);
        if prefixed.is_some() && !shown.is_empty() {
            out.push_str(&expression[..1]);
        }
        out.push_str(&shown);
        out.push_str(rest);
    }
    out
}

fn call_cell(call: &str, object: &Value, now: Timestamp) -> Value {
    let (function, path) = call.split_at(call.find('/').unwrap_or(call.len()));
    let (path, default) = path.split_once('|').unwrap_or((path, ""));
    let found = find(object, path);
    match function {
        "since" => since(found, now),
        "duration" => duration(int(found)),
        "labels" => selectors::labels_cell(found),
        "selector" => selectors::cell(found),
        "query" if selectors::is_usable(found) => selectors::query(found),
        "query" => "<invalid>".to_owned(),
        "join" => {
            let (path, inner) = path.split_once("/*").unwrap_or((path, ""));
            let words: Vec<&str> = list(find(object, path)).iter().map(|element| text(find(element, inner))).collect();
            or(&words.join(","), default).to_owned()
        }
        function => containers(object, function.trim_end_matches('s')),
    }
    .into()
}

fn containers(object: &Value, field: &str) -> String {
    let templates = ["/spec/jobTemplate/spec/template", "/spec/template", "/template"];
    let template = templates.into_iter().map(|path| find(object, path)).find(|template| template.is_object());
    let containers = list(template.map_or(&Value::Null, |template| &template["spec"]["containers"]));
    containers.iter().map(|container| text(&container[field])).collect::<Vec<_>>().join(",")
}

pub(super) fn find<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('/').filter(|step| !step.is_empty()).fold(object, |value, step| {
        let found = match (value, step.split_once('=')) {
            (Value::Array(list), Some((field, word))) => list.iter().find(|element| element[field] == word),
            (Value::Array(list), None) => step.parse().ok().and_then(|i: usize| list.get(i)),
            (value, _) => value.get(step),
        };
        found.unwrap_or(&Value::Null)
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

fn count(value: &Value) -> usize {
    value.as_array().map_or_else(|| value.as_object().map_or(0, serde_json::Map::len), Vec::len)
}

/// How long ago a time was; `<unknown>` if there is none.
pub(crate) fn since(time: &Value, now: Timestamp) -> String {
    match parse_time(text(time)) {
        Some(time) => duration(now.as_second() - time.as_second()),
        None => "<unknown>".to_owned(),
    }
}
/// A duration in seconds, shortened as people read it.
pub(super) fn duration(seconds: i64) -> String {
    let with = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => with(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => with(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => with(days, "d", hours % 24, "h"),
        _ if hours < 24 * 365 * 2 => format!("{days}d"),
        _ if hours < 24 * 365 * 8 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

pub(super) fn or<'a>(word: &'a str, otherwise: &'a str) -> &'a str {
    if word.is_empty() { otherwise } else { word }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shows_values_by_their_paths() {
        let object = json!({
            "a": {"text": "x", "number": 7, "no": false, "list": ["p", "q"], "empty": ""},
            "conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}],
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}},
            "labels": {"k": "v"},
        });
        let table = [
            (json!("/a/text"), "string", json!("x")),
            (json!("/a/number"), "string", json!(7)),
            (json!("/a/no"), "boolean", json!(false)),
            (json!("/a/none"), "integer", json!(0)),
            (json!("/a/empty|<none>"), "string", json!("<none>")),
            (json!("/a/none|#false"), "string", json!(false)),
            (json!("/a/list/1"), "string", json!("q")),
            (json!("/conditions/type=Ready/status"), "string", json!("True")),
            (json!("{/a/number}/{/a/none|0}{./a/text}{//a/none}"), "string", json!("7/0.x")),
            (json!("#/a/list,/labels"), "integer", json!(3)),
            (json!(["/a/text", "{/a/text}!", "nothing"]), "string", json!("x!")),
            (json!(["/a/empty", "x", "nothing"]), "string", json!("nothing")),
            (json!("@labels/labels"), "string", json!("k=v")),
            (json!("@join/a/list"), "string", json!("p,q")),
            (json!("@join/conditions/*/type"), "string", json!("A,Ready")),
            (json!("@join/a/none|<none>"), "string", json!("<none>")),
            (json!("@images"), "string", json!("i,j")),
            (json!("@since/a/text"), "string", json!("<unknown>")),
        ];
        for (expression, kind, shown) in table {
            assert_eq!(cell(&expression, kind, &object, Timestamp::UNIX_EPOCH), shown, "{expression}");
        }
    }

    #[test]
    fn shortens_durations() {
        let table = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (64_000_000, "2y10d"),
            (252_288_000, "8y"),
        ];
        for (seconds, shown) in table {
            assert_eq!(duration(seconds), shown, "{seconds}");
        }
    }
}
