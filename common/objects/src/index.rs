//! Secondary indexes of a cache. An index is a type, so the use of an index that a cache lacks does not compile.

use crate::{
    intern::Text,
    meta::{Meta, Uid},
};

/// The value under which an index lists an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum IndexValue {
    /// A controller, identified by namespace and UID. Without the namespace, a user could write the UID of a controller in
    /// another namespace into an owner reference, and so add objects to that controller.
    Controller {
        /// Namespace of the controller and of its objects.
        namespace: Text,
        /// `metadata.uid` of the controller.
        uid: Uid,
    },
    /// A string, for example a namespace or the name of a node.
    Text(Text),
}

impl IndexValue {
    /// Returns the value under which [`ByController`] lists the objects that `owner` controls.
    pub fn for_controller(owner: &Meta) -> Self {
        Self::Controller { namespace: owner.namespace.clone(), uid: owner.uid.clone() }
    }
}

/// A secondary index of the cached objects of one kind.
pub trait StoreIndex<K> {
    /// Returns the index value of an object; `None` omits the object. `object` is `None` if only the metadata could be decoded.
    fn value(meta: &Meta, object: Option<&K>) -> Option<IndexValue>;
    /// Returns further values of an object that is listed under several ones. Repeated values do not matter.
    fn further_values(_: &Meta, _: Option<&K>) -> Vec<IndexValue> {
        Vec::new()
    }
}

/// Lists objects by their controller, which is in the same namespace.
#[derive(Clone, Copy, Debug)]
pub struct ByController;

impl<K> StoreIndex<K> for ByController {
    fn value(meta: &Meta, _: Option<&K>) -> Option<IndexValue> {
        let controller = meta.controller()?;
        Some(IndexValue::Controller { namespace: meta.namespace.clone(), uid: controller.uid.clone() })
    }
}

/// Lists objects without a controller by their namespace.
#[derive(Clone, Copy, Debug)]
pub struct OrphansByNamespace;

impl<K> StoreIndex<K> for OrphansByNamespace {
    fn value(meta: &Meta, _: Option<&K>) -> Option<IndexValue> {
        meta.controller().is_none().then(|| IndexValue::Text(meta.namespace.clone()))
    }
}

/// Lists all objects by their namespace.
#[derive(Clone, Copy, Debug)]
pub struct ByNamespace;

impl<K> StoreIndex<K> for ByNamespace {
    fn value(meta: &Meta, _: Option<&K>) -> Option<IndexValue> {
        Some(IndexValue::Text(meta.namespace.clone()))
    }
}

/// The functions of one [`StoreIndex`], which return the values under which the index lists an object.
pub struct IndexFunctions<K> {
    value: fn(&Meta, Option<&K>) -> Option<IndexValue>,
    further_values: fn(&Meta, Option<&K>) -> Vec<IndexValue>,
}

impl<K> IndexFunctions<K> {
    fn of<I: StoreIndex<K>>() -> Self {
        Self { value: I::value, further_values: I::further_values }
    }

    /// Returns all values of an object. `object` is `None` if only the metadata could be decoded.
    pub fn values(&self, meta: &Meta, object: Option<&K>) -> IndexValues {
        IndexValues { first: (self.value)(meta, object), further: (self.further_values)(meta, object) }
    }
}

/// The values of one object in one index. Most objects have at most one, which needs no allocation.
#[derive(Debug, Default)]
pub struct IndexValues {
    first: Option<IndexValue>,
    further: Vec<IndexValue>,
}

impl IndexValues {
    /// Iterates over the values.
    pub fn iter(&self) -> impl Iterator<Item = &IndexValue> {
        self.first.iter().chain(&self.further)
    }
}

/// The secondary indexes of one kind, as a tuple of at most two index types.
pub trait StoreIndexes<K> {
    /// Returns the functions of each index, in the order of the tuple.
    fn index_functions() -> Vec<IndexFunctions<K>>;
}

impl<K> StoreIndexes<K> for () {
    fn index_functions() -> Vec<IndexFunctions<K>> {
        Vec::new()
    }
}

impl<K, A: StoreIndex<K>> StoreIndexes<K> for (A,) {
    fn index_functions() -> Vec<IndexFunctions<K>> {
        vec![IndexFunctions::of::<A>()]
    }
}

impl<K, A: StoreIndex<K>, B: StoreIndex<K>> StoreIndexes<K> for (A, B) {
    fn index_functions() -> Vec<IndexFunctions<K>> {
        vec![IndexFunctions::of::<A>(), IndexFunctions::of::<B>()]
    }
}

/// A tuple of indexes that contains `I`. The compiler infers `At`, an [`IndexPosition`].
///
/// ```compile_fail,E0277
/// use common::{pods::Pod, store::{ByNamespace, IndexValue, Store}};
/// // Pods have no indexes.
/// Store::<Pod>::default().count_by_index(ByNamespace, &IndexValue::Text("ns".into()));
/// ```
pub trait HasIndex<I, At> {
    /// Position of `I` in the tuple, from 0.
    const POSITION: usize;
}

/// Position `N` in a tuple, counted from 0, as a type. With this type, the compiler infers the position of an index.
#[derive(Debug)]
pub struct IndexPosition<const N: usize>;

impl<A> HasIndex<A, IndexPosition<0>> for (A,) {
    const POSITION: usize = 0;
}

impl<A, B> HasIndex<A, IndexPosition<0>> for (A, B) {
    const POSITION: usize = 0;
}

impl<A, B> HasIndex<B, IndexPosition<1>> for (A, B) {
    const POSITION: usize = 1;
}
