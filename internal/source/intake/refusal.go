// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"fmt"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/problem"
)

// Bounds of what is kept and shown of one refusal: problems, and bytes of each text. The log has them whole.
const (
	maxProblems    = 16
	maxProblemText = 1024
)

// Refusal collects what is wrong.
type Refusal struct{ admin.Refusal }

// NewRefusal returns a refusal without problems of what came with that version, at that time.
func NewRefusal(version string, at time.Time) *Refusal {
	return &Refusal{admin.Refusal{At: at, Version: bounded(version)}}
}

// RefusalOf is the refusal of a whole, now.
func RefusalOf(err error) *admin.Refusal {
	r := NewRefusal("", time.Now())
	r.Add("", err)
	return &r.Refusal
}

// Add adds what is wrong with a resource, or with the whole where it has no name.
func (r *Refusal) Add(resource string, err error) {
	for _, part := range problem.PartsOf(err) {
		if len(r.Problems) == maxProblems {
			r.More++
			continue
		}
		r.Problems = append(r.Problems, admin.Problem{Resource: bounded(resource), Path: bounded(part.Path), Reason: bounded(part.Reason)})
	}
}

// ReasonOf is what is wrong, in one line that is short enough to be kept.
func ReasonOf(err error) string {
	var lines []string
	r := NewRefusal("", time.Time{})
	r.Add("", err)
	for i := range r.Problems {
		lines = append(lines, r.Problems[i].String())
	}
	if r.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", r.More))
	}
	return strings.Join(lines, "; ")
}

// bounded cuts a text that a file or a server may have made long. It is one line, and a copy: what it was cut from is not kept.
func bounded(text string) string {
	if len(text) > maxProblemText {
		text = strings.ToValidUTF8(text[:maxProblemText], "") + "..."
	}
	return strings.ReplaceAll(strings.Clone(text), "\n", "; ")
}
