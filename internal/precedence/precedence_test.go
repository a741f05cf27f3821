// SPDX-License-Identifier: Apache-2.0

package precedence

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
)

// eachThread calls f with every thread of this process.
func eachThread(t *testing.T, f func(id int)) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		f(id)
	}
}

// startWith gives all threads a niceness, and back the one that this process began with after the test.
func startWith(t *testing.T, nice int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a niceness below that of before")
	}
	begun, err := niceOf(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { setNiceness(t, begun) })
	setNiceness(t, nice)
}

func setNiceness(t *testing.T, nice int) {
	t.Helper()
	eachThread(t, func(id int) {
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil {
			t.Errorf("give a thread the niceness %d: %v", nice, err)
		}
	})
}

func TestNiceness(t *testing.T) {
	for _, tt := range []struct {
		name         string
		begins, want int
	}{
		{"all threads have the daemon's", 0, niceness},
		{"one that was chosen stays", 5, 5},
		{"one that was chosen below the daemon's stays", -15, -15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			startWith(t, tt.begins)
			if _, err := prioritize(); err != nil {
				t.Fatal(err)
			}
			eachThread(t, func(id int) {
				if nice, err := niceOf(id); err != nil || nice != tt.want {
					t.Errorf("niceness of a thread: got %d (%v), want %d", nice, err, tt.want)
				}
			})
		})
	}
}

// The daemon has no precedence while it works much for clients, and has it again when that is over.
func TestPrecedenceFollowsWhatIsDoneForClients(t *testing.T) {
	var worked, used time.Duration
	now := time.Now()
	b := &niceController{worked: func() time.Duration { return worked }, used: func() time.Duration { return used }}
	// look lets some time pass, of which that part was worked, and used.
	look := func(w, u float64) bool {
		now = now.Add(lookPace)
		worked += time.Duration(w * float64(lookPace))
		used += time.Duration(u * float64(lookPace))
		return b.look(now)
	}
	worked, used = time.Hour, time.Hour // before the first look
	for i, step := range []struct {
		worked, used float64
		want         int
	}{
		{0, 0, niceness},
		{0.2, 0.3, niceness},
		{0, 2, niceness},   // it accepts connections
		{3, 0.1, niceness}, // its turns take long since others have the processors
		{0.3, 0.3, 0},
		{2, 2, 0},
		{0.05, 0.1, 0}, {0.05, 0.1, 0}, {0.05, 0.1, 0},
		{0.15, 0.2, 0}, // it goes on
		{0, 0, 0}, {0, 0, 0}, {0, 0, 0},
		{0, 0, niceness},
		{0, 0, niceness},
		{1, 1, 0},
	} {
		before := b.target()
		changed := look(step.worked, step.used)
		if got := b.target(); got != step.want || changed != (got != before) {
			t.Errorf("look %d: niceness %d, changed %t, want %d, before %d", i, got, changed, step.want, before)
		}
	}
}

// sink keeps a loop from being left out.
var sink int

func TestProcessorTimeIsThatOfThisProcess(t *testing.T) {
	began, before := time.Now(), processorTime()
	await.Quiet(t, func() string {
		for range 1_000_000 {
			sink++
		}
		if processorTime()-before < time.Millisecond {
			return "no time was used"
		}
		return ""
	})
	if used, passed := processorTime()-before, time.Since(began); used > passed*time.Duration(runtime.NumCPU()+1) {
		t.Errorf("%v used in %v", used, passed)
	}
}
