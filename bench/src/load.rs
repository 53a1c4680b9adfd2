//! The load on memcached: a check of the protocol, then a bounded number of requests over two connections.
//!
//! Only the loopback interface is used. Every reply is checked; the measure is the time for all requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Result};

/// Connections, each with a thread of its own.
const CONNECTIONS: u64 = 2;
/// Keys of each connection.
const KEYS: u64 = 512;
/// A reply that takes longer than this is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A port of the loopback interface that was free a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(net("find a free port"))?;
    Ok(listener.local_addr().map_err(net("find a free port"))?.port())
}

/// Waits until the server accepts connections, or `gave_up` says that it never will.
pub fn wait_for(port: u16, mut gave_up: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address(port)).is_err() {
        if gave_up()? || Instant::now() > end {
            return Err(BenchError::Wrong("the server does not listen".to_owned()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Whether the server accepts connections.
pub fn is_served(port: u16) -> bool {
    TcpStream::connect(address(port)).is_ok()
}

/// Asks a server that allows it (`-A`) to end.
pub fn shut_down(port: u16) -> Result<()> {
    Peer::connect(port)?.send(b"shutdown\r\n")
}

/// Checks the replies to set, get, incr, delete, gets and cas.
pub fn check_protocol(port: u16) -> Result<()> {
    let mut peer = Peer::connect(port)?;
    for (request, want) in [
        ("set a 7 0 5\r\nhello\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE a 7 5\r\nhello\r\nEND\r\n"),
        ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
        ("set n 0 0 2\r\n41\r\n", "STORED\r\n"),
        ("incr n 1\r\n", "42\r\n"),
        ("decr n 2\r\n", "40\r\n"),
        ("delete a\r\n", "DELETED\r\n"),
        ("delete a\r\n", "NOT_FOUND\r\n"),
        ("get a\r\n", "END\r\n"),
        ("set c 0 0 3\r\none\r\n", "STORED\r\n"),
    ] {
        peer.expect(request.as_bytes(), want.as_bytes())?;
    }
    let unique = peer.unique_of("c")?;
    for (reply, value) in [("STORED\r\n", "two"), ("EXISTS\r\n", "bad")] {
        let request = format!("cas c 0 0 3 {unique}\r\n{value}\r\n");
        peer.expect(request.as_bytes(), reply.as_bytes())?;
    }
    peer.expect(b"get c\r\n", b"VALUE c 0 3\r\ntwo\r\nEND\r\n")
}

/// Sends `requests` requests in all; the time they took.
pub fn run(port: u16, requests: u64) -> Result<Duration> {
    let mut peers = Vec::new();
    for _ in 0..CONNECTIONS {
        peers.push(Peer::connect(port)?);
    }
    let started = Instant::now();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (mut peer, id) in peers.into_iter().zip(0u64..) {
            workers.push(scope.spawn(move || peer.work(id, requests / CONNECTIONS)));
        }
        for worker in workers {
            worker.join().map_err(|_| BenchError::Wrong("a load thread panicked".to_owned()))??;
        }
        Ok(started.elapsed())
    })
}

/// One connection.
struct Peer {
    reader: BufReader<TcpStream>,
}

impl Peer {
    fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(address(port)).map_err(net("connect"))?;
        stream.set_nodelay(true).map_err(net("connect"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(net("connect"))?;
        Ok(Peer { reader: BufReader::new(stream) })
    }

    /// One set for every three gets, over this connection's keys; a key is set before it is first read.
    fn work(&mut self, id: u64, requests: u64) -> Result<()> {
        let mut random = 0x9e37_79b9_7f4a_7c15 ^ id;
        let mut version = vec![0u64; usize::try_from(KEYS).unwrap_or(0)];
        for number in 1..=requests {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = random % KEYS;
            let Some(held) = usize::try_from(key).ok().and_then(|k| version.get_mut(k)) else {
                continue;
            };
            let set = *held == 0 || random >> 32 & 3 == 0;
            if set {
                *held = number;
            }
            let value = value(id, key, *held);
            if set {
                let mut request = format!("set k{id}-{key} 0 0 {}\r\n", value.len()).into_bytes();
                request.extend_from_slice(&value);
                request.extend_from_slice(b"\r\n");
                self.expect(&request, b"STORED\r\n")?;
            } else {
                let mut want = format!("VALUE k{id}-{key} 0 {}\r\n", value.len()).into_bytes();
                want.extend_from_slice(&value);
                want.extend_from_slice(b"\r\nEND\r\n");
                self.expect(format!("get k{id}-{key}\r\n").as_bytes(), &want)?;
            }
        }
        Ok(())
    }

    /// Sends a request; the reply must be exactly `want`.
    fn expect(&mut self, request: &[u8], want: &[u8]) -> Result<()> {
        self.send(request)?;
        // Line by line: a wrong reply may be shorter than the right one.
        let mut have = Vec::with_capacity(want.len());
        while have.len() < want.len() && want.starts_with(&have) {
            if self.reader.read_until(b'\n', &mut have).map_err(net("read a reply"))? == 0 {
                break;
            }
        }
        if have == want {
            return Ok(());
        }
        let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        Err(BenchError::Wrong(format!("memcached answered {:?} to {:?}", shown(&have), shown(request))))
    }

    /// The unique number of a stored value.
    fn unique_of(&mut self, key: &str) -> Result<u64> {
        self.send(format!("gets {key}\r\n").as_bytes())?;
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(net("read a reply"))?;
        let mut words = line.split_whitespace().skip(3);
        let mut number = || words.next().and_then(|w| w.parse::<u64>().ok());
        let (Some(length), Some(unique)) = (number(), number()) else {
            return Err(BenchError::Wrong(format!("memcached answered {line:?} to gets")));
        };
        // The value and its line end, then "END" and its line end.
        let mut rest = vec![0; usize::try_from(length).unwrap_or(0) + 7];
        self.reader.read_exact(&mut rest).map_err(net("read a reply"))?;
        Ok(unique)
    }

    fn send(&mut self, request: &[u8]) -> Result<()> {
        self.reader.get_mut().write_all(request).map_err(net("send a request"))
    }
}

/// What a key holds after its `version`-th request: 32 to 1055 letters.
fn value(id: u64, key: u64, version: u64) -> Vec<u8> {
    let seed = id.wrapping_mul(31).wrapping_add(key).wrapping_mul(131).wrapping_add(version);
    let length = 32 + seed.wrapping_mul(0x9e37_79b9) % 1024;
    (0..length).map(|i| b'a' + u8::try_from((seed + i) % 26).unwrap_or(0)).collect()
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn net(what: &'static str) -> impl Fn(std::io::Error) -> BenchError {
    move |source| BenchError::System(what, source)
}
