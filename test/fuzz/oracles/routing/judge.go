// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/test/fuzz/oracles/question"
)

// preamble is what an input has before the head: the table, and the draw.
const preamble = 1 + 8

// check judges the decision in a question: the verdict is the upper half of its body, the cluster the lower.
func (w *world) check(h *question.Head, input []byte) error {
	return w.judge(input, maps.Verdict(h.Body>>32), uint32(h.Body))
}

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
			return fmt.Errorf("table %d, draw %d: %s, but the model takes %s", input[0], r.Draw, maps.VerdictName(verdict), route.Share(r.Draw).Name)
		}
	case maps.VerdictOk:
		if path, outcome := table.Path.Apply(r.Path); path != r.Path || outcome != rewrite.PathTaken {
			return fmt.Errorf("table %d: path %q is to become %q (%d), and was not handed over", input[0], r.Path, path, outcome)
		}
		if r.Authority != given {
			return fmt.Errorf("table %d: host %q is to become %q, and was not handed over", input[0], given, r.Authority)
		}
		if route == nil {
			return fmt.Errorf("table %d, draw %d: cluster %s, but the model takes no route", input[0], r.Draw, w.clusters[cluster])
		}
		if want := route.Share(r.Draw).Name; w.clusters[cluster] != want {
			return fmt.Errorf("table %d, draw %d: cluster %s, but the model takes %s", input[0], r.Draw, w.clusters[cluster], want)
		}
	}
	return nil
}

// parse reads a head in the plainest way: the parser has accepted it.
func parse(input []byte) *matcher.Request {
	head, _, _ := strings.Cut(string(input), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	words := strings.Split(lines[0], " ")
	values := map[string][]string{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		name = strings.ToLower(name)
		values[name] = append(values[name], strings.Trim(value, " \t"))
	}
	return &matcher.Request{
		Method: words[0], Path: words[1], Authority: values["host"][0],
		Scheme: matcher.SchemeOf("", values["x-forwarded-proto"]),
		Values: func(name string) []string { return values[name] },
	}
}
