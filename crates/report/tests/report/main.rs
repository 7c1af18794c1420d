//! Tests complete outputs of an artificial finding: by snapshots, and by rules for every variant.

mod browser;
mod experiment;
mod fixture;
mod forwarding;
mod html;
mod links;
mod pages;
mod reference;
mod rfc2544;
mod routers;
mod screens;
mod sources;
mod svg;
mod terminal;
mod transfers;
mod words;

mod table {
    use netcliff_core::host::Preset;
    use netcliff_core::note::Note;
    use netcliff_core::{Record, Transmitted};
    use netcliff_report::{Style, csv, table};

    use crate::fixture::{self, HOSTILE};

    #[test]
    fn several_records_are_a_table_with_what_they_share_above_and_one_is_a_list_of_its_figures() {
        let records = fixture::records();
        let (several, one) =
            (table::outcomes(&records, Style::default()), table::outcomes(&records[4..5], Style::default()));
        insta::assert_snapshot!("table", format!("#### several\n{several}\n#### one\n{one}"));
        let ascii = Style { unicode: false, ..Style::default() };
        assert!(table::outcomes(&records, ascii).is_ascii());
    }

    #[test]
    fn a_host_that_sends_shows_its_transmissions() {
        let mut record = fixture::records().remove(4);
        let page = |record: &Record| table::outcomes(std::slice::from_ref(record), Style::default());
        assert!(!page(&record).contains("transmissions"));
        let [completed_pps, refused_fraction, waiting_s] = [45e3, 0.25, 3e-4].map(|value| Some(value.into()));
        record.outcome.transmitted = Some(Transmitted { completed_pps, refused_fraction, waiting_s });
        let text = page(&record);
        for row in ["transmissions completed 45.0 kpps", "transmissions refused 25.0 %", "wait for completion 300 us"] {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.lines().any(|line| words(line) == row), "{row}: {text}");
        }
    }

    /// A preset with only the whole time of a packet has no CPU time of interrupts and polls. Warnings are below the
    /// answer, other notes at the end.
    #[test]
    fn unknown_shares_are_dashes_and_warnings_follow_the_answer() {
        let mut record = fixture::records().remove(4);
        record.point.host = Preset::named("komdiv64-800mhz").expect("a preset").host;
        record.outcome.notes = ["warning: a value", "a fact"].map(|note| Note::from(note.to_owned())).into();
        let page = |record: &Record| table::outcomes(std::slice::from_ref(record), Style::default());
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = page(&record);
        for row in ["CPU interrupt -", "CPU poll -"] {
            assert!(text.lines().any(|line| words(line) == row), "{row}: {text}");
        }
        assert!(text.contains(" intervals).\nwarning: a value\n\n") && text.ends_with("note: a fact\n"), "{text}");
        assert!(!text.contains("from outside"), "{text}");
        let several = table::outcomes(&[record.clone(), record.clone()], Style::default());
        assert_eq!((several.matches("\nwarning: a value\n").count(), several.matches("warning").count()), (1, 1));
        record.point.host.name = "calibrated".to_owned();
        let text = words(&page(&record));
        assert!(text.contains("reads the packet; pauses of the CPU from outside are left out CPU "), "{text}");
        assert!(text.contains("CPU poll 2.74 %"), "{text}");
    }

    #[test]
    fn no_record_is_said_plainly() {
        assert_eq!(table::outcomes(&[], Style::default()), "no records\n");
    }

    #[test]
    fn csv_fields_round_trip_and_absent_ones_are_empty() {
        let mut records = fixture::records();
        records[0].outcome.notes =
            ["a, \"note\"\nof two lines", HOSTILE].map(|note| Note::from(note.to_owned())).into();
        records[0].outcome.throughput_pps = Some(f64::NAN.into());
        let text = csv::records(&records);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let place = |name: &str| header.iter().position(|column| column == name).expect(name);
        let rows: Vec<::csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), records.len());
        for (row, record) in rows.iter().zip(&records) {
            let latency = record.outcome.latency_s.unwrap().p99.unwrap();
            assert_eq!(row[place("latency_p99_s")].parse(), Ok(latency.value));
            let high = latency.interval.map(|interval| interval.high);
            assert_eq!(row[place("latency_p99_s_high")].parse().ok(), high);
            assert_eq!(&row[place("interrupts_per_s")], "");
        }
        assert_eq!(&rows[0][place("throughput_pps")], "");
        assert!(rows[0][place("notes")].contains("of two lines | </script>"));
        insta::assert_snapshot!("csv-header", text.lines().next().unwrap().replace(',', "\n"));
    }
}
