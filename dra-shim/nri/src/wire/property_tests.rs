//! The codec on random messages, random cuts and random bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::limits::MAX_MESSAGE;
use super::*;

fn mk_message(stream: u32, kind: u8, length: usize) -> Message {
    let payload = (0..length)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    let kind = match kind {
        1 => MessageKind::Request,
        2 => MessageKind::Response,
        other => MessageKind::Other(other),
    };
    Message {
        stream,
        kind,
        payload,
    }
}

/// The headers and payloads of a trunk's bytes.
fn frames(mut bytes: &[u8]) -> Vec<(FrameHeader, &[u8])> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_first_chunk::<FRAME_HEADER>().unwrap();
        let header = FrameHeader::decode(*header).unwrap();
        let (payload, rest) = rest.split_at(header.length);
        frames.push((header, payload));
        bytes = rest;
    }
    frames
}

fn assemble(assembler: &mut Assembler, mut bytes: &[u8]) -> Result<Vec<Message>, MessageError> {
    let mut messages = Vec::new();
    while let Some(message) = assembler.next(&mut bytes)? {
        messages.push(message);
    }
    assert!(bytes.is_empty());
    Ok(messages)
}

/// Reads like Go: headers through a buffer of 4096 bytes, longer rests past it. Each read gets a
/// whole frame, or fails if it does not fit. `None`: failed.
fn go_reads(frames: &[(FrameHeader, &[u8])], messages: usize) -> Option<()> {
    let mut frames = frames.iter();
    let mut buffered = 0;
    let mut read = |mut wanted: usize| {
        while wanted > 0 {
            if buffered == 0 {
                let direct = wanted >= 4096;
                let frame = frames.next()?.1.len();
                if frame > if direct { wanted } else { 4096 } {
                    return None;
                }
                if direct {
                    wanted -= frame;
                    continue;
                }
                buffered = frame;
            }
            let taken = wanted.min(buffered);
            wanted -= taken;
            buffered -= taken;
        }
        Some(())
    };
    for length in std::iter::repeat_n(LENGTH.get(), messages) {
        read(10)?;
        read(length)?;
    }
    (buffered == 0 && frames.next().is_none()).then_some(())
}

thread_local! {
    static LENGTH: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Lengths around the size at which a message gets a second frame, and around the limit.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..64_usize,
        4080..4100_usize,
        8170..8200_usize,
        0..70_000_usize,
        MAX_MESSAGE - 2..=MAX_MESSAGE
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive_as_sent_however_the_stream_is_split(
        lengths in vec(0..9000_usize, 1..6),
        kind in any::<u8>(),
        stream in any::<u32>(),
        cut in 1..5000_usize,
    ) {
        let sent: Vec<_> = lengths.iter().map(|length| mk_message(stream, kind, *length)).collect();
        let mut stream_bytes = Vec::new();
        for message in &sent {
            let bytes = message.encode(ConnectionId::Runtime).unwrap();
            for (header, payload) in frames(&bytes) {
                prop_assert_eq!(header.connection, ConnectionId::Runtime);
                stream_bytes.extend_from_slice(payload);
            }
        }
        let mut assembler = Assembler::default();
        let mut arrived = Vec::new();
        for piece in stream_bytes.chunks(cut) {
            arrived.extend(assemble(&mut assembler, piece).unwrap());
        }
        prop_assert_eq!(arrived, sent);
    }

    #[test]
    fn every_message_is_framed_so_that_go_can_read_it(length in lengths(), repeated in 1..4_usize) {
        LENGTH.set(length);
        let bytes = mk_message(1, 1, length).encode(ConnectionId::Plugin).unwrap().repeat(repeated);
        let frames = frames(&bytes);
        prop_assert!(frames.len() <= 2 * repeated);
        prop_assert!(go_reads(&frames, repeated).is_some());
    }

    #[test]
    fn random_bytes_are_messages_or_one_error(
        pieces in vec(vec(any::<u8>(), 0..200), 0..20),
    ) {
        let mut assembler = Assembler::default();
        for piece in pieces {
            if assemble(&mut assembler, &piece).is_err() {
                break;
            }
        }
    }

    #[test]
    fn a_header_is_decoded_to_what_was_encoded_or_refused(bytes in any::<[u8; FRAME_HEADER]>()) {
        if let Ok(header) = FrameHeader::decode(bytes) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }
}

// req: NRI-6
#[test]
fn a_message_above_the_limit_is_neither_sent_nor_read() {
    let message = mk_message(1, 1, MAX_MESSAGE + 1);
    assert!(message.encode(ConnectionId::Plugin).is_err());
    let claims = [0x00, 0x40, 0x00, 0x01, 0, 0, 0, 1, 1, 0];
    let error = Assembler::default()
        .next(&mut claims.as_slice())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the message has 4194305 bytes; the limit is 4194304"
    );
}

// req: NRI-6
#[test]
fn a_frame_of_an_unknown_connection_or_above_the_limit_is_refused() {
    let header = |connection: u32, length: u32| {
        FrameHeader::decode((u64::from(connection) << 32 | u64::from(length)).to_be_bytes())
    };
    assert_eq!(header(0, 1), Err(FrameError::UnknownConnection(0)));
    assert_eq!(header(3, 1), Err(FrameError::UnknownConnection(3)));
    assert_eq!(header(1, u32::MAX), Err(FrameError::TooLong(u32::MAX)));
    assert!(header(2, 10 + (4 << 20)).is_ok());
    assert!(header(2, 11 + (4 << 20)).is_err());
}
