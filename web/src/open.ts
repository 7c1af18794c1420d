// A file becomes a question.

import { MOST_SCHEMES, type State } from "./state";
import { rate } from "./format";
import { value, type Captured, type Content, type Finding, type Reply } from "./types";

export interface Taken {
  message: string;
  state: State | null;
  finding: Finding | null;
  differs?: string | null;
}

function changes(set: string[]): Map<string, string> {
  return new Map(
    set.map((assignment) => {
      const at = assignment.indexOf("=");
      return [assignment.slice(0, at), assignment.slice(at + 1)];
    }),
  );
}

/** A scheme as people write it: records of emulated guests also have how their NIC departs from hardware, which the explorer does not follow. */
function hardware(scheme: string): string {
  return scheme.replace(/,gap(_late)?=[^,]*/g, "");
}

/** Whether a file is pcap (of microseconds or nanoseconds, in either byte order) or pcapng, by its first bytes. */
export function isCapture(bytes: Uint8Array): boolean {
  const first = [...bytes.subarray(0, 4)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return ["d4c3b2a1", "a1b2c3d4", "4d3cb2a1", "a1b23c4d", "0a0d0d0a"].includes(first);
}

/** What a capture does to the present question: its times and sizes are the traffic. */
export function openCapture(name: string, reply: Reply<Captured>, state: State): Taken {
  if ("error" in reply) return { message: reply.error.text, state: null, finding: null };
  const { packets, rate_pps, mean_bytes, flows, notes } = reply.ok;
  const left = notes.map((note) => ` ${note}.`).join("");
  const from = { ...state, view: "explore" as const, queues: "", flows: "" };
  return {
    message: `${name}: ${packets} packets, ${rate(rate_pps)} as recorded, ${mean_bytes.toFixed(0)} B a frame, ${flows} flows. The traffic is its packet times, scaled to each load, and its frame sizes; the simulator computes all curves.${left}`,
    state: { ...from, arrivals: `trace:${name}`, size: "trace" },
    finding: null,
  };
}

/** What a file that was read does to the present question. */
export function open(name: string, reply: Reply<unknown>, state: State): Taken {
  if ("error" in reply) return { message: reply.error.text, state: null, finding: null };
  const content = reply.ok as Content;
  const from = { ...state, view: "explore" as const, queues: "", flows: "", rates: "", rate: "" };
  switch (content.kind) {
    case "find": {
      const { finding, set, differs } = content;
      if (set === null) {
        return {
          message: `${name}: its host was not calibrated: the page shows its measured points, but has no costs to change`,
          state: null,
          finding,
        };
      }
      const { scheme, traffic } = finding.setup;
      // The sweep goes to twice the cliff.
      const high = Math.max(...finding.sweep.map((p) => value(p.outcome.offered_pps) ?? p.load_pps), 1);
      const rates = `${Number((high / 24).toPrecision(4))}pps..${Number((high * 1.02).toPrecision(4))}pps:24`;
      const next = {
        ...from,
        set: changes(set),
        schemes: [hardware(scheme)],
        arrivals: traffic.arrivals,
        size: traffic.size,
        link: traffic.link,
        rates,
      };
      return {
        message: `${name}: ${finding.host.cpu}, measured ${new Date(finding.provenance.started_unix_s * 1000).toISOString().slice(0, 10)}${finding.partial ? " (partial)" : ""}. Move the sliders; the measured points stay.`,
        state: next,
        finding,
        differs,
      };
    }
    case "records": {
      const first = content.records[0];
      if (!first) return { message: `${name}: holds no record`, state: null, finding: null };
      const { scheme, traffic } = first.point;
      const schemes = [...new Set(content.records.map((record) => hardware(record.point.scheme)))].slice(
        0,
        MOST_SCHEMES,
      );
      return {
        message: `${name}: ${content.records.length} records by ${first.engine}: opened with the host of the first`,
        state: {
          ...from,
          set: changes(content.set),
          schemes: schemes.length > 0 ? schemes : [hardware(scheme)],
          arrivals: traffic.arrivals,
          size: traffic.size,
          link: traffic.link,
        },
        finding: null,
      };
    }
    case "host":
      return { message: `${name}: a host file`, state: { ...from, set: changes(content.set) }, finding: null };
    case "experiment": {
      const { point, schemes, set, loads_pps } = content;
      if (!point)
        return {
          message: `${name}: "${content.title}" uses neither the model nor the simulator: run it with netcliff run`,
          state: null,
          finding: null,
        };
      const { arrivals, size, link } = point.traffic;
      const rates = loads_pps && loads_pps[1] > loads_pps[0] ? `${loads_pps[0]}pps..${loads_pps[1]}pps:24` : "";
      const left =
        schemes.length > MOST_SCHEMES ? `; the first ${MOST_SCHEMES} of its ${schemes.length} schemes are shown` : "";
      return {
        message: `${name}: ${content.title}${left}`,
        state: { ...from, set: changes(set), schemes: schemes.slice(0, MOST_SCHEMES), arrivals, size, link, rates },
        finding: null,
      };
    }
    case "other":
      return {
        message: `${name}: JSON of ${content.command}: this page opens records of find, predict, simulate and run, experiments and host files`,
        state: null,
        finding: null,
      };
  }
}
