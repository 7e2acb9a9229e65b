//! Codes in memory, and the comparison of all of them.

use crate::support::{CODE_BYTES, Graph, clustered, exact};
use orrery_ann::{Codes, ENTRY, Metric};
use orrery_model::Error;

#[test]
fn slots_of_removed_codes_are_used_again() {
    let mut codes = Codes::new(2);
    for node in 0..1000 {
        codes.insert(node, &[node as u8, 1]);
    }
    let memory = codes.memory_bytes();
    for round in 1..20 {
        for node in 0..500 {
            codes.remove((round - 1) * 1000 + node);
            codes.insert((round * 1000) + node, &[7, 7]);
        }
    }
    assert_eq!(codes.len(), 1000);
    assert!(
        codes.memory_bytes() <= 2 * memory,
        "{memory} became {}",
        codes.memory_bytes()
    );
    assert_eq!(codes.get(19_003), Some(&[7, 7][..]));
    assert_eq!(codes.get(700), Some(&[700_u64 as u8, 1][..]));
    assert_eq!(codes.get(3), None);
    assert_eq!(codes.iter().count(), 1000);
}

#[test]
fn a_code_has_its_length_whatever_is_inserted() {
    let mut codes = Codes::new(3);
    codes.insert(1, &[9]);
    codes.insert(2, &[1, 2, 3, 4]);
    codes.insert(2, &[5]);
    codes.insert(ENTRY, &[1, 2, 3]);
    codes.remove(4);
    assert_eq!(codes.get(1), Some(&[9, 0, 0][..]));
    assert_eq!(codes.get(2), Some(&[5, 0, 0][..]));
    assert_eq!(
        (codes.len(), codes.is_empty(), codes.get(ENTRY)),
        (2, false, None)
    );
}

#[test]
fn the_nearest_codes_are_ascending_and_complete() {
    let graph = Graph::of(Metric::Euclidean, &clustered(1, 500, 10));
    let query = &clustered(2, 1, 10)[0];
    let distances = graph.quantiser.distances(query);
    let found = graph.codes.nearest(&distances, 20, &mut || Ok(())).unwrap();
    let mut all: Vec<_> = graph
        .codes
        .iter()
        .map(|(node, code)| (distances.to(code), node))
        .collect();
    all.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    assert_eq!(found, all[..20]);
    assert_eq!(
        graph
            .codes
            .nearest(&distances, 1000, &mut || Ok(()))
            .unwrap(),
        all
    );
    assert_eq!(
        graph.codes.nearest(&distances, 0, &mut || Ok(())).unwrap(),
        []
    );
}

#[test]
fn a_scan_of_codes_has_the_nearest_among_its_first() {
    for metric in [Metric::Cosine, Metric::DotProduct, Metric::Euclidean] {
        let vectors = clustered(1, 1500, 30);
        let mut graph = Graph::new(crate::support::trained(metric, &vectors));
        for (node, vector) in (0..).zip(vectors) {
            graph.codes.insert(node, &graph.quantiser.encode(&vector));
            graph.vectors.insert(node, vector);
        }
        let queries = clustered(2, 50, 30);
        let recall = graph.recall(&queries, |query| {
            let distances = graph.quantiser.distances(query);
            let found = graph.codes.nearest(&distances, 50, &mut || Ok(())).unwrap();
            found.into_iter().map(|(_, node)| node).collect()
        });
        assert!(recall > 0.97, "{metric:?}: {recall}");
    }
}

#[test]
fn a_scan_can_be_cancelled() {
    let mut codes = Codes::new(CODE_BYTES);
    for node in 0..10_000 {
        codes.insert(node, &[1; CODE_BYTES]);
    }
    let graph = Graph::of(Metric::Euclidean, &clustered(1, 10, 10));
    let distances = graph.quantiser.distances(&[0.0]);
    let mut calls = 0;
    let result = codes.nearest(&distances, 5, &mut || {
        calls += 1;
        if calls == 2 {
            Err(Error::internal("cancelled"))
        } else {
            Ok(())
        }
    });
    assert!(result.is_err() && calls == 2);
}

#[test]
fn the_order_by_codes_is_that_of_the_metric() {
    // With as many centroids as vectors, a code stands for its vector exactly.
    let vectors = clustered(1, 50, 10);
    for metric in [Metric::Cosine, Metric::DotProduct, Metric::Euclidean] {
        let graph = Graph::of(metric, &vectors);
        let query = &clustered(2, 1, 10)[0];
        let distances = graph.quantiser.distances(query);
        let found = graph.codes.nearest(&distances, 50, &mut || Ok(())).unwrap();
        let nodes: Vec<u64> = found.into_iter().map(|(_, node)| node).collect();
        assert_eq!(nodes, graph.nearest(query, 50));
        let first = exact(metric, query, &vectors[nodes[0] as usize]);
        let last = exact(metric, query, &vectors[nodes[49] as usize]);
        assert!(first < last);
    }
}
