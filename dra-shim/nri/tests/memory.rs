//! What a runtime can make a plugin take, measured: an empty element is two bytes in a
//! message, and some hundreds in memory.
#![allow(missing_docs, reason = "a test")]

use std::alloc::System;

use cap::Cap;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

#[cfg(test)]
mod tests {
    use std::io::{self, Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use nri_plugin::{ConnectionError, Events, Plugin, Service};
    use tokio::task::spawn_blocking;

    use super::MEMORY;

    /// Of a connection and the test's own bytes. What is bounded to 64 MiB of requests and
    /// 128 MiB of a synchronization is about half of that.
    const LIMIT: usize = 128 << 20;

    /// What fits into a message, with the names of service and method.
    const LONGEST: usize = (4 << 20) - 200;

    struct Quiet;

    impl Plugin for Quiet {
        fn events(&self) -> Events {
            Events::ALL
        }
    }

    /// The runtime's end.
    struct Runtime {
        stream: UnixStream,
        calls: u32,
    }

    /// A field that has a length.
    fn field(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = payload.len();
        while length >= 0x80 {
            bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).unwrap());
        bytes.extend(payload);
        bytes
    }

    /// As many empty elements as fit into a message of `length` bytes.
    fn empty(number: u8, length: usize) -> Vec<u8> {
        [number << 3 | 2, 0].repeat(length / 2)
    }

    // === impl Runtime ===

    impl Runtime {
        fn frame(
            &mut self,
            connection: u32,
            stream: u32,
            kind: u8,
            payload: &[u8],
        ) -> io::Result<()> {
            let length = u32::try_from(payload.len()).unwrap();
            let mut bytes = Vec::with_capacity(payload.len() + 18);
            for number in [connection, length + 10, length, stream] {
                bytes.extend(number.to_be_bytes());
            }
            bytes.extend([kind, 0]);
            bytes.extend(payload);
            self.stream.write_all(&bytes)
        }

        fn send(&mut self, method: &str, request: &[u8]) -> io::Result<()> {
            let service = field(1, b"nri.pkg.api.v1alpha1.Plugin");
            let call = [service, field(2, method.as_bytes()), field(3, request)].concat();
            self.calls += 1;
            self.frame(1, 2 * self.calls - 1, 1, &call)
        }

        /// The next answer to a call; none when the connection has ended.
        fn answer(&mut self) -> Option<String> {
            loop {
                let mut header = [0; 8];
                self.stream.read_exact(&mut header).ok()?;
                let [a, b, c, d] = header[4..].try_into().unwrap();
                let mut payload = vec![0; u32::from_be_bytes([a, b, c, d]) as usize];
                self.stream.read_exact(&mut payload).ok()?;
                if header[3] == 1 {
                    return Some(String::from_utf8_lossy(&payload[10..]).into_owned());
                }
            }
        }
    }

    fn mk_runtime() -> (Service, Runtime) {
        let (ours, stream) = UnixStream::pair().unwrap();
        let service = Service::builder(1, "quiet").connection(ours).start(Quiet);
        (service.unwrap(), Runtime { stream, calls: 0 })
    }

    /// Registers the plugin.
    fn configure(runtime: &mut Runtime) {
        runtime.frame(2, 1, 2, &[]).unwrap();
        runtime.send("Configure", &[]).unwrap();
        runtime.answer().unwrap();
    }

    fn assert_bounded(what: &str) {
        let most = MEMORY.max_allocated();
        println!("{what}: {} MiB", most >> 20);
        assert!(most < LIMIT, "{what}: {most} bytes");
    }

    /// Sixteen parts, each with a container whose mounts are empty.
    async fn synchronize() {
        let (mut service, mut runtime) = mk_runtime();
        let sent = spawn_blocking(move || {
            configure(&mut runtime);
            let mut part = field(2, &empty(9, LONGEST - 10));
            part.extend([0x18, 1]);
            let taken = (0..16).take_while(|_| {
                let sent = runtime.send("Synchronize", &part).is_ok();
                sent && runtime
                    .answer()
                    .is_some_and(|answer| !answer.contains("memory"))
            });
            taken.count()
        });
        assert_eq!(sent.await.unwrap(), 0, "parts were taken");
        let ended = service.ended().await;
        assert!(matches!(&*ended, ConnectionError::Protocol(_)), "{ended}");
        let says = "would take more than 134217728 bytes of the plugin's memory";
        assert!(ended.to_string().contains(says), "{ended}");
    }

    /// Parts that are small enough one by one.
    async fn synchronize_in_small_parts() {
        let (mut service, mut runtime) = mk_runtime();
        let sent = spawn_blocking(move || {
            configure(&mut runtime);
            let mut part = field(2, &empty(9, 128 << 10));
            part.extend([0x18, 1]);
            let taken = (0..1000).take_while(|_| {
                let sent = runtime.send("Synchronize", &part).is_ok();
                sent && runtime
                    .answer()
                    .is_some_and(|answer| !answer.contains("memory"))
            });
            taken.count()
        });
        let taken = sent.await.unwrap();
        assert!((4..64).contains(&taken), "{taken} parts of 12 MiB");
        assert_eq!(service.ended().await.code(), "protocol");
    }

    /// One message of what is largest in memory, and as many at once as their bytes allow.
    async fn calls() {
        for (method, number) in [
            // Updates, which have all of their resources in them.
            ("ValidateContainerAdjustment", 4),
            ("CreateContainer", 2),
            ("StateChange", 3),
        ] {
            let (service, mut runtime) = mk_runtime();
            let sent = spawn_blocking(move || {
                configure(&mut runtime);
                let is_update = number == 4;
                let request = |length: usize| {
                    let elements = empty(if is_update { 4 } else { 9 }, length);
                    if is_update {
                        elements
                    } else {
                        field(number, &elements)
                    }
                };
                runtime.send(method, &request(LONGEST - 10)).unwrap();
                let answer = runtime.answer().unwrap();
                assert!(
                    answer.contains("of the plugin's memory"),
                    "{method}: {answer}"
                );
                for _ in 0..64 {
                    runtime.send(method, &request(64 << 10)).unwrap();
                }
                for _ in 0..64 {
                    let answer = runtime.answer().unwrap();
                    assert!(!answer.contains("memory"), "{method}: {answer}");
                }
            });
            sent.await.unwrap();
            assert_bounded(method);
            service.shutdown().await;
        }
    }

    // One test: the most that was allocated is the whole process's.
    // req: NRI-3, NRI-8
    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_that_is_sent_takes_more_than_its_share_of_memory() {
        synchronize().await;
        assert_bounded("sixteen parts of empty mounts");
        synchronize_in_small_parts().await;
        assert_bounded("many small parts of empty mounts");
        calls().await;
    }
}
