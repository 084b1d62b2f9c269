//! The content of a ttrpc message: a call, or its answer.

/// A call. NRI does not use the metadata of field 5.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) payload: Vec<u8>,
    /// How long the caller waits, in nanoseconds; 0: not set.
    #[prost(int64, tag = "4")]
    pub(crate) timeout_nano: i64,
}

/// An answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Response {
    /// Missing or with code 0: success.
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<Status>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) payload: Vec<u8>,
}

/// Why a call failed: `google.rpc.Status` without its details.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// The gRPC codes that this library sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Go's code for an error without one: a plugin's refusal.
    Unknown = 2,
    InvalidArgument = 3,
    /// Unknown method; NRI then tries `StateChange` instead.
    Unimplemented = 12,
}

// === impl Response ===

impl Response {
    pub(crate) fn new(answer: Result<Vec<u8>, Status>) -> Self {
        match answer {
            Ok(payload) => Self {
                // Go's server sends it with every successful answer.
                status: Some(Status::default()),
                payload,
            },
            Err(status) => Self {
                status: Some(status),
                payload: Vec::new(),
            },
        }
    }

    pub(crate) fn into_answer(self) -> Result<Vec<u8>, Status> {
        match self.status {
            Some(status) if status.code != 0 => Err(status),
            _ => Ok(self.payload),
        }
    }
}

// === impl Status ===

impl Status {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: code as i32,
            message: message.into(),
        }
    }
}
