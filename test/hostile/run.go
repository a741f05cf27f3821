// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/violation"
)

// Options of a run.
type Options struct {
	// Duration is how long scenes are begun; 0: Scenes are played, however long they take.
	Duration time.Duration
	Scenes   int
	Seed     uint64
	// Scene is the only one to play; below 0: all.
	Scene int
	// Alone: nobody else uses this machine, so settings of the whole of it may change.
	Alone bool
	// FastPath: this kernel has it.
	FastPath bool
	// Directory gets a directory for each scene with a violation, and summary.json.
	Directory string
	// Progress gets a line for each scene.
	Progress io.Writer
}

// Summary is what a run has counted.
type Summary struct {
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`
	Scenes  int     `json:"scenes"`
	// Clients and Servers have counted these.
	Clients map[string]int64 `json:"clients"`
	Servers map[string]int64 `json:"servers"`
	// Violations, and what was left over.
	Violations []traffic.Violation `json:"violations"`
	Left       []string            `json:"left"`
}

// run is one run. Only the test's goroutine uses it.
type run struct {
	options Options
	summary Summary
	began   time.Time
	// tries of the scene that is played.
	tries int
}

// Run plays scenes, and fails the test for whatever must not happen.
func Run(t *testing.T, options Options) *Summary {
	t.Helper()
	r := &run{options: options, began: time.Now()}
	r.summary = Summary{Seed: options.Seed, Clients: map[string]int64{}, Servers: map[string]int64{}}
	if err := os.MkdirAll(options.Directory, 0o755); err != nil {
		t.Fatal(err)
	}
	first := max(options.Scene, 0)
	for number := first; ; number++ {
		name := fmt.Sprintf("scene-%d", number)
		r.tries = 0
		await.OneOfThree(t, name, func() (difference string) {
			t.Run(name, func(t *testing.T) { difference = r.play(t, draw(options.Seed, number, &options)) })
			return difference
		})
		r.summary.Scenes++
		if options.Scene >= 0 || r.isOver() {
			break
		}
	}
	r.summary.Seconds = time.Since(r.began).Seconds()
	r.judge(t)
	r.write(t)
	return &r.summary
}

// isOver reports whether a run of many scenes has played all of them.
func (r *run) isOver() bool {
	if r.options.Duration > 0 {
		return time.Since(r.began) > r.options.Duration
	}
	return r.summary.Scenes >= r.options.Scenes
}

// enough is how many scenes show each kind of client at least once.
func enough() int { return (len(traffic.AllKinds()) + 8) / 9 }

// judge looks whether anything was tried at all.
func (r *run) judge(t *testing.T) {
	t.Helper()
	s := &r.summary
	if s.Clients[traffic.Right] == 0 {
		t.Errorf("seed %d: no exchange was right: %v", s.Seed, s.Clients)
	}
	if r.options.Scene >= 0 || s.Scenes < enough() {
		return
	}
	for _, kind := range traffic.AllKinds() {
		if s.Servers["kind "+kind] == 0 {
			t.Errorf("seed %d: of the clients of kind %s no request has reached a server", s.Seed, kind)
		}
	}
}

// progress writes a line about a scene.
func (r *run) progress(s *scene, took time.Duration, found []traffic.Violation) {
	fmt.Fprintf(r.options.Progress, "hostile: %4.0f s, seed %d, %s: %d of %d exchanges right, %d violations, calm %s, %.1f s\n",
		time.Since(r.began).Seconds(), r.options.Seed, s.Scene, s.clients[traffic.Right], s.clients[traffic.Exchanges], len(found),
		shareOf(s.calm), took.Seconds())
}

func shareOf(r traffic.Report) string {
	made := r.Counts[traffic.Exchanges]
	if made == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f %% of %d", 100*float64(r.Counts[traffic.Right])/float64(made), made)
}

func add(to, from map[string]int64) {
	for what, n := range from {
		to[what] += n
	}
}

// play plays a scene, and returns what other work on the machine may have brought about. It fails the test for what must not happen once.
func (r *run) play(t *testing.T, drawn *Scene) (difference string) {
	directory := r.nextDirectory(drawn.Number)
	// Of a run before.
	os.RemoveAll(directory)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s := &scene{TB: t, Scene: drawn, directory: directory, clients: map[string]int64{}, servers: map[string]int64{}}
	// Also of a scene that ends before its time.
	defer func() { difference = r.ends(t, s, began) }()
	s.play()
	return ""
}

// nextDirectory is where a try of a scene leaves what it finds: a further try may find nothing.
func (r *run) nextDirectory(number int) string {
	r.tries++
	name := fmt.Sprintf("scene-%d", number)
	if r.tries > 1 {
		name += fmt.Sprintf("-try-%d", r.tries)
	}
	return filepath.Join(r.options.Directory, name)
}

// ends judges a scene that has been played.
func (r *run) ends(t *testing.T, s *scene, began time.Time) (difference string) {
	found, err := traffic.ReadViolations(s.directory)
	if err != nil {
		t.Error(err)
	}
	add(r.summary.Clients, s.clients)
	add(r.summary.Servers, s.servers)
	r.summary.Violations = append(r.summary.Violations, found...)
	r.summary.Left = slices.Concat(r.summary.Left, s.left, s.poor)
	r.progress(s, time.Since(began), found)
	difference = s.complain(r.options.Seed, found)
	if !t.Failed() && difference == "" {
		os.RemoveAll(s.directory)
	}
	return difference
}

// complain fails the test for violations, and returns what other work on the machine may have brought about.
func (s *scene) complain(seed uint64, found []traffic.Violation) (difference string) {
	var late []string
	wrong := slices.DeleteFunc(slices.Clone(found), func(v traffic.Violation) bool {
		if !v.Timed || v.Foreign != "" {
			return false
		}
		late = append(late, v.String())
		return true
	})
	harness.ReportViolations(s, wrong)
	for _, l := range s.left {
		violation.Errorf(s, "%s", l)
	}
	if len(found)+len(s.left)+len(s.poor) > 0 || testing.Verbose() {
		s.Logf("again: HOSTILE_SEED=%d HOSTILE_SCENE=%d; %s; clients %s, servers %s",
			seed, s.Number, s.Scene, inOrder(s.clients), inOrder(s.servers))
	}
	return strings.Join(slices.Concat(s.poor, late), "; ")
}

func inOrder(counts map[string]int64) string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, " %s: %d,", what, counts[what])
	}
	return b.String()
}

func (r *run) write(t *testing.T) {
	t.Helper()
	b, err := json.MarshalIndent(&r.summary, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.options.Directory, "summary.json"), append(b, '\n'), 0o644); err != nil {
		t.Error(err)
	}
}

// modeOf is how the balancer is run.
func modeOf(s *Scene) harness.Mode {
	if s.Fast {
		return harness.Mode{Name: "fast-path=on", Fast: true, Waits: s.Actor == overtaker || s.Actor == cutter}
	}
	return harness.Mode{Name: "fast-path=off"}
}
