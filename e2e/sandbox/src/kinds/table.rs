//! Cells of the Table representation that several kinds have.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    canonical::parse_time,
    value::{list, text},
};

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    text(&object["metadata"]["name"]).into()
}

/// How long ago the object was created.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    since(&object["metadata"]["creationTimestamp"], now).into()
}

/// Name and age: what most kinds show at least.
pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

/// Name and time of creation: kinds without columns of their own.
pub(super) fn name_and_created(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![name(object), object["metadata"]["creationTimestamp"].clone()]
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

/// Names and images of containers, each joined by commas.
pub(super) fn containers(containers: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let all: Vec<&str> = list(containers).iter().map(|container| text(&container[field])).collect();
        all.join(",").into()
    })
}

/// The word, or another one when it is empty.
pub(super) fn or<'a>(word: &'a str, otherwise: &'a str) -> &'a str {
    if word.is_empty() { otherwise } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

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
