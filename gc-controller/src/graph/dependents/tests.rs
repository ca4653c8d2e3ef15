use super::*;

proptest::proptest! {
    #[test]
    fn dependents_behave_like_a_set(steps in proptest::collection::vec((proptest::bool::ANY, 0u32..80), 0..400)) {
        let (mut dependents, mut model) = (Dependents::default(), BTreeSet::new());
        for (insert, id) in steps {
            let id = GraphNodeId(id);
            if insert {
                dependents.insert(id);
                model.insert(id);
            } else {
                dependents.remove(id);
                model.remove(&id);
            }
            assert_eq!(dependents.contains(id), insert);
            assert_eq!(dependents.iter().collect::<BTreeSet<_>>(), model);
            assert_eq!((dependents.len(), dependents.is_empty()), (model.len(), model.is_empty()));
        }
    }
}
