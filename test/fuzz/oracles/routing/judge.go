// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// record is a question: is this decision about the request in the input right? The answer is 1 or 0.
type record struct {
	Kind, Size, Head uint32
	// Decision holds the verdict in its upper half, and below it the cluster.
	Decision uint64
}

// serve answers until the questions end, which is io.EOF.
func (w *world) serve(questions io.Reader, answers io.Writer) error {
	for {
		var r record
		if err := binary.Read(questions, binary.NativeEndian, &r); err != nil {
			return err
		}
		input := make([]byte, r.Size)
		if _, err := io.ReadFull(questions, input); err != nil {
			return err
		}
		answer := []byte{1}
		if err := w.judge(input, maps.Verdict(r.Decision>>32), uint32(r.Decision)); err != nil {
			fmt.Fprintln(os.Stderr, "routing:", err)
			answer[0] = 0
		}
		if _, err := answers.Write(answer); err != nil {
			return err
		}
	}
}

// preamble is what an input has before the head: the table, and the draw.
const preamble = 1 + 8

// judge compares with the model. Any request may be handed over, but not as one that no route takes if one does.
func (w *world) judge(input []byte, verdict maps.Verdict, cluster uint32) error {
	table := w.models[input[0]]
	r := parse(input[preamble:])
	given := r.Authority
	r.Authority = table.Host.Apply(given)
	r.Draw = binary.NativeEndian.Uint64(input[1:])
	route := table.Match(r)
	switch verdict {
	case maps.HandoverNoVHost, maps.HandoverNoRoute:
		if route != nil {
			return fmt.Errorf("table %d, draw %d: %s, but the model takes %s", input[0], r.Draw, maps.VerdictName(verdict), clusterOf(route, r.Draw))
		}
	case maps.VerdictOk:
		if path, outcome := table.Path.Apply(r.Path); path != r.Path || outcome != model.PathTaken {
			return fmt.Errorf("table %d: path %q is to become %q (%d), and was not handed over", input[0], r.Path, path, outcome)
		}
		if r.Authority != given {
			return fmt.Errorf("table %d: host %q is to become %q, and was not handed over", input[0], given, r.Authority)
		}
		if route == nil {
			return fmt.Errorf("table %d, draw %d: cluster %s, but the model takes no route", input[0], r.Draw, w.clusters[cluster])
		}
		if want := clusterOf(route, r.Draw); w.clusters[cluster] != want {
			return fmt.Errorf("table %d, draw %d: cluster %s, but the model takes %s", input[0], r.Draw, w.clusters[cluster], want)
		}
	}
	return nil
}

func clusterOf(r *model.Route, draw uint64) string {
	n := draw % uint64(max(r.TotalWeight(), 1))
	for _, c := range r.Clusters {
		if n < uint64(c.Weight) {
			return c.Name
		}
		n -= uint64(c.Weight)
	}
	return r.Clusters[0].Name
}

// parse reads a head in the plainest way: the parser has accepted it.
func parse(input []byte) *model.Request {
	head, _, _ := strings.Cut(string(input), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	words := strings.Split(lines[0], " ")
	values := map[string][]string{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		name = strings.ToLower(name)
		values[name] = append(values[name], strings.Trim(value, " \t"))
	}
	return &model.Request{
		Method: words[0], Path: words[1], Authority: values["host"][0],
		Scheme: model.SchemeOf("", values["x-forwarded-proto"]),
		Values: func(name string) []string { return values[name] },
	}
}
