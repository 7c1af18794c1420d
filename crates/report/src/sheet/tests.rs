use super::*;

#[test]
fn an_error_is_against_the_measurement_only() {
    let cliff = ByEngine { model: Some(110.0.into()), sim: Some(95.0.into()), wire: Some(Figure::exact(100.0)) };
    assert!((error_of(&cliff, EngineKind::Model).unwrap() - 0.1).abs() < 1e-12);
    assert!((error_of(&cliff, EngineKind::Sim).unwrap() + 0.05).abs() < 1e-12);
    assert_eq!(error_of(&cliff, EngineKind::Wire), None);
    assert_eq!(error_of(&ByEngine { wire: None, ..cliff.clone() }, EngineKind::Sim), None);
    assert_eq!(error_of(&ByEngine { wire: Some(0.0.into()), ..cliff }, EngineKind::Sim), None);
}

#[test]
fn a_figure_that_is_no_number_is_no_cell() {
    assert_eq!(Cell::of(&Figure::exact(f64::NAN), Unit::Pps), None);
    assert_eq!(Cell::of(&Figure::exact(1e3), Unit::Pps).unwrap().value, "1.00 kpps");
}
