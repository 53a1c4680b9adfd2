// A downloader may stop when the queue is empty and no download is running. A download that
// finishes is taken off the running count before its links are queued; a look in between sees
// neither.

use std::process;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;

static QUEUED: AtomicI32 = AtomicI32::new(0);
static RUNNING: AtomicI32 = AtomicI32::new(1);

#[inline(never)]
fn finish_download(links: i32) {
    RUNNING.fetch_sub(1, Ordering::SeqCst); //~ guilty
    QUEUED.fetch_add(links, Ordering::SeqCst); //~ guilty
}

#[inline(never)]
fn may_stop() -> bool {
    let running = RUNNING.load(Ordering::SeqCst); //~ guilty
    let queued = QUEUED.load(Ordering::SeqCst); //~ guilty
    running == 0 && queued == 0
}

fn main() {
    let download = thread::spawn(|| finish_download(2));
    let spider = thread::spawn(may_stop);
    download.join().unwrap();
    let stopped = spider.join().unwrap();
    if stopped {
        eprintln!("stopped with {} links unvisited", QUEUED.load(Ordering::SeqCst));
        process::exit(1);
    }
    println!("2 links to visit");
}
