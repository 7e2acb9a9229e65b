//! The spherical quantiser: its bytes, its errors, and searches by its codes.

use crate::support::{DIMENSIONS, Graph, Numbers, clustered, clustered_of, exact, trained_as};
use orrery_ann::{Codes, Metric, Quantiser, QuantiserKind};
use std::collections::BTreeSet;

const METRICS: [Metric; 3] = [Metric::Cosine, Metric::DotProduct, Metric::Euclidean];

/// The bytes of a code besides those of the components.
const CORRECTION_BYTES: usize = 5;

fn spherical(metric: Metric, code_bytes: usize, vectors: &[Vec<f32>]) -> Quantiser {
    trained_as(QuantiserKind::Spherical, code_bytes, metric, vectors)
}

/// Returns the share of the 10 nearest vectors that is among the nearest `count` codes.
fn recall(quantiser: &Quantiser, vectors: &[Vec<f32>], queries: &[Vec<f32>], count: usize) -> f64 {
    let mut codes = Codes::new(quantiser.code_bytes());
    for (node, vector) in (0..).zip(vectors) {
        codes.insert(node, &quantiser.encode(vector));
    }
    let mut hits = 0;
    for query in queries {
        let distances = quantiser.distances(query);
        let found = codes.nearest(&distances, count, &mut || Ok(())).unwrap();
        let found: BTreeSet<u64> = found.into_iter().map(|(_, node)| node).collect();
        let truth = (0..).zip(vectors);
        let mut truth: Vec<(f32, u64)> = truth
            .map(|(node, vector)| (exact(quantiser.metric(), query, vector), node))
            .collect();
        truth.sort_by(|left, right| left.0.total_cmp(&right.0));
        hits += truth[..10]
            .iter()
            .filter(|(_, node)| found.contains(node))
            .count();
    }
    hits as f64 / (10 * queries.len()) as f64
}

/// Returns the distance that the quantiser estimates.
fn true_distance(metric: Metric, query: &[f32], vector: &[f32]) -> f32 {
    let exact = exact(metric, query, vector);
    match metric {
        Metric::Cosine => 2.0 + 2.0 * exact,
        Metric::DotProduct | Metric::Euclidean => exact,
    }
}

#[test]
fn the_bytes_of_a_code_are_the_wanted_ones_within_the_limits_of_each_kind() {
    let product = |wanted| QuantiserKind::Product.code_bytes(64, wanted);
    assert_eq!([0, 1, 16, 64, 65].map(product), [1, 1, 16, 64, 64]);
    let of_sphere = |wanted| QuantiserKind::Spherical.code_bytes(64, wanted);
    assert_eq!([0, 5, 6, 13, 69, 70].map(of_sphere), [6, 6, 6, 13, 69, 69]);
    assert_eq!(QuantiserKind::Spherical.code_bytes(1, 1), 6);

    let vectors = clustered(1, 50, 5);
    for wanted in 0..=DIMENSIONS + 6 {
        let bytes = QuantiserKind::Spherical.code_bytes(DIMENSIONS, wanted);
        let quantiser = spherical(Metric::Cosine, bytes, &vectors);
        assert_eq!(quantiser.kind(), QuantiserKind::Spherical);
        assert_eq!(quantiser.code_bytes(), bytes);
        assert_eq!(quantiser.encode(&vectors[3]).len(), bytes);
    }
}

#[test]
fn impossible_numbers_of_bytes_are_errors() {
    for (dimensions, code_bytes) in [(4, 5), (4, 10), (0, 6), (70_000, 100)] {
        let sample = vec![1.0; 70_000];
        let trained = Quantiser::train(
            QuantiserKind::Spherical,
            Metric::Cosine,
            dimensions,
            code_bytes,
            &sample,
            1,
            &mut || Ok(()),
        );
        assert!(trained.is_err());
    }
}

/// The error of an estimate is a normally distributed number: the root of the share of a vector
/// that its code loses, over the root of the dimensions, times the lengths from the mean.
#[test]
fn estimates_have_the_expected_error_and_no_bias() {
    let dimensions = 64;
    let vectors = clustered_of(dimensions, 1, 1000, 10);
    let queries = clustered_of(dimensions, 2, 20, 10);
    for metric in METRICS {
        // Bytes, and tan² of the angle between a vector and its code, by the errors of the grids.
        for (bytes, lost) in [(8, 0.571), (16, 0.135), (32, 0.0117), (64, 0.000_09)] {
            let quantiser = spherical(metric, CORRECTION_BYTES + bytes, &vectors);
            let (mut errors, mut squares, mut expected) = (0.0, 0.0, 0.0);
            let (centre, factor) = centre(metric, &vectors);
            for query in &queries {
                let distances = quantiser.distances(query);
                for vector in &vectors {
                    let estimate = distances.to(&quantiser.encode(vector));
                    let error = f64::from(estimate - true_distance(metric, query, vector));
                    errors += error;
                    squares += error * error;
                    let lengths = length(metric, query, &centre) * length(metric, vector, &centre);
                    expected += factor * factor * lengths * lengths * lost / dimensions as f64;
                }
            }
            let count = (queries.len() * vectors.len()) as f64;
            assert!(
                squares < 1.5 * expected,
                "{metric:?} {bytes}: {squares} {expected}"
            );
            let (bias, deviation) = (errors / count, (expected / count).sqrt());
            assert!(
                bias.abs() < 0.1 * deviation,
                "{metric:?} {bytes}: {bias} {deviation}"
            );
        }
    }
}

/// Returns the mean of the vectors in the form in which they are compared, and the factor of inner
/// products in distances.
fn centre(metric: Metric, vectors: &[Vec<f32>]) -> (Vec<f64>, f64) {
    let mut centre = vec![0.0; vectors[0].len()];
    for vector in vectors {
        for (sum, component) in centre.iter_mut().zip(compared(metric, vector)) {
            *sum += component / vectors.len() as f64;
        }
    }
    let factor = if metric == Metric::DotProduct {
        1.0
    } else {
        2.0
    };
    (centre, factor)
}

fn compared(metric: Metric, vector: &[f32]) -> Vec<f64> {
    let squares: f64 = vector
        .iter()
        .map(|&component| f64::from(component).powi(2))
        .sum();
    let norm = if metric == Metric::Cosine {
        squares.sqrt()
    } else {
        1.0
    };
    vector
        .iter()
        .map(|&component| f64::from(component) / norm)
        .collect()
}

fn length(metric: Metric, vector: &[f32], centre: &[f64]) -> f64 {
    let components = compared(metric, vector).into_iter().zip(centre);
    components
        .map(|(left, right)| (left - right).powi(2))
        .sum::<f64>()
        .sqrt()
}

#[test]
fn the_distance_of_a_vector_from_its_own_code_is_exact() {
    let mut vectors = clustered(1, 300, 10);
    vectors.push(vec![0.0; DIMENSIONS]);
    for metric in METRICS {
        for bytes in [6, 8, 11, 17, 29] {
            let quantiser = spherical(metric, bytes, &vectors);
            for vector in &vectors {
                let distance = quantiser.distances(vector).to(&quantiser.encode(vector));
                let exact = if metric == Metric::DotProduct {
                    exact(metric, vector, vector)
                } else {
                    0.0
                };
                assert!(
                    (distance - exact).abs() < 2e-4,
                    "{metric:?} {bytes}: {distance} {exact}"
                );
            }
        }
    }
}

/// Vectors on one axis, far from zero, have the worst components for a grid; the rotation and the
/// mean make them as good as others.
#[test]
fn vectors_far_from_zero_on_few_axes_are_told_apart() {
    for dimensions in [1, 2, 3, 5, 24, 47, 96] {
        let mut numbers = Numbers(3);
        let vectors: Vec<Vec<f32>> = (0..500)
            .map(|_| {
                let mut vector = vec![100.0; dimensions];
                vector[0] += numbers.component();
                vector
            })
            .collect();
        let bytes = QuantiserKind::Spherical.code_bytes(dimensions, dimensions);
        let quantiser = spherical(Metric::Euclidean, bytes, &vectors);
        let recall = recall(&quantiser, &vectors, &vectors[..20], 30);
        assert!(recall > 0.95, "{dimensions}: {recall}");
    }
}

#[test]
fn a_scan_has_the_nearest_among_its_first_for_each_number_of_bits() {
    let dimensions = 128;
    let vectors = clustered_of(dimensions, 1, 2000, 40);
    let queries = clustered_of(dimensions, 2, 20, 40);
    for metric in METRICS {
        for (bytes, floor) in [(16, 0.85), (32, 0.95), (64, 0.99), (128, 0.99)] {
            let quantiser = spherical(metric, CORRECTION_BYTES + bytes, &vectors);
            let recall = recall(&quantiser, &vectors, &queries, 40);
            assert!(recall > floor, "{metric:?} {bytes}: {recall}");
        }
    }
}

#[test]
fn a_code_of_as_many_bytes_is_about_as_good_as_one_of_the_product_quantiser() {
    let dimensions = 128;
    let vectors = clustered_of(dimensions, 1, 2000, 40);
    let queries = clustered_of(dimensions, 2, 20, 40);
    for metric in METRICS {
        for bytes in [21, 32] {
            let of_kind = |kind| {
                let quantiser = trained_as(kind, bytes, metric, &vectors);
                recall(&quantiser, &vectors, &queries, 40)
            };
            let product = of_kind(QuantiserKind::Product);
            let spherical = of_kind(QuantiserKind::Spherical);
            assert!(
                spherical > product - 0.05,
                "{metric:?} {bytes}: {spherical} {product}"
            );
        }
    }
}

#[test]
fn a_graph_by_spherical_codes_finds_about_as_many_as_one_by_product_codes() {
    let queries = clustered(2, 50, 30);
    for metric in METRICS {
        let vectors = clustered(1, 1000, 30);
        for bytes in [11, 17, 29] {
            let graph = Graph::linked(spherical(metric, bytes, &vectors), &vectors);
            let by_graph = graph.recall(&queries, |query| graph.search(query, 60));
            let by_scan = graph.recall(&queries, |query| {
                let distances = graph.quantiser.distances(query);
                let found = graph.codes.nearest(&distances, 60, &mut || Ok(())).unwrap();
                found.into_iter().map(|(_, node)| node).collect()
            });
            assert!(
                by_graph > by_scan - 0.03,
                "{metric:?} {bytes}: {by_graph} {by_scan}"
            );
            if bytes > 11 {
                let product = Graph::of(metric, &vectors);
                let product = product.recall(&queries, |query| product.search(query, 60));
                assert!(
                    by_graph > product - 0.03,
                    "{metric:?} {bytes}: {by_graph} {product}"
                );
            }
        }
    }
}

/// Vectors without clusters show a graph with too few edges, which clusters hide.
#[test]
fn a_graph_of_vectors_without_clusters_and_its_changes_keep_their_quality() {
    let vectors = clustered(1, 1500, 2000);
    let queries = clustered(2, 50, 2000);
    let mut graph = Graph::linked(spherical(Metric::Cosine, 17, &vectors), &vectors);
    let before = graph.recall(&queries, |query| graph.search(query, 60));
    graph.replace_first(&clustered(3, 600, 2000));
    let after = graph.recall(&queries, |query| graph.search(query, 60));
    assert!(
        before > 0.9 && after > before - 0.03,
        "{before} became {after}"
    );
}

#[test]
fn equal_vectors_are_all_found_by_equal_codes() {
    for metric in METRICS {
        let mut vectors = clustered(1, 300, 20);
        let twin = vectors[10].clone();
        vectors.extend(vec![twin.clone(); 60]);
        let graph = Graph::linked(spherical(metric, 17, &vectors), &vectors);
        let found = graph.search(&twin, 100);
        let is_twin = |node: &&u64| **node == 10 || **node >= 300;
        let twins = found.iter().filter(is_twin).count();
        assert!(twins >= 60, "{metric:?}: {twins}");
    }
    let graph_of_equal = vec![vec![0.5; DIMENSIONS]; 200];
    let quantiser = spherical(Metric::Euclidean, 17, &graph_of_equal);
    let graph = Graph::linked(quantiser, &graph_of_equal);
    let found = graph.search(&[0.5; DIMENSIONS], 200).len();
    assert!(found >= 195, "{found}");
}

#[test]
fn equal_arguments_give_equal_quantisers_and_codes_and_another_seed_gives_others() {
    let vectors = clustered(1, 100, 10);
    let sample: Vec<f32> = vectors.iter().flatten().copied().collect();
    let train = |seed| {
        Quantiser::train(
            QuantiserKind::Spherical,
            Metric::Euclidean,
            DIMENSIONS,
            11,
            &sample,
            seed,
            &mut || Ok(()),
        )
        .unwrap()
    };
    assert_eq!(train(1).to_bytes(), train(1).to_bytes());
    assert_eq!(train(1).encode(&vectors[0]), train(1).encode(&vectors[0]));
    assert_ne!(train(1).encode(&vectors[0]), train(2).encode(&vectors[0]));
}

/// Codes are stored, so the same seed must give the same rotation and grid in every version.
#[test]
fn codes_stay_the_same_in_all_versions() {
    let sample: Vec<f32> = (0..60).map(|number| (number * number) as f32).collect();
    for (dimensions, code) in [
        (4, [181, 97, 94, 29, 137, 52, 158, 74]),
        (6, [126, 152, 149, 20, 137, 234, 220, 74]),
        (20, [8, 188, 225, 77, 135, 182, 173, 73]),
    ] {
        let quantiser = Quantiser::train(
            QuantiserKind::Spherical,
            Metric::Euclidean,
            dimensions,
            8,
            &sample,
            7,
            &mut || Ok(()),
        );
        assert_eq!(quantiser.unwrap().encode(&sample[dimensions..]), code);
    }
}

#[test]
fn a_spherical_quantiser_is_read_as_it_was_written() {
    for metric in METRICS {
        let vectors = clustered(1, 100, 10);
        let written = spherical(metric, 13, &vectors);
        let bytes = written.to_bytes();
        let read = Quantiser::from_bytes(&bytes).unwrap();
        assert_eq!(read.to_bytes(), bytes);
        assert_eq!(
            (
                read.kind(),
                read.metric(),
                read.dimensions(),
                read.code_bytes()
            ),
            (QuantiserKind::Spherical, metric, DIMENSIONS, 13)
        );
        let code = read.encode(&vectors[1]);
        assert_eq!(code, written.encode(&vectors[1]));
        let distance = read.distances(&vectors[2]).to(&code);
        assert_eq!(distance, written.distances(&vectors[2]).to(&code));
        // Bytes behind a code do not count.
        let longer = [&code[..], &[7; 8]].concat();
        assert_eq!(distance, read.distances(&vectors[2]).to(&longer));
    }
}

#[test]
fn damaged_bytes_are_no_spherical_quantiser() {
    let bytes = spherical(Metric::Cosine, 11, &clustered(1, 20, 5)).to_bytes();
    for length in 0..bytes.len() {
        assert!(Quantiser::from_bytes(&bytes[..length]).is_none());
    }
    let body = &bytes[..bytes.len() - 4];
    for place in 0..body.len() {
        for value in [0, 1, 2, 0x7f, 0xff] {
            let mut damaged = body.to_vec();
            damaged[place] = value;
            let is_changed = damaged != body;
            assert!(!is_changed || Quantiser::from_bytes(&with_sum(&damaged, &bytes)).is_none());
            // With the right checksum a component may be any number, so some are read.
            let sum = crc32fast::hash(&damaged);
            damaged.extend(sum.to_le_bytes());
            if let Some(read) = Quantiser::from_bytes(&damaged) {
                let code = read.encode(&[1.0; DIMENSIONS]);
                assert_eq!(code.len(), read.code_bytes());
                assert!(read.distances(&[1.0; DIMENSIONS]).to(&code).is_finite());
            }
        }
    }
}

/// Appends the checksum of other bytes.
fn with_sum(body: &[u8], other: &[u8]) -> Vec<u8> {
    [body, &other[other.len() - 4..]].concat()
}

#[test]
fn damaged_codes_have_finite_distances_and_do_not_stop_an_edit() {
    for metric in METRICS {
        let vectors = clustered(1, 200, 5);
        let mut graph = Graph::linked(spherical(metric, 11, &vectors), &vectors);
        let distances = graph.quantiser.distances(&vectors[0]);
        let mut numbers = Numbers(4);
        for node in 0..100 {
            let mut code: Vec<u8> = (0..11).map(|_| numbers.next() as u8).collect();
            match node % 4 {
                0 => code[6..].fill(0xff),
                1 => code[6..].copy_from_slice(&[0x80, 0x7f, 0, 0xc0, 0x7f]),
                2 => code[6..].copy_from_slice(&[0x7f, 0x7f, 0xff, 0x7f, 0xff]),
                _ => {}
            }
            assert!(distances.to(&code).is_finite());
            assert!(distances.to(&code[..node % 11]).is_finite());
            graph.codes.insert(node as u64, &code);
        }
        let removed: Vec<u64> = (50..150).collect();
        graph.change(&removed, &[(900, vectors[0].clone())]);
        assert!(!graph.search(&vectors[0], 50).is_empty());
    }
}

#[test]
fn odd_vectors_have_codes_and_finite_distances() {
    let odd = [
        vec![],
        vec![1.0; 3],
        vec![0.0; DIMENSIONS],
        vec![f32::MIN_POSITIVE; DIMENSIONS],
        vec![1e-30; DIMENSIONS],
        vec![f32::MAX; DIMENSIONS],
        vec![f32::INFINITY; 100],
        vec![f32::NEG_INFINITY; DIMENSIONS],
        vec![f32::NAN; DIMENSIONS],
    ];
    for metric in METRICS {
        for sample in [
            clustered(1, 100, 5),
            vec![vec![0.0; DIMENSIONS]],
            vec![odd[5].clone()],
        ] {
            for bytes in [6, 11, 29] {
                let quantiser = spherical(metric, bytes, &sample);
                for vector in &odd {
                    let code = quantiser.encode(vector);
                    for query in &odd {
                        let distance = quantiser.distances(query).to(&code);
                        // The longest finite number stands for a distance that is none.
                        assert!(distance.abs() < f32::MAX, "{metric:?} {bytes}");
                    }
                }
            }
        }
    }
}
