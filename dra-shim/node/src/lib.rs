//! A claim's life on a node: checkpoint, config, CDI, in durable steps.
