// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/peers"
)

// exampleOptions are the defaults, but for one round of a second.
func exampleOptions() (o cases.Options) {
	o.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	o.Rounds, o.Duration = 1, time.Second
	return o
}

// turnOf makes a measurement on the same host with 32 kept-alive connections.
func turnOf(peer string, rate, p50 float64) figures.Measurement {
	return figures.Measurement{Topology: lab.SameHost, Load: cases.KeptAlive(32), Peer: peer, Round: 1, Rate: rate, P50: p50, P99: p50 * p50}
}

func exampleReport() Report {
	measurements := []figures.Measurement{turnOf(peers.Direct, 100, 50), turnOf(peers.XLB, 130, 40)}
	rows := figures.Summarise(measurements)
	return Report{
		Started: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC), Options: exampleOptions(),
		Machine:      machine.Machine{Kernel: "6.18", CPUs: 2, Versions: map[string]string{"nginx": "1.22"}},
		Skipped:      map[string]string{"haproxy": "not installed"},
		Measurements: measurements, Summary: rows, Targets: judge(rows, projectTargets),
	}
}

func TestTablesShowEveryPeerAndTarget(t *testing.T) {
	var text, markdown bytes.Buffer
	r := exampleReport()
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.writeMarkdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{text.String(), markdown.String()} {
		for _, want := range []string{"130 (130-130)", "100 (100-100)", "1.30", "met ", "open", "not measured"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in:\n%s", want, out)
			}
		}
	}
	for _, want := range []string{"Linux 6.18, 2 CPUs", "nginx: 1.22", "haproxy: not installed"} {
		if !strings.Contains(markdown.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, markdown.String())
		}
	}
}

func TestJSONKeepsTheLoadOfARow(t *testing.T) {
	var out bytes.Buffer
	if err := exampleReport().WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Summary []struct {
			Case        string
			Connections int
			Peer        string
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Summary) != 2 || got.Summary[1].Case != cases.Keepalive || got.Summary[1].Connections != 32 {
		t.Errorf("summary = %+v", got.Summary)
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	var out bytes.Buffer
	p := barsOf(exampleReport().Summary, lab.SameHost)
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(out.String()))
	bars := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, out.String())
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "line" {
			bars++
		}
	}
	if bars != 2 {
		t.Errorf("%d bars, want one for each peer", bars)
	}
	if other := barsOf(exampleReport().Summary, lab.CrossHost); len(other.Groups) != 0 {
		t.Errorf("cross host has %d groups, want none", len(other.Groups))
	}
}
