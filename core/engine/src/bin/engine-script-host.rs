//! The script host that this crate's tests start; the server brings its own.

fn main() -> std::process::ExitCode {
    orrery_script::serve_script_host()
}
