//! A script host as a program of its own. The tests and the cost example start it in place of the
//! server's hidden sub-command.

fn main() -> std::process::ExitCode {
    orrery_script::serve_script_host()
}
