//! Decodes metadata together with the grace period of the deletion, which [`Meta`] does not contain to save memory.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, MapAccess, Visitor,
        value::{MapAccessDeserializer, StrDeserializer},
    },
};

use super::Meta;
use crate::json::JsonStr;

/// Metadata with the grace period of the deletion, for projections that need this period while they are decoded.
#[derive(Debug)]
pub struct MetaWithGracePeriod {
    /// The metadata that a projection keeps.
    pub meta: Meta,
    /// `metadata.deletionGracePeriodSeconds`; `None` unless the object is terminating.
    pub deletion_grace_period_seconds: Option<i64>,
}

impl<'de> Deserialize<'de> for MetaWithGracePeriod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetaVisitor;
        impl<'de> Visitor<'de> for MetaVisitor {
            type Value = MetaWithGracePeriod;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MetaWithGracePeriod, A::Error> {
                let mut seconds = None;
                let fields = OtherFields { map, seconds: &mut seconds };
                let meta = Meta::deserialize(MapAccessDeserializer::new(fields))?;
                let deletion_grace_period_seconds = seconds.filter(|_| meta.is_deleting());
                Ok(MetaWithGracePeriod { meta, deletion_grace_period_seconds })
            }
        }
        deserializer.deserialize_map(MetaVisitor)
    }
}

/// A serde map that passes on all fields except the grace period, and stores the grace period in `seconds`.
struct OtherFields<'a, A> {
    map: A,
    seconds: &'a mut Option<i64>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OtherFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<JsonStr<'de>>()? {
            if &*key != "deletionGracePeriodSeconds" {
                return seed.deserialize(StrDeserializer::new(&key)).map(Some);
            }
            *self.seconds = self.map.next_value()?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}
