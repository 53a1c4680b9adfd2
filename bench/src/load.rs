//! The load on memcached: a check of the protocol, then a bounded number of requests.
//!
//! Only the loopback interface is used. Every reply is checked; the measure is the time for all requests. Two threads ask, each over its part of the
//! connections: a request on every one of them, then the replies. With many connections the server always has something to do, and it is the
//! server that is measured; with one for each thread it is how fast the system wakes threads.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{BenchError, Result};

/// Threads that ask.
const ASKERS: u64 = 2;
/// Keys of each connection.
const KEYS: usize = 512;
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

/// Sends `requests` requests in all over so many connections; the time they took.
pub fn run(port: u16, requests: u64, connections: u64) -> Result<Duration> {
    let mut askers: Vec<Vec<(Peer, Talk)>> = (0..ASKERS).map(|_| Vec::new()).collect();
    for (id, asker) in (0..connections).zip((0..askers.len()).cycle()) {
        askers[asker].push((Peer::connect(port)?, Talk::new(id)));
    }
    let started = Instant::now();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for mut peers in askers {
            workers.push(scope.spawn(move || {
                for _ in 0..requests / connections {
                    ask_all(&mut peers)?;
                }
                Ok(())
            }));
        }
        for worker in workers {
            worker.join().map_err(|_| BenchError::Wrong("a load thread panicked".to_owned()))??;
        }
        Ok(started.elapsed())
    })
}

/// A request over each connection, then the replies.
fn ask_all(peers: &mut [(Peer, Talk)]) -> Result<()> {
    let mut asked = Vec::with_capacity(peers.len());
    for (peer, talk) in &mut *peers {
        let (request, want) = talk.next();
        peer.send(&request)?;
        asked.push((request, want));
    }
    for ((peer, _), (request, want)) in peers.iter_mut().zip(asked) {
        peer.receive(&request, &want)?;
    }
    Ok(())
}

/// What is asked over a connection: one set for every three gets, over its own keys; a key is set before it is first read.
struct Talk {
    id: u64,
    random: u64,
    number: u64,
    versions: Vec<u64>,
}

impl Talk {
    fn new(id: u64) -> Talk {
        Talk { id, random: 0x9e37_79b9_7f4a_7c15 ^ id, number: 0, versions: vec![0; KEYS] }
    }

    /// The next request, and its reply.
    fn next(&mut self) -> (Vec<u8>, Vec<u8>) {
        self.number += 1;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let (id, key) = (self.id, self.random % KEYS as u64);
        let held = &mut self.versions[(self.random % KEYS as u64) as usize];
        let set = *held == 0 || self.random >> 32 & 3 == 0;
        if set {
            *held = self.number;
        }
        let value = value(id, key, *held);
        let line = |words: String| [words.as_bytes(), &value, b"\r\n"].concat();
        if set {
            (line(format!("set k{id}-{key} 0 0 {}\r\n", value.len())), b"STORED\r\n".to_vec())
        } else {
            let mut want = line(format!("VALUE k{id}-{key} 0 {}\r\n", value.len()));
            want.extend_from_slice(b"END\r\n");
            (format!("get k{id}-{key}\r\n").into_bytes(), want)
        }
    }
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

    /// Sends a request; the reply must be exactly `want`.
    fn expect(&mut self, request: &[u8], want: &[u8]) -> Result<()> {
        self.send(request)?;
        self.receive(request, want)
    }

    /// The reply to a request must be exactly `want`.
    fn receive(&mut self, request: &[u8], want: &[u8]) -> Result<()> {
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
