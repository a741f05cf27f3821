// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/tools"
)

// Choose resolves --peers. Peers that "all" asks for are left out when a
// program of theirs is missing, with the reason; a peer asked for by name must run.
func Choose(t tools.Tools, names []string) (chosen []Peer, skipped map[string]string, err error) {
	skipped = map[string]string{}
	everything := slices.Contains(names, cases.All)
	for _, p := range All() {
		named := slices.Contains(names, p.Name)
		if !everything && !named {
			continue
		}
		lacking := missing(t, p)
		switch {
		case lacking == nil:
			chosen = append(chosen, p)
		case named:
			return nil, nil, fmt.Errorf("peer %s: %w", p.Name, lacking)
		default:
			skipped[p.Name] = lacking.Error()
		}
	}
	return chosen, skipped, nil
}

// missing is the first program of a peer that is not installed.
func missing(t tools.Tools, p Peer) error {
	for _, tool := range p.needs {
		if _, err := t.Find(tool); err != nil {
			return err
		}
	}
	for _, proc := range p.Processes {
		if _, err := t.Find(proc.Tool); err != nil {
			return err
		}
	}
	return nil
}
