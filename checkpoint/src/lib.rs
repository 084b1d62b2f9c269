//! The claim checkpoint of a DRA node plugin, in the bytes of the Go driver.
