//! The forms of `--listen`, and the health check that uses them.

use crate::program;
use std::net::TcpStream;
use std::process::Command;

#[test]
fn localhost_is_listened_on_by_ipv4_and_ipv6() {
    let server = program::start_at("localhost:0", &["--memory"]).expect("it starts");
    let port = server
        .address
        .rsplit_once(':')
        .expect("a port")
        .1
        .to_owned();
    assert!(
        server.address.starts_with("127.0.0.1:"),
        "{}",
        server.address
    );
    TcpStream::connect(format!("127.0.0.1:{port}")).expect("IPv4");
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        TcpStream::connect(format!("[::1]:{port}")).expect("IPv6");
    }
}

#[test]
fn several_addresses_share_a_free_port() {
    let listen = "127.0.0.1:0,127.0.0.2:0";
    let server = program::start_at(listen, &["--memory"]).expect("it starts");
    let port = server
        .address
        .rsplit_once(':')
        .expect("a port")
        .1
        .to_owned();
    TcpStream::connect(format!("127.0.0.2:{port}")).expect("the second address");
}

#[test]
fn all_interfaces_need_a_key_of_ones_own() {
    for listen in [":0", "0.0.0.0:0", "127.0.0.1:0,[::]:0"] {
        let refused = program::start_at(listen, &["--memory"])
            .err()
            .expect("refused");
        assert_eq!(refused.code, Some(2));
        assert!(
            refused.stderr.contains("orrery emulator"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn a_health_check_waits_until_the_server_is_ready() {
    let server = program::start(&["--memory"]).expect("it starts");
    let check = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_orrery"))
            .arg("healthcheck")
            .args(arguments)
            .output()
            .expect("it runs")
            .status
            .code()
    };
    assert_eq!(check(&["--listen", &server.address]), Some(0));
    assert_eq!(
        check(&["--listen", &server.address, "--ready", "--wait", "5"]),
        Some(0)
    );
    let address = server.address.clone();
    drop(server);
    assert_eq!(check(&["--listen", &address, "--ready"]), Some(1));
}

#[test]
fn a_port_that_is_taken_is_told_with_its_holder_and_the_option_that_changes_the_port() {
    let first = program::start(&["--memory"]).expect("it starts");
    let holder = format!("process {} (orrery start) has the port", first.process_id());
    let refused = |listen: &str, arguments: &[&str]| {
        let exit = program::start_at(listen, arguments).err().expect("refused");
        assert_eq!(exit.code, Some(1));
        exit.stderr
    };
    let told = refused(&first.address, &["--memory"]);
    let expected = format!("cannot listen on {} for clients: ", first.address);
    assert!(told.contains(&expected), "{told}");
    assert!(
        told.contains("choose another port with --listen (ORRERY_LISTEN)"),
        "{told}"
    );
    let admin = ["--memory", "--admin-listen", &first.admin_address];
    let told_of_admin = refused("127.0.0.1:0", &admin);
    assert!(
        told_of_admin.contains("--admin-listen (ORRERY_ADMIN_LISTEN)"),
        "{told_of_admin}"
    );
    if cfg!(target_os = "linux") {
        assert!(told.contains(&holder), "{told}");
        assert!(told_of_admin.contains(&holder), "{told_of_admin}");
    }
}
