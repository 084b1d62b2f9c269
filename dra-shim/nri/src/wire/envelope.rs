//! What a ttrpc message carries: a call, or its answer.

/// A call. The metadata of field 5 are not used by NRI.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) payload: Vec<u8>,
    /// How long the caller waits, in nanoseconds; 0 if it says nothing.
    #[prost(int64, tag = "4")]
    pub(crate) timeout_nano: i64,
}

/// An answer.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Response {
    /// Absent or with code 0: success.
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

/// The codes of gRPC that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// What Go makes of an error that has no code: a plugin's refusal.
    Unknown = 2,
    InvalidArgument = 3,
    /// The method is not there; makes NRI try `StateChange` instead.
    Unimplemented = 12,
}

// === impl Response ===

impl Response {
    pub(crate) fn new(answer: Result<Vec<u8>, Status>) -> Self {
        match answer {
            Ok(payload) => Self {
                // Go's server sends it with every success.
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
