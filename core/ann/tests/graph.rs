//! Searches and edits of graphs.

use crate::support::{DIMENSIONS, Graph, Numbers, Stored, clustered, trained};
use orrery_ann::{ENTRY, Found, Metric, append_list, read_list};
use std::collections::BTreeSet;

#[test]
fn a_search_finds_nearly_all_of_the_nearest_nodes_for_each_metric() {
    for metric in [Metric::Cosine, Metric::DotProduct, Metric::Euclidean] {
        let graph = Graph::of(metric, &clustered(1, 1000, 30));
        let queries = clustered(2, 50, 30);
        let recall = graph.recall(&queries, |query| graph.search(query, 60));
        assert!(recall > 0.95, "{metric:?}: {recall}");
    }
}

/// Vectors without clusters show a graph with too few edges, which clusters hide.
#[test]
fn a_search_among_vectors_without_clusters_finds_nearly_all() {
    let graph = Graph::of(Metric::Cosine, &clustered(1, 1500, 2000));
    let queries = clustered(2, 50, 2000);
    let recall = graph.recall(&queries, |query| graph.search(query, 60));
    assert!(recall > 0.9, "{recall}");
    let edges: usize = graph.stored.lists.values().map(Vec::len).sum();
    assert!(edges > 20 * 1500, "{edges}");
    assert_eq!(graph.search(&queries[0], 1500).len(), 1500);
}

/// Short vectors are near to all others, and must not take all edges.
#[test]
fn a_search_among_short_and_long_vectors_finds_most() {
    let mut numbers = Numbers(6);
    let mut vectors = clustered(1, 1000, 2000);
    for vector in &mut vectors {
        let scale = 0.5 + (numbers.next() % 256) as f32 / 128.0;
        vector.iter_mut().for_each(|component| *component *= scale);
    }
    for (metric, floor) in [(Metric::DotProduct, 0.9), (Metric::Euclidean, 0.85)] {
        let graph = Graph::of(metric, &vectors);
        let queries = clustered(2, 50, 2000);
        let recall = graph.recall(&queries, |query| graph.search(query, 60));
        assert!(recall > floor, "{metric:?}: {recall}");
    }
}

#[test]
fn a_search_reads_few_lists_and_reports_them() {
    let graph = Graph::of(Metric::Euclidean, &clustered(1, 1000, 30));
    let found = graph.view().search(&clustered(2, 1, 30)[0], 20).unwrap();
    assert_eq!(found.nodes.len(), 20);
    assert!(found.nodes.is_sorted_by(|left, right| left.0 <= right.0));
    assert!((20..60).contains(&found.lists_read), "{}", found.lists_read);
    assert!((100..1000).contains(&found.compared), "{}", found.compared);
}

#[test]
fn the_graph_stays_good_when_half_of_its_nodes_are_replaced() {
    let vectors = clustered(1, 1000, 30);
    let mut graph = Graph::of(Metric::Cosine, &vectors);
    let queries = clustered(2, 50, 30);
    let before = graph.recall(&queries, |query| graph.search(query, 60));
    graph.replace_first(&clustered(3, 500, 30));
    let after = graph.recall(&queries, |query| graph.search(query, 60));
    assert!(
        after > 0.93 && after > before - 0.03,
        "{before} became {after}"
    );
    for query in &queries {
        let found = graph.search(query, 100);
        assert!(found.iter().all(|node| graph.vectors.contains_key(node)));
    }
    // Few lists name a removed node, and none of the removed nodes has a list.
    let dead = |node: &u64| *node != ENTRY && !graph.vectors.contains_key(node);
    let lists = &graph.stored.lists;
    assert!(!lists.keys().any(dead));
    let edges = lists.values().map(Vec::len).sum::<usize>();
    let dead_edges = lists.values().flatten().filter(|node| dead(node)).count();
    assert!(dead_edges * 20 < edges, "{dead_edges} of {edges}");
    assert!(!lists[&ENTRY].iter().any(dead));
}

#[test]
fn the_nodes_at_which_searches_begin_can_all_be_removed() {
    let mut graph = Graph::of(Metric::Euclidean, &clustered(1, 300, 300));
    for _ in 0..3 {
        let first = graph.stored.lists[&ENTRY].clone();
        graph.change(&first, &[]);
        let left = graph.codes.len();
        let found = graph.search(&[0.0; DIMENSIONS], 300).len();
        assert!(found + 3 >= left, "{found} of {left}");
    }
}

#[test]
fn a_list_that_changes_loses_its_removed_nodes() {
    let mut graph = Graph::of(Metric::Euclidean, &clustered(1, 300, 5));
    for list in graph.stored.lists.values_mut() {
        list.push(5_000);
    }
    graph.change(&[], &[(400, clustered(9, 1, 5).remove(0))]);
    let changed: Vec<_> = graph
        .stored
        .lists
        .values()
        .filter(|list| list.contains(&400))
        .collect();
    assert!(!changed.is_empty());
    assert!(!changed.iter().any(|list| list.contains(&5_000)));
}

#[test]
fn a_node_that_is_linked_again_has_the_new_vector_only() {
    let vectors = clustered(1, 300, 5);
    let mut graph = Graph::of(Metric::Euclidean, &vectors);
    let far = vec![3.0; DIMENSIONS];
    graph.change(&[], &[(7, far.clone())]);
    graph.change(
        &[],
        &[(8, far.clone()), (8, vectors[8].clone()), (8, far.clone())],
    );
    let found = graph.search(&far, 300);
    assert_eq!(found[..2], [7, 8]);
    let different: BTreeSet<_> = found.iter().collect();
    assert_eq!(different.len(), found.len());
    assert!(found.len() >= 295, "{}", found.len());
}

#[test]
fn unlinking_an_unknown_node_changes_nothing() {
    let graph = Graph::of(Metric::Euclidean, &clustered(1, 50, 5));
    let mut edit = graph.edit();
    edit.unlink(4_711).unwrap();
    edit.unlink(ENTRY - 1).unwrap();
    let changes = edit.into_changes();
    assert!(changes.lists.is_empty() && changes.codes.is_empty());
}

#[test]
fn small_graphs_are_complete_and_can_become_empty() {
    let vectors = clustered(1, 3, 3);
    for count in 1..=3 {
        let mut graph = Graph::of(Metric::Cosine, &vectors[..count]);
        let all: Vec<u64> = (0..count as u64).collect();
        for vector in &vectors {
            let mut found = graph.search(vector, 10);
            found.sort_unstable();
            assert_eq!(found, all);
        }
        graph.change(&all, &[]);
        assert!(graph.search(&vectors[0], 10).is_empty());
        assert!(graph.codes.is_empty());
        graph.change(&[], &[(9, vectors[0].clone())]);
        assert_eq!(graph.search(&vectors[0], 10), [9]);
    }
}

#[test]
fn an_empty_graph_and_an_empty_list_find_nothing() {
    let vectors = clustered(1, 10, 3);
    let graph = Graph::new(trained(Metric::Cosine, &vectors));
    assert_eq!(
        graph.view().search(&vectors[0], 10).unwrap(),
        Found::default()
    );
    let graph = Graph::of(Metric::Cosine, &vectors);
    assert_eq!(
        graph.view().search(&vectors[0], 0).unwrap(),
        Found::default()
    );
}

#[test]
fn equal_vectors_are_all_found() {
    let mut graph = Graph::of(Metric::Euclidean, &vec![vec![0.5; DIMENSIONS]; 400]);
    let found = graph.search(&[0.5; DIMENSIONS], 400).len();
    assert!(found >= 395, "{found}");
    assert_eq!(graph.search(&[0.5; DIMENSIONS], 50).len(), 50);
    // Each has several neighbours, so the graph does not hang on single edges.
    let edges: usize = graph.stored.lists.values().map(Vec::len).sum();
    assert!(edges > 5 * 400, "{edges}");
    let removed: Vec<u64> = (0..200).collect();
    graph.change(&removed, &[]);
    let found = graph.search(&[0.5; DIMENSIONS], 200).len();
    assert!(found >= 195, "{found}");
}

#[test]
fn groups_of_equal_vectors_among_others_are_all_found() {
    let mut vectors = clustered(1, 1000, 20);
    let twin = vectors[10].clone();
    vectors.extend(vec![twin.clone(); 60]);
    let graph = Graph::of(Metric::Cosine, &vectors);
    let found = graph.search(&twin, 100);
    let twins = found
        .iter()
        .filter(|&&node| node == 10 || node >= 1000)
        .count();
    assert!(twins >= 60, "{twins}");
}

#[test]
fn zero_vectors_under_the_cosine_have_distances() {
    let mut vectors = clustered(1, 200, 5);
    for vector in vectors.iter_mut().step_by(4) {
        vector.fill(0.0);
    }
    let graph = Graph::of(Metric::Cosine, &vectors);
    for query in [vec![0.0; DIMENSIONS], vectors[1].clone()] {
        let found = graph.view().search(&query, 50).unwrap();
        assert_eq!(found.nodes.len(), 50);
        assert!(found.nodes.iter().all(|(distance, _)| distance.is_finite()));
    }
    let zeros = graph.search(&[0.0; DIMENSIONS], 40);
    assert!(zeros.iter().all(|node| node % 4 == 0), "{zeros:?}");
}

#[test]
fn vectors_of_wrong_lengths_and_infinite_components_are_bounded() {
    let mut graph = Graph::of(Metric::Euclidean, &clustered(1, 100, 5));
    let odd = [
        vec![],
        vec![1.0; 3],
        vec![f32::INFINITY; 100],
        vec![f32::NAN; DIMENSIONS],
    ];
    graph.change(&[], &(500..).zip(odd.clone()).collect::<Vec<_>>());
    for vector in odd {
        let found = graph.view().search(&vector, 104).unwrap().nodes;
        assert!(found.len() >= 100, "{}", found.len());
        assert!(found.iter().all(|(distance, _)| distance.is_finite()));
    }
}

#[test]
fn an_edit_leaves_codes_and_lists_as_they_are() {
    let graph = Graph::of(Metric::Cosine, &clustered(1, 200, 5));
    let lists = graph.stored.lists.clone();
    let codes: Vec<(u64, Vec<u8>)> = graph
        .codes
        .iter()
        .map(|(node, code)| (node, code.to_vec()))
        .collect();
    let mut edit = graph.edit();
    for node in 0..50 {
        edit.unlink(node).unwrap();
        edit.link(1000 + node, &clustered(node, 1, 5)[0]).unwrap();
    }
    let changes = edit.into_changes();
    assert_eq!(graph.stored.lists, lists);
    let now = graph.codes.iter().map(|(node, code)| (node, code.to_vec()));
    assert!(now.eq(codes));
    // All removed lists and codes are among the changes.
    for node in 0..50 {
        assert!(changes.lists[&node].is_empty());
        assert_eq!(changes.codes[&node], None);
        assert!(changes.codes[&(1000 + node)].is_some());
    }
}

#[test]
fn equal_history_gives_an_equal_graph() {
    let build = || {
        let mut graph = Graph::of(Metric::DotProduct, &clustered(1, 400, 10));
        graph.change(
            &(100..200).collect::<Vec<_>>(),
            &[(7, clustered(8, 1, 10).remove(0))],
        );
        graph
    };
    assert_eq!(build().stored.lists, build().stored.lists);
}

#[test]
fn a_node_that_lost_its_code_is_removed_by_its_list() {
    let mut graph = Graph::of(Metric::Euclidean, &clustered(1, 300, 5));
    let first = graph.stored.lists[&ENTRY][0];
    let removed: Vec<u64> = (50..100).chain([first]).collect();
    for &node in &removed {
        graph.codes.remove(node);
    }
    graph.change(&removed, &[]);
    let lists = &graph.stored.lists;
    let is_removed = |node: &u64| removed.contains(node);
    assert!(!lists.keys().any(is_removed) && !lists[&ENTRY].iter().any(is_removed));
    let edges = lists.values().map(Vec::len).sum::<usize>();
    let dead = lists
        .values()
        .flatten()
        .filter(|node| is_removed(node))
        .count();
    assert!(dead * 10 < edges, "{dead} of {edges}");
}

#[test]
fn a_code_without_a_list_changes_no_link() {
    let vectors = clustered(1, 300, 5);
    let changes = |known: bool| {
        let mut graph = Graph::of(Metric::Euclidean, &vectors);
        if known {
            let code = graph.quantiser.encode(&vectors[3]);
            graph.codes.insert(900, &code);
        }
        let mut edit = graph.edit();
        edit.link(900, &vectors[3]).unwrap();
        edit.unlink(ENTRY).unwrap();
        edit.into_changes().lists
    };
    assert_eq!(changes(true), changes(false));
}

#[test]
fn an_edit_reads_each_list_once() {
    let graph = Graph::of(Metric::Euclidean, &clustered(1, 300, 5));
    graph
        .stored
        .reads
        .store(0, std::sync::atomic::Ordering::Relaxed);
    let mut edit = graph.edit();
    for (node, vector) in (1000..).zip(clustered(4, 50, 5)) {
        edit.link(node, &vector).unwrap();
    }
    assert!(
        graph
            .stored
            .reads
            .load(std::sync::atomic::Ordering::Relaxed)
            <= 351
    );
}

#[test]
fn errors_of_the_lists_are_returned() {
    let mut graph = Graph::of(Metric::Euclidean, &clustered(1, 50, 5));
    graph.stored = Stored {
        fails: true,
        ..Stored::default()
    };
    let vector = clustered(3, 1, 5).remove(0);
    let cause = |error: orrery_model::Error| format!("{error:?}");
    assert!(cause(graph.view().search(&vector, 10).unwrap_err()).contains("the disk is gone"));
    let mut edit = graph.edit();
    assert!(cause(edit.link(100, &vector).unwrap_err()).contains("the disk is gone"));
    assert!(cause(edit.unlink(3).unwrap_err()).contains("the disk is gone"));
    assert!(edit.link(ENTRY, &vector).is_err());
}

#[test]
fn lists_with_repetitions_and_unknown_nodes_do_no_harm() {
    let mut graph = Graph::of(Metric::Euclidean, &clustered(1, 200, 5));
    for list in graph.stored.lists.values_mut() {
        let again = list.clone();
        list.extend(again);
        list.extend([77_777, 77_777, ENTRY]);
    }
    graph.change(&[3, 5], &[(300, clustered(3, 1, 5).remove(0))]);
    assert_eq!(graph.search(&clustered(4, 1, 5)[0], 50).len(), 50);
}

#[test]
fn the_stored_form_of_a_graph_is_small() {
    let graph = Graph::of(Metric::Euclidean, &clustered(1, 1000, 20));
    for list in graph.stored.lists.values() {
        assert!(list.len() <= 41);
        let mut bytes = Vec::new();
        append_list(list, &mut bytes);
        assert!(bytes.len() < 2 * 41 + 10);
        assert_eq!(read_list(&bytes).as_ref(), Some(list));
    }
}
