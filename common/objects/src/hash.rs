//! Hashes in the names of `ReplicaSets` and `ControllerRevisions`.
//!
//! Controllers find the object of a template by comparing templates, not by its name. The hashes in the names are nevertheless
//! those of upstream 1.36, digit for digit. Because the same template gets the same name, a second attempt to create an object
//! fails, even if another controller manager made the first attempt.

use std::fmt;

use serde_json::Value;

use crate::{
    layout::{GoBaseType, GoType, GoTypeWrapper, PodTemplateLayout},
    quantity::Quantity,
};

const OFFSET_BASIS: u32 = 2_166_136_261;
const PRIME: u32 = 16_777_619;
/// Letters and digits that form no words, from upstream's `pkg/util/rand`.
const SAFE_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A 32-bit FNV-1a hash: exclusive-or first, then multiplication.
#[derive(Clone, Copy, Debug)]
pub struct Fnv1a(u32);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(OFFSET_BASIS)
    }
}

impl Fnv1a {
    /// Appends bytes to the hashed input. The division of the input into calls does not matter.
    pub fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// Returns the hash of all bytes added so far.
    pub fn finish(self) -> u32 {
        self.0
    }
}

impl fmt::Write for Fnv1a {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.update(text.as_bytes());
        Ok(())
    }
}

/// Computes the 32-bit FNV-1 hash of the concatenated parts: multiplication first, then exclusive-or.
pub fn fnv1(parts: &[&[u8]]) -> u32 {
    parts.iter().flat_map(|p| p.iter()).fold(OFFSET_BASIS, |sum, byte| sum.wrapping_mul(PRIME) ^ u32::from(*byte))
}

/// Encodes a hash for names and labels: every decimal digit becomes a character of an alphabet without vowels.
pub fn safe_encode(sum: u32) -> String {
    sum.to_string().bytes().map(|digit| char::from(SAFE_ALPHABET[usize::from(digit) % SAFE_ALPHABET.len()])).collect()
}

/// Computes the hash of a Pod template: the value of the label `pod-template-hash` of a Deployment's `ReplicaSets` and Pods,
/// and of the label `controller-revision-hash` of a `DaemonSet`'s objects.
///
/// A missing collision count gives another hash than the count 0. Upstream: `pkg/controller`, `ComputeHash`.
pub fn pod_template_hash(template: &Value, collision_count: Option<i32>) -> String {
    let mut hasher = Fnv1a::default();
    // Writing to the hasher cannot fail.
    let _ = write_go_dump(template, &mut hasher);
    if let Some(count) = collision_count {
        hasher.update(&count.to_le_bytes());
        hasher.update(&[0; 4]);
    }
    safe_encode(hasher.finish())
}

/// Computes the hash of a `StatefulSet`'s `ControllerRevision`: label `controller.kubernetes.io/hash`, and suffix of the name.
///
/// Upstream: `pkg/controller/history`, `HashControllerRevision`.
pub fn controller_revision_hash(data: &[u8], collision_count: Option<i32>) -> String {
    let count = collision_count.map(|count| count.to_string()).unwrap_or_default();
    safe_encode(fnv1(&[data, count.as_bytes()]))
}

/// Writes the text that is hashed: the template as upstream's dump of the Go structs of 1.36, with the name of each type.
///
/// Fields that the layout does not know are left out, because a 1.36 binary drops them.
pub fn write_go_dump(template: &Value, out: &mut impl fmt::Write) -> fmt::Result {
    out.write_str("(v1.PodTemplateSpec)")?;
    Dump { out }.base(PodTemplateLayout::get().template_type(), Some(template))
}

struct Dump<'a, W> {
    out: &'a mut W,
}

impl<W: fmt::Write> Dump<'_, W> {
    fn shape(&mut self, go_type: GoType, value: Option<&Value>) -> fmt::Result {
        let value = value.filter(|v| !v.is_null());
        match (go_type.wrapper, value) {
            (GoTypeWrapper::Plain, _) | (GoTypeWrapper::Pointer, Some(_)) => self.base(go_type.base, value),
            (GoTypeWrapper::List, Some(Value::Array(list))) if !list.is_empty() => {
                for (at, element) in list.iter().enumerate() {
                    self.out.write_str(if at == 0 { "[" } else { " " })?;
                    self.base(go_type.base, Some(element))?;
                }
                self.out.write_str("]")
            }
            (GoTypeWrapper::Map, Some(Value::Object(map))) if !map.is_empty() => {
                let mut entries: Vec<(&String, &Value)> = map.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (at, (key, element)) in entries.into_iter().enumerate() {
                    write!(self.out, "{}{key}:", if at == 0 { "map[" } else { " " })?;
                    self.base(go_type.base, Some(element))?;
                }
                self.out.write_str("]")
            }
            // Upstream decodes protobuf, which does not distinguish empty lists and maps from missing ones.
            _ => self.out.write_str("<nil>"),
        }
    }

    fn base(&mut self, base: GoBaseType, value: Option<&Value>) -> fmt::Result {
        let value = value.unwrap_or(&Value::Null);
        match base {
            GoBaseType::Struct(id) => self.structure(id, value),
            GoBaseType::Time => time(value, self.out),
            GoBaseType::FieldsV1 => fields(value, self.out),
            GoBaseType::IntOrString => int_or_string(value, self.out),
            GoBaseType::Quantity => quantity(value, self.out),
            GoBaseType::Text | GoBaseType::Bool | GoBaseType::Int => match (value, base) {
                (Value::Null, GoBaseType::Bool) => self.out.write_str("false"),
                (Value::Null, GoBaseType::Int) => self.out.write_str("0"),
                (Value::Null, _) => Ok(()),
                (Value::String(text), _) => self.out.write_str(text),
                (other, _) => write!(self.out, "{other}"),
            },
        }
    }

    fn structure(&mut self, id: usize, value: &Value) -> fmt::Result {
        for (at, field) in PodTemplateLayout::get().struct_fields(id).iter().enumerate() {
            write!(self.out, "{}{}:({})", if at == 0 { '{' } else { ' ' }, field.go, field.type_name)?;
            self.shape(field.go_type, if field.inline { Some(value) } else { value.get(field.json) })?;
        }
        self.out.write_str("}")
    }
}

/// Writes a time as Go prints it in a process without a configured time zone. kube-controller-manager is such a process.
fn time(value: &Value, out: &mut impl fmt::Write) -> fmt::Result {
    /// Seconds from the start of the year 1 to 1970.
    const UNIX_EPOCH: i64 = 62_135_596_800;
    const ZERO: &str = "<nil>";
    const LOCAL: &str = "{name:(string)UTC zone:([]time.zone)<nil> tx:([]time.zoneTrans)<nil> extend:(string) \
                         cacheStart:(int64)0 cacheEnd:(int64)0 cacheZone:(*time.zone)<nil>}";
    let second = value.as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok()).map(jiff::Timestamp::as_second);
    let (ext, location) = match second {
        Some(second) if second != -UNIX_EPOCH => (second + UNIX_EPOCH, LOCAL),
        _ => (0, ZERO),
    };
    write!(out, "{{Time:(time.Time){{wall:(uint64)0 ext:(int64){ext} loc:(*time.Location){location}}}}}")
}

fn fields(value: &Value, out: &mut impl fmt::Write) -> fmt::Result {
    for (at, byte) in value.to_string().bytes().enumerate() {
        write!(out, "{}{byte}", if at == 0 { "{Raw:([]uint8)[" } else { " " })?;
    }
    out.write_str("]}")
}

fn int_or_string(value: &Value, out: &mut impl fmt::Write) -> fmt::Result {
    let (kind, text) = value.as_str().map_or((0, ""), |text| (1, text));
    let number = value.as_i64().unwrap_or(0);
    write!(out, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}")
}

fn quantity(value: &Value, out: &mut impl fmt::Write) -> fmt::Result {
    let parsed = match value {
        Value::Null => Quantity::parse("0"),
        Value::String(text) => Quantity::parse(text.trim()),
        other => Quantity::parse(&other.to_string()),
    };
    match parsed {
        Ok(quantity) => quantity.write_go_struct(out),
        // No API server stores an invalid quantity, so any fixed text is fine.
        Err(_) => write!(out, "{value}"),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Vector {
        template: Value,
        collision_count: Option<i32>,
        hash: String,
        dump: Option<String>,
    }

    fn check(vectors: &str) {
        for line in vectors.lines() {
            let vector: Vector = serde_json::from_str(line).unwrap();
            if let Some(want) = &vector.dump {
                let mut got = String::new();
                write_go_dump(&vector.template, &mut got).unwrap();
                assert_eq!(&got, want, "{}", vector.template);
            }
            assert_eq!(
                pod_template_hash(&vector.template, vector.collision_count),
                vector.hash,
                "{} with {:?}",
                vector.template,
                vector.collision_count
            );
        }
    }

    #[test]
    fn template_hashes_match_upstream() {
        check(include_str!("../tests/data/hash-vectors.jsonl"));
    }

    #[test]
    fn hashes_of_unusual_templates_match_upstream() {
        check(include_str!("../tests/data/hash-vectors-more.jsonl"));
    }

    #[test]
    fn hashes_are_encoded_as_in_the_specification() {
        for (input, count, sum, label) in [
            ("", None, 2_166_136_261, "65bb57b6b5"),
            ("abc", None, 440_920_331, "884f64775"),
            ("abc", Some(0u64), 1_592_467_307, "59f68bc74c"),
            ("abc", Some(1), 25_804_874, "69d48dc8"),
            ("abc", Some(258), 1_876_100_142, "5dcb544586"),
        ] {
            let mut hasher = Fnv1a::default();
            hasher.update(input.as_bytes());
            if let Some(count) = count {
                hasher.update(&count.to_le_bytes());
            }
            assert_eq!((hasher.finish(), safe_encode(hasher.finish()).as_str()), (sum, label), "{input} {count:?}");
        }
        assert_eq!(safe_encode(u32::MAX), "86f8fbc6f9");
        assert_eq!(safe_encode(0), "4");
    }

    #[test]
    fn revisions_are_hashed_by_their_bytes() {
        let data = br#"{"spec":{"template":{"$patch":"replace"}}}"#;
        assert_eq!((fnv1(&[data]), controller_revision_hash(data, None).as_str()), (173_142_040, "5c7586484"));
        assert_eq!(
            (fnv1(&[data, b"0"]), controller_revision_hash(data, Some(0)).as_str()),
            (1_459_418_616, "589f85db5b")
        );
        assert_eq!(
            (fnv1(&[data, b"1"]), controller_revision_hash(data, Some(1)).as_str()),
            (1_459_418_617, "589f85db5c")
        );
    }

    #[test]
    fn daemon_set_hashes_match_the_specification() {
        let template = |image: &str, zone: Option<&str>| {
            let mut template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {
                "containers": [{"name": "c", "image": image, "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent"}],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler"}});
            if let Some(zone) = zone {
                template["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": zone});
            }
            template
        };
        for (image, zone, count, want) in [
            ("img:1", None, None, "6498849879"),
            ("img:1", None, Some(1), "65bb665878"),
            ("img:2", None, None, "bdf5bc864"),
            ("img:3", None, None, "5dbbf88b49"),
            ("img:3", Some("z1"), None, "65c74bd9d5"),
        ] {
            assert_eq!(pod_template_hash(&template(image, zone), count), want, "{image} {zone:?} {count:?}");
        }
    }

    #[test]
    fn values_that_are_not_templates_do_not_panic() {
        for value in
            [json!(null), json!(7), json!({"metadata": 3, "spec": {"containers": {"a": 1}, "volumes": [null, 4]}})]
        {
            assert!(!pod_template_hash(&value, Some(-1)).is_empty());
        }
    }
}
