//! The secondary indexes of a cache, as types: asking a cache for an index that it does not have does not compile.

use crate::{
    intern::Text,
    meta::{Meta, Uid},
};

/// What an index files an object under.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum IndexValue {
    /// A controller, by its namespace and uid. A reference to an object of another namespace has no meaning, so that nobody
    /// can give objects to a controller of a namespace in which he may not create any.
    Controller {
        /// Namespace of the controller, and of what it controls.
        namespace: Text,
        /// Its uid.
        uid: Uid,
    },
    /// A text, e.g. a namespace or a node name.
    Text(Text),
}

impl IndexValue {
    /// What objects are filed under that the object with this metadata controls.
    pub fn controlled_by(owner: &Meta) -> Self {
        Self::Controller { namespace: owner.namespace.clone(), uid: owner.uid.clone() }
    }
}

/// A secondary index of the objects of one kind.
pub trait Index<K> {
    /// The value that an object is filed under, if any. Of an unreadable object only the metadata are known.
    fn value(meta: &Meta, object: Option<&K>) -> Option<IndexValue>;
}

/// Files objects under their controller, which is one of their own namespace.
#[derive(Clone, Copy, Debug)]
pub struct ByController;

impl<K> Index<K> for ByController {
    fn value(meta: &Meta, _: Option<&K>) -> Option<IndexValue> {
        let controller = meta.controller()?;
        Some(IndexValue::Controller { namespace: meta.namespace.clone(), uid: controller.uid.clone() })
    }
}

/// Files objects without a controller under their namespace.
#[derive(Clone, Copy, Debug)]
pub struct OrphansByNamespace;

impl<K> Index<K> for OrphansByNamespace {
    fn value(meta: &Meta, _: Option<&K>) -> Option<IndexValue> {
        meta.controller().is_none().then(|| IndexValue::Text(meta.namespace.clone()))
    }
}

/// Files objects under their namespace.
#[derive(Clone, Copy, Debug)]
pub struct ByNamespace;

impl<K> Index<K> for ByNamespace {
    fn value(meta: &Meta, _: Option<&K>) -> Option<IndexValue> {
        Some(IndexValue::Text(meta.namespace.clone()))
    }
}

/// The function of an index: the value that an object is filed under.
pub type Of<K> = fn(&Meta, Option<&K>) -> Option<IndexValue>;

/// The indexes of a kind: a tuple of up to two.
pub trait Indexes<K> {
    /// Their functions, in the order of the tuple.
    fn list() -> Vec<Of<K>>;
}

impl<K> Indexes<K> for () {
    fn list() -> Vec<Of<K>> {
        Vec::new()
    }
}

impl<K, A: Index<K>> Indexes<K> for (A,) {
    fn list() -> Vec<Of<K>> {
        vec![A::value]
    }
}

impl<K, A: Index<K>, B: Index<K>> Indexes<K> for (A, B) {
    fn list() -> Vec<Of<K>> {
        vec![A::value, B::value]
    }
}

/// Some indexes that include `I`. The compiler infers `At`, a [`Position`].
///
/// ```compile_fail,E0277
/// use common::{pods::Pod, store::{ByNamespace, IndexValue, Store}};
/// // Pods have no indexes.
/// Store::<Pod>::default().count_by_index(ByNamespace, &IndexValue::Text("ns".into()));
/// ```
pub trait Has<I, At> {
    /// The position of `I` in the tuple.
    const POSITION: usize;
}

/// A position in a tuple.
#[derive(Debug)]
pub struct Position<const N: usize>;

impl<A> Has<A, Position<0>> for (A,) {
    const POSITION: usize = 0;
}

impl<A, B> Has<A, Position<0>> for (A, B) {
    const POSITION: usize = 0;
}

impl<A, B> Has<B, Position<1>> for (A, B) {
    const POSITION: usize = 1;
}
