//! The quantiser: training, the stored form, and distances.

use crate::support::{Numbers, clustered, exact, trained};
use orrery_ann::{Metric, Quantiser, QuantiserKind};
use orrery_model::Error;

fn train(dimensions: usize, code_bytes: usize, sample: &[f32], seed: u64) -> Quantiser {
    Quantiser::train(
        QuantiserKind::Product,
        Metric::Euclidean,
        dimensions,
        code_bytes,
        sample,
        seed,
        &mut || Ok(()),
    )
    .unwrap()
}

fn random(seed: u64, count: usize) -> Vec<f32> {
    let mut numbers = Numbers(seed);
    (0..count).map(|_| numbers.component()).collect()
}

#[test]
fn equal_samples_and_seeds_give_equal_quantisers() {
    let sample = random(1, 7 * 500);
    assert_eq!(
        train(7, 3, &sample, 1).to_bytes(),
        train(7, 3, &sample, 1).to_bytes()
    );
    assert_ne!(
        train(7, 3, &sample, 1).to_bytes(),
        train(7, 3, &sample, 2).to_bytes()
    );
}

#[test]
fn a_quantiser_is_read_as_it_was_written() {
    for (dimensions, code_bytes, vectors) in [(7, 3, 500), (1, 1, 1), (5, 5, 3), (64, 16, 40)] {
        let written = train(dimensions, code_bytes, &random(1, dimensions * vectors), 1);
        let bytes = written.to_bytes();
        let read = Quantiser::from_bytes(&bytes).unwrap();
        assert_eq!(read.to_bytes(), bytes);
        assert_eq!(
            (read.dimensions(), read.code_bytes()),
            (dimensions, code_bytes)
        );
        let vector = random(2, dimensions);
        assert_eq!(read.encode(&vector), written.encode(&vector));
        let code = read.encode(&vector);
        let distance = read.distances(&vector).to(&code);
        assert_eq!(distance, written.distances(&vector).to(&code));
        // Bytes behind a code do not count.
        let longer = [&code[..], &[7; 8]].concat();
        assert_eq!(distance, read.distances(&vector).to(&longer));
    }
}

/// The form of the first version, which had no other kind.
#[test]
fn the_first_stored_form_is_a_product_quantiser() {
    let mut bytes = vec![1, 2];
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend([1, 0]);
    let chunks: [&[f32]; 2] = [&[0.5, 0.0, 1.5, 2.0, -1.0, 0.0], &[3.0, 4.0]];
    for (chunk, width) in chunks.into_iter().zip([2, 1]) {
        bytes.extend((chunk.len() as u16 / width).to_le_bytes());
        bytes.extend(chunk.iter().flat_map(|component| component.to_le_bytes()));
    }
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    let read = Quantiser::from_bytes(&bytes).unwrap();
    assert_eq!(
        (read.kind(), read.metric()),
        (QuantiserKind::Product, Metric::Euclidean)
    );
    assert_eq!(read.encode(&[1.5, 2.0, 4.0]), [1, 1]);
    assert_eq!(read.distances(&[1.5, 0.0, 4.0]).to(&[2, 0]), 6.25 + 1.0);
    assert_eq!(read.to_bytes(), bytes);
}

#[test]
fn damaged_bytes_are_no_quantiser() {
    let bytes = train(7, 3, &random(1, 7 * 20), 1).to_bytes();
    for length in 0..bytes.len() {
        assert!(Quantiser::from_bytes(&bytes[..length]).is_none());
    }
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x41;
        assert!(Quantiser::from_bytes(&damaged).is_none(), "{place}");
    }
    assert!(Quantiser::from_bytes(&[&bytes[..], &[0]].concat()).is_none());
}

#[test]
fn a_damaged_head_with_the_right_checksum_is_no_quantiser() {
    let bytes = train(7, 3, &random(1, 7 * 20), 1).to_bytes();
    let body = &bytes[..bytes.len() - 4];
    for place in 0..body.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = body.to_vec();
            damaged[place] = value;
            let sum = crc32fast::hash(&damaged);
            damaged.extend(sum.to_le_bytes());
            // A component may be any number, so some of these are read; none may panic.
            if let Some(read) = Quantiser::from_bytes(&damaged) {
                assert!(read.code_bytes() <= read.dimensions());
                let code = read.encode(&[1.0; 7]);
                assert!(!read.distances(&[1.0; 7]).to(&code).is_nan());
            }
        }
    }
}

#[test]
fn a_distance_is_that_of_the_vector_of_the_code() {
    // With as many centroids as vectors, a code stands for its vector exactly.
    let vectors = clustered(1, 100, 10);
    let query = &clustered(2, 1, 10)[0];
    for metric in [Metric::DotProduct, Metric::Euclidean] {
        let quantiser = trained(metric, &vectors);
        let distances = quantiser.distances(query);
        for vector in &vectors {
            let distance = distances.to(&quantiser.encode(vector));
            let exact = exact(metric, query, vector);
            assert!((distance - exact).abs() < 1e-4, "{distance} {exact}");
        }
    }
}

#[test]
fn more_bytes_are_closer_to_the_vectors() {
    let dimensions = 12;
    let sample = random(1, dimensions * 2000);
    let error = |code_bytes| -> f32 {
        let quantiser = train(dimensions, code_bytes, &sample, 1);
        let vectors = sample.chunks_exact(dimensions).take(200);
        vectors
            .map(|vector| quantiser.distances(vector).to(&quantiser.encode(vector)))
            .sum()
    };
    let errors = [error(1), error(2), error(5), error(12)];
    assert!(
        errors.is_sorted_by(|left, right| *left > 1.5 * right),
        "{errors:?}"
    );
}

#[test]
fn a_vector_of_another_length_is_cut_or_continued_with_zeros() {
    let quantiser = train(4, 2, &random(1, 4 * 300), 1);
    let code = quantiser.encode(&[0.3, 0.2, 0.0, 0.0]);
    assert_eq!(quantiser.encode(&[0.3, 0.2]), code);
    assert_eq!(quantiser.encode(&[0.3, 0.2, 0.0, 0.0, 9.0]), code);
    let distance = quantiser
        .distances(&[0.3, 0.2, f32::NAN, f32::INFINITY])
        .to(&code);
    assert!(distance.is_finite());
}

#[test]
fn what_cannot_be_trained_is_an_error() {
    let mut check = || Ok(());
    for (dimensions, code_bytes, sample) in [(4, 5, 8), (4, 0, 8), (0, 0, 8), (4, 2, 3)] {
        let sample = vec![1.0; sample];
        let trained = Quantiser::train(
            QuantiserKind::Product,
            Metric::Cosine,
            dimensions,
            code_bytes,
            &sample,
            1,
            &mut check,
        );
        assert!(trained.is_err());
    }
}

#[test]
fn training_can_be_cancelled() {
    let mut calls = 0;
    let trained = Quantiser::train(
        QuantiserKind::Product,
        Metric::Cosine,
        8,
        4,
        &random(1, 8 * 2000),
        1,
        &mut || {
            calls += 1;
            if calls > 10 {
                Err(Error::internal("cancelled"))
            } else {
                Ok(())
            }
        },
    );
    assert!(trained.is_err() && calls == 11);
}

#[test]
fn equal_and_zero_vectors_can_be_trained() {
    for vector in [[0.0; 8], [2.5; 8]] {
        for metric in [Metric::Cosine, Metric::DotProduct, Metric::Euclidean] {
            let sample: Vec<f32> = vector.iter().copied().cycle().take(8 * 300).collect();
            let quantiser = Quantiser::train(
                QuantiserKind::Product,
                metric,
                8,
                4,
                &sample,
                1,
                &mut || Ok(()),
            )
            .unwrap();
            let distance = quantiser.distances(&vector).to(&quantiser.encode(&vector));
            assert!(distance.is_finite() && distance <= 0.0, "{distance}");
        }
    }
}
