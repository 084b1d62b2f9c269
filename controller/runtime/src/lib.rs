//! What both daemons share around their logic: arguments, logs, signals, health and metrics, events.
