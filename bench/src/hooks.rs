//! The hooks whose cost is counted, each with the C text that calls it.
//!
//! The list is a parameter of the measurement ([`crate::callgrind`]): another list of [`Hook`]s can take the place of
//! [`tsan_abi`].

/// One hook, or a pair that only makes sense together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The name in the table.
    pub name: String,
    /// C declarations that the call needs.
    pub declare: String,
    /// One C statement, free to use `cell` (a shared, aligned 16-byte buffer) and `other` (another one).
    pub call: String,
}

impl Hook {
    fn new(name: impl Into<String>, declare: impl Into<String>, call: impl Into<String>) -> Self {
        Hook { name: name.into(), declare: declare.into(), call: call.into() }
    }
}

/// The `memory_order` numbers of the ABI that the calls use.
const ACQUIRE: u32 = 2;
const RELEASE: u32 = 3;
const ACQ_REL: u32 = 4;
const SEQ_CST: u32 = 5;

/// The hooks that compilers emit for `-fsanitize=thread -fsanitize-coverage=trace-pc`, and a few intercepted functions.
pub fn tsan_abi() -> Vec<Hook> {
    let mut hooks = accesses();
    hooks.push(elsewhere());
    hooks.extend(control());
    hooks.extend(atomics());
    hooks.extend(intercepted());
    hooks
}

fn accesses() -> Vec<Hook> {
    let mut hooks = Vec::new();
    let mut address = |name: String| {
        let declare = format!("void {name}(void *);");
        let call = format!("{name}(cell);");
        hooks.push(Hook::new(name, declare, call));
    };
    for access in ["read", "write"] {
        for size in [1, 2, 4, 8, 16] {
            address(format!("__tsan_{access}{size}"));
        }
        for size in [2, 4, 8, 16] {
            address(format!("__tsan_unaligned_{access}{size}"));
        }
    }
    for access in ["read", "write"] {
        let name = format!("__tsan_{access}_range");
        let declare = format!("void {name}(void *, unsigned long);");
        let call = format!("{name}(cell, 16);");
        hooks.push(Hook::new(name, declare, call));
    }
    hooks.push(Hook::new(
        "__tsan_vptr_update",
        "void __tsan_vptr_update(void **, void *);",
        "__tsan_vptr_update((void **)cell, other);",
    ));
    hooks
}

/// A read of what another thread wrote before: the others are of what the reader wrote itself.
fn elsewhere() -> Hook {
    Hook::new(
        "__tsan_read4 of what another thread wrote",
        "void __tsan_read4(void *); static _Alignas(16) char far[16];\n\
         BARE static void *write_far(void *argument) { __tsan_write8(far); return argument; }\n\
         BARE __attribute__((constructor)) static void far_away(void) { pthread_t thread; \
         if (pthread_create(&thread, NULL, write_far, NULL) == 0) pthread_join(thread, NULL); }",
        "__tsan_read4(far);",
    )
}

fn control() -> Vec<Hook> {
    vec![
        Hook::new(
            "__tsan_func_entry + __tsan_func_exit",
            "void __tsan_func_entry(void *); void __tsan_func_exit(void);",
            "__tsan_func_entry(__builtin_return_address(0)); __tsan_func_exit();",
        ),
        Hook::new("__sanitizer_cov_trace_pc", "void __sanitizer_cov_trace_pc(void);", "__sanitizer_cov_trace_pc();"),
    ]
}

fn atomics() -> Vec<Hook> {
    let mut hooks = Vec::new();
    for (bits, ty) in [(8, "char"), (16, "short"), (32, "int"), (64, "long")] {
        let prefix = format!("__tsan_atomic{bits}");
        let mut add = |op: &str, result: &str, parameters: &str, arguments: &str| {
            let name = format!("{prefix}_{op}");
            let declare = format!("{result} {name}(volatile {ty} *{parameters});");
            let call = format!("{name}((volatile {ty} *)cell{arguments});");
            hooks.push(Hook::new(name, declare, call));
        };
        add("load", ty, ", int", &format!(", {ACQUIRE}"));
        add("store", "void", &format!(", {ty}, int"), &format!(", 1, {RELEASE}"));
        for op in ["exchange", "fetch_add", "fetch_sub", "fetch_and", "fetch_or", "fetch_xor", "fetch_nand"] {
            add(op, ty, &format!(", {ty}, int"), &format!(", 1, {ACQ_REL}"));
        }
        for op in ["compare_exchange_strong", "compare_exchange_weak"] {
            add(op, "int", &format!(", {ty} *, {ty}, int, int"), &format!(", ({ty} *)other, 1, {ACQ_REL}, {ACQUIRE}"));
        }
    }
    for name in ["__tsan_atomic_thread_fence", "__tsan_atomic_signal_fence"] {
        hooks.push(Hook::new(name, format!("void {name}(int);"), format!("{name}({SEQ_CST});")));
    }
    hooks
}

/// Here a disarmed call still does the real work; the figure includes it.
fn intercepted() -> Vec<Hook> {
    vec![
        Hook::new(
            "pthread_mutex_lock + unlock",
            "static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;",
            "pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock);",
        ),
        Hook::new("malloc + free", "", "free(keep(malloc(24)));"),
        Hook::new("memcpy, 16 bytes", "", "memcpy(cell, keep(other), keep_size(16));"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_declared() {
        let hooks = tsan_abi();
        for (i, hook) in hooks.iter().enumerate() {
            assert!(hooks[..i].iter().all(|h| h.name != hook.name), "{}", hook.name);
            if hook.name.starts_with("__") {
                let first = hook.name.split(' ').next().unwrap();
                assert!(hook.declare.contains(&format!("{first}(")), "{}", hook.name);
                assert!(hook.call.contains(&format!("{first}(")), "{}", hook.name);
            }
        }
    }
}
