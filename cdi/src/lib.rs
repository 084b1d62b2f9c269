//! CDI specs for NVIDIA IMEX channels: model, edits, durable per-claim files.
