//! Tests inspection and tuning on captured hosts, on this host, and on links that the tests create.

mod affinity;
mod apply;
mod capture;
mod common;
mod drivers;
mod permanent;
mod plan;
mod queues;
mod rules;

mod live {
    //! A real veth in namespaces that the test creates, and plans for it.

    use netcliff_core::inspection::Objective;
    use netcliff_host::{
        journal::{HostLock, StateDir},
        setting::{Group, Setting},
        testbed::netns::{Reception, Testbed, TestbedOptions},
        tune::{Plan, Step},
    };
    use netcliff_testkit::{Need, has};

    /// A veth with two queues in a new namespace; `None`, with a message on the terminal, if the rights are missing.
    pub fn bed() -> Option<(tempfile::TempDir, HostLock, Testbed)> {
        if !has(Need::Netns) {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let lock = HostLock::acquire(&StateDir::at(dir.path()).unwrap()).unwrap();
        let options = TestbedOptions { queues: 2, reception: Reception::Napi, ..TestbedOptions::default() };
        let testbed = Testbed::create(&lock, options).unwrap();
        Some((dir, lock, testbed))
    }

    pub fn queue_file(name: &str) -> Setting {
        Setting::file(format!("/sys/class/net/veth1/queues/{name}"))
    }

    pub fn mtu() -> Setting {
        Setting::Mtu { interface: "veth1".into() }
    }

    pub fn offload(name: &str) -> Setting {
        Setting::Ethtool { interface: "veth1".into(), group: Group::Features, key: name.into() }
    }

    /// A plan that changes the present values of settings to these values.
    pub fn plan_of(settings: &[(Setting, &str)]) -> Plan {
        let step = |(setting, new): &(Setting, &str)| {
            Step::new(setting.clone(), &setting.read().unwrap_or_default(), new, "a test", "none")
        };
        let steps = settings.iter().map(step).collect();
        Plan { objective: Objective::Cpu, machine: Default::default(), steps, notes: Vec::new() }
    }

    pub fn values(settings: &[(Setting, &str)]) -> Vec<String> {
        settings.iter().map(|(setting, _)| setting.read().unwrap()).collect()
    }
}

mod paths {
    //! The MTUs of paths that this kernel reports, in a namespace that the test creates.

    use netcliff_host::{
        inspect::{Inspection, Known},
        journal::{HostLock, StateDir},
        testbed::netns::{Testbed, TestbedOptions},
    };
    use netcliff_testkit::{Need, has_namespaces, has_program, skip};
    use std::{
        net::{TcpListener, TcpStream},
        process::Command,
        time::Duration,
    };

    #[test]
    fn narrow_routes_and_connections_are_seen() {
        if !has_namespaces() || !has_program("ip") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let lock = HostLock::acquire(&StateDir::at(dir.path()).unwrap()).unwrap();
        let testbed = Testbed::create(&lock, TestbedOptions::default()).unwrap();
        let far = testbed.endpoint(netcliff_host::testbed::netns::Side::HostUnderTest).ip;
        let listener = testbed.run_in_hut(|| TcpListener::bind((far, 0)).unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        testbed
            .run_in_sender(|| {
                let look = || Inspection::of_this_host(Duration::ZERO).unwrap().network.narrow_paths;
                assert_eq!(look(), []);
                let route = |net: &str, mtu: &str| {
                    let args = ["route", "add", net, "dev", "veth0", "mtu", mtu];
                    Command::new("ip").args(args).status().is_ok_and(|status| status.success())
                };
                assert!(route("203.0.113.0/24", "1400") && route(&format!("{far}/32"), "1300"));
                let _connection = TcpStream::connect((far, port)).unwrap();
                let paths = look();
                let told: Vec<(&str, u32, u32, Known)> = paths
                    .iter()
                    .map(|path| (path.destination.as_str(), path.mtu_bytes, path.interface_mtu_bytes, path.known))
                    .collect();
                let host = far.to_string();
                assert_eq!(
                    told,
                    [(host.as_str(), 1300, 1500, Known::Route), ("203.0.113.0/24", 1400, 1500, Known::Route)]
                );
                assert!(paths.iter().all(|path| path.interface.as_deref() == Some("veth0")));
                // The route is removed, but the connection still uses the MTU that it took from the route.
                let gone = Command::new("ip").args(["route", "del", &format!("{host}/32")]).status();
                assert!(gone.is_ok_and(|status| status.success()));
                let paths = look();
                let kept = paths.iter().find(|path| path.destination == host);
                match kept {
                    Some(path) => assert_eq!((path.mtu_bytes, path.known), (1300, Known::Connections)),
                    None => skip(Need::Kernel, "this kernel forgot the connection's path with its route"),
                }
            })
            .unwrap();
    }
}
