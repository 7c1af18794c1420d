use super::*;

fn port(offered: Option<TimeStamps>) -> PortStamps {
    PortStamps { interface: "eth1".to_owned(), offered }
}

fn refused(stamps: Stamps, offered: Option<TimeStamps>, end: End) -> String {
    port(offered).check(stamps, end).expect_err("it is not offered").to_string()
}

#[test]
fn what_a_port_cannot_give_is_refused_by_name() {
    let kernel = TimeStamps { software_receive: true, software_transmit: true, ..TimeStamps::default() };
    for end in [End::Near, End::Far] {
        assert!(port(None).check(Stamps::Application, end).is_ok());
        assert!(port(Some(kernel)).check(Stamps::Kernel, end).is_ok());
    }
    let said = refused(Stamps::Hardware, Some(kernel), End::Near);
    for word in ["eth1", "no hardware stamps", "leaves", "--stamps kernel or application"] {
        assert!(said.contains(word), "{said}");
    }
    let half = TimeStamps { software_receive: true, ..TimeStamps::default() };
    assert!(port(Some(half)).check(Stamps::Kernel, End::Far).is_ok());
    let said = refused(Stamps::Kernel, Some(half), End::Near);
    assert!(said.contains("kernel stamps of what arrives only") && said.ends_with("--stamps application"), "{said}");
    assert!(refused(Stamps::Kernel, None, End::Far).contains("does not say"));
}

#[test]
fn hardware_must_stamp_every_frame_and_have_a_clock() {
    let all = TimeStamps {
        hardware_receive: true,
        hardware_transmit: true,
        hardware_receive_all: true,
        clock: Some(0),
        ..TimeStamps::default()
    };
    assert!(port(Some(all)).check(Stamps::Hardware, End::Far).is_ok());
    let ptp = TimeStamps { hardware_receive_all: false, ..all };
    // Departures are stamped if the socket requests it; arrivals only for certain protocols.
    assert!(port(Some(ptp)).check(Stamps::Hardware, End::Near).is_ok());
    assert!(refused(Stamps::Hardware, Some(ptp), End::Far).contains("PTP"));
    refused(Stamps::Hardware, Some(TimeStamps { clock: None, ..all }), End::Near);
}
