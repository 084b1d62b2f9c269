//! One directory of durable files: read, replace, remove, list, lock.
