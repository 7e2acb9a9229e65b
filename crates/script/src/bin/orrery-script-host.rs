//! A script host on its own: what the tests and the cost example start in place of the server's hidden sub-command.

fn main() -> std::process::ExitCode {
    orrery_script::serve_script_host()
}
