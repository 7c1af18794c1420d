//! Settings that a driver accepts and QEMU's device ignores: measuring such a setting would compare two equal devices.

use netcliff_core::experiment::{Coalesce, Feature, Lack, Setting};

use super::Model;

/// The shortest time between two interrupts of QEMU's e1000 and e1000e (us): `mit_delay` of hw/net/e1000.c,
/// `E1000E_MIN_XITR` of hw/net/e1000e_core.c.
const LEAST_GAP_US: u32 = 128;

/// Why a setting has no effect on this NIC of a guest, although its driver accepts it; `None` if it has an effect.
pub fn without_effect(model: Model, setting: &Setting) -> Option<Lack> {
    let key = setting.key();
    match (setting, model) {
        (Setting::Coalesce(Coalesce::RxUsecs, us @ 1..=LEAST_GAP_US), Model::E1000 | Model::E1000e) => {
            Some(Lack::Other(format!(
                "{key} {us}: QEMU's {model} leaves {LEAST_GAP_US} us between two interrupts whatever is set, so that this is as 0; a \
                 longer delay acts"
            )))
        }
        (Setting::Pause(..), _) => {
            Some(Lack::Setting(key, "QEMU's devices neither send pause frames nor heed them".to_owned()))
        }
        (Setting::Feature(Feature::Lro, _), Model::E1000 | Model::E1000e | Model::Igb) => {
            let why = format!("the driver {model} has none; vm:vmxnet3 and vm:virtio-net have it");
            Some(Lack::Setting(key, why))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netcliff_core::experiment::Key;

    fn why(model: Model, key: &str, value: &str) -> Option<String> {
        let setting = key.parse::<Key>().expect("a key").parse(value).expect("a value");
        without_effect(model, &setting).map(String::from)
    }

    #[test]
    fn delays_that_qemu_rounds_up_are_named() {
        for value in ["1", "50", "128"] {
            let refusal = why(Model::E1000e, "rx-usecs", value).expect("it is as 0");
            assert!(refusal.contains(&format!("rx-usecs {value}: QEMU's e1000e leaves 128 us")), "{refusal}");
        }
        for (model, value) in [(Model::E1000e, "0"), (Model::E1000e, "129"), (Model::Igb, "50"), (Model::Vmxnet3, "50")]
        {
            assert_eq!(why(model, "rx-usecs", value), None, "{model} {value}");
        }
    }

    #[test]
    fn no_device_of_qemu_heeds_pause_frames() {
        for model in Model::ALL {
            assert!(why(model, "pause-rx", "on").is_some_and(|why| why.contains("pause frames")), "{model}");
            assert_eq!(why(model, "rx-checksum", "off"), None);
        }
    }

    #[test]
    fn large_receive_offload_is_of_some_drivers() {
        assert_eq!(why(Model::Vmxnet3, "lro", "on"), None);
        assert!(why(Model::Igb, "lro", "on").is_some_and(|why| why.contains("vm:vmxnet3")));
    }
}
