// Matches with many arms, closures, iterators, drops, and panics that are caught.
use std::collections::BTreeMap;
use std::panic;
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Clone, Debug)]
enum Token {
    Number(i64),
    Add,
    Subtract,
    Times,
    Divide,
    Swap,
    Copy,
    Drop,
    Negate,
}

struct Noted(Arc<Mutex<Vec<i64>>>, i64);

impl Drop for Noted {
    fn drop(&mut self) {
        if let Ok(mut list) = self.0.lock() {
            list.push(self.1);
        }
    }
}

fn run(program: &[Token], notes: &Arc<Mutex<Vec<i64>>>) -> Result<i64, String> {
    let mut stack = Vec::new();
    for (at, token) in program.iter().enumerate() {
        let _noted = Noted(notes.clone(), at as i64);
        let mut pop = || stack.pop().ok_or_else(|| format!("empty at {at}"));
        match token {
            Token::Number(value) => stack.push(*value),
            Token::Add => { let (a, b) = (pop()?, pop()?); stack.push(a + b) }
            Token::Subtract => { let (a, b) = (pop()?, pop()?); stack.push(b - a) }
            Token::Times => { let (a, b) = (pop()?, pop()?); stack.push(a * b) }
            Token::Divide => { let (a, b) = (pop()?, pop()?); stack.push(b / a) }
            Token::Swap => { let (a, b) = (pop()?, pop()?); stack.extend([a, b]) }
            Token::Copy => { let a = pop()?; stack.extend([a, a]) }
            Token::Drop => drop(pop()?),
            Token::Negate => { let a = pop()?; stack.push(-a) }
        }
    }
    stack.pop().ok_or_else(|| "nothing left".to_owned())
}

fn parse(text: &str) -> Vec<Token> {
    text.split_whitespace()
        .filter_map(|word| match word {
            "+" => Some(Token::Add),
            "-" => Some(Token::Subtract),
            "*" => Some(Token::Times),
            "/" => Some(Token::Divide),
            "swap" => Some(Token::Swap),
            "copy" => Some(Token::Copy),
            "drop" => Some(Token::Drop),
            "negate" => Some(Token::Negate),
            number => number.parse().ok().map(Token::Number),
        })
        .collect()
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    let notes = Arc::new(Mutex::new(Vec::new()));
    let programs = ["1 2 + 3 *", "4 0 /", "1 copy + negate 5 swap -", "drop", "7 2 - drop 9", "x", "2 copy * copy *"];
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let notes = notes.clone();
            thread::spawn(move || {
                let mut seen: BTreeMap<String, i64> = BTreeMap::new();
                for text in programs.iter().cycle().skip(seed).take(7) {
                    let tokens = parse(text);
                    let result = panic::catch_unwind(|| run(&tokens, &notes));
                    let key = match result {
                        Ok(Ok(value)) => format!("value {}", value % 5),
                        Ok(Err(problem)) => problem,
                        Err(_) => "panic".to_owned(),
                    };
                    *seen.entry(key).or_default() += 1;
                }
                seen.values().sum::<i64>()
            })
        })
        .collect();
    let total: i64 = threads.into_iter().map(|thread| thread.join().expect("it caught all")).sum();
    println!("{total}");
}
