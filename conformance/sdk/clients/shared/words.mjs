/**
 * Embeddings without a model, as in words.py: a text's vector counts its words of four subjects.
 */

const SUBJECTS = [
  ["cat", "cats", "dog", "dogs", "animals"],
  ["car", "cars", "engine", "wheels"],
  ["bread", "soup", "cook", "kitchen"],
  ["sea", "ship", "harbour", "sail"],
];

export const DIMENSIONS = SUBJECTS.length;

export const TEXTS = [
  "cats and dogs are animals",
  "a car has an engine and wheels",
  "a kitchen smells of bread and soup",
  "a ship leaves the harbour for the sea",
  "dogs like a car",
];

/** The embedding of a text. No component is 0, so that no vector is without direction. */
export function vector(text) {
  const words = text.toLowerCase().split(/\s+/);
  return SUBJECTS.map((subject) => 0.1 + words.filter((word) => subject.includes(word)).length);
}
