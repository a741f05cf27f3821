// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"slices"
	"time"

	"github.com/xlb-project/xlb/test/e2e/programs"
)

// act is what befalls endpoints at a time.
type act struct {
	at time.Duration
	// who are endpoints by number.
	who []int
	// mood of the servers from then on; empty leaves them as they are.
	mood programs.Mood
	// status is a health_status that a reload gives the endpoints, or gone.
	status string
}

// gone is the status of endpoints that a reload takes away.
const gone = "gone"

// fault is a cluster, what befalls its endpoints, and how clients ask meanwhile. It begins and ends with all servers well.
type fault struct {
	name string
	// priorities of the endpoints; nil for three of priority 0.
	priorities []int
	cluster    map[string]any
	policy     map[string]any
	// timeout of the route; empty is a second.
	timeout string
	acts    []act
	// moment is how many requests may fail, or not, by the moment between two health checks.
	moment int
	// none tells that no request may fail, whatever Envoy does.
	none bool
}

// fails has servers fail in a way for a while.
func fails(mood programs.Mood, who ...int) []act {
	return []act{{at: 0, who: who, mood: mood}, {at: 800 * time.Millisecond, who: who, mood: "200"}}
}

// flaps has one fail and recover several times.
func flaps() (acts []act) {
	for i := range 8 {
		acts = append(acts, act{at: time.Duration(i) * 200 * time.Millisecond, who: []int{0}, mood: [...]programs.Mood{"503", "200"}[i%2]})
	}
	return acts
}

// returnsSlowly has one go away, come back as one that takes its time, and recover.
func returnsSlowly() []act {
	return []act{{at: 0, who: []int{0}, mood: programs.MoodRefuse}, {at: 400 * time.Millisecond, who: []int{0}, mood: programs.MoodSlow}, {at: 900 * time.Millisecond, who: []int{0}, mood: "200"}}
}

// leaves has all servers take their time, so that requests are under way, while a reload changes the status of one, and changes it back.
func leaves(status string) []act {
	all := []int{0, 1, 2}
	return []act{
		{at: 0, who: all, mood: programs.MoodSlow}, {at: 300 * time.Millisecond, who: []int{0}, status: status},
		{at: 900 * time.Millisecond, who: []int{0}, status: "HEALTHY"}, {at: 1200 * time.Millisecond, who: all, mood: "200"},
	}
}

// ejecting is outlier detection that may eject all, each for a second.
func ejecting(more map[string]any) map[string]any {
	fields := outlierDetection(map[string]any{"max_ejection_time": "1s", "max_ejection_percent": 100})
	maps.Copy(fields, more)
	return fields
}

// betweenChecks are the requests of the time from one health check to the next, 0.1 s, of each of two endpoints.
const betweenChecks = 2 * 30

var twoPriorities = []int{0, 0, 1, 1}

var faults = []fault{
	{name: "one answers 503", cluster: ejecting(nil), acts: fails("503", 0)},
	{name: "one resets", cluster: ejecting(nil), acts: fails(programs.MoodReset, 0)},
	{name: "one stalls", cluster: ejecting(nil), acts: fails(programs.MoodStall, 0), timeout: "0.3s"},
	{name: "one refuses", cluster: ejecting(nil), acts: fails(programs.MoodRefuse, 0)},
	{name: "one fails and recovers every 200 ms", cluster: ejecting(nil), acts: flaps()},
	{name: "one comes back slowly", acts: returnsSlowly(), cluster: ejecting(map[string]any{
		"round_robin_lb_config": map[string]any{"slow_start_config": map[string]any{"slow_start_window": "1s"}},
	})},
	{name: "one answers 503, retries", cluster: ejecting(nil), acts: fails("503", 0), policy: retryOn("5xx", 2)},
	{name: "one resets, retries", cluster: ejecting(nil), acts: fails(programs.MoodReset, 0), policy: retryOn("reset", 2)},
	{name: "one refuses, retries", cluster: ejecting(nil), acts: fails(programs.MoodRefuse, 0), policy: istioPolicy()},
	{name: "a priority answers 503", priorities: twoPriorities, cluster: ejecting(nil), acts: fails("503", 0, 1)},
	{name: "a priority refuses", priorities: twoPriorities, cluster: ejecting(nil), acts: fails(programs.MoodRefuse, 0, 1)},
	{name: "a priority fails its checks", priorities: twoPriorities, cluster: healthCheck(nil), acts: fails("503", 0, 1), moment: betweenChecks},
	{name: "three of four fail their checks: panic", priorities: []int{0, 0, 0, 0}, cluster: healthCheck(nil), acts: fails("503", 0, 1, 2)},
	{name: "all answer 503: panic", cluster: ejecting(nil), acts: fails("503", 0, 1, 2)},
	{name: "one drains", acts: leaves("DRAINING"), none: true},
	{name: "one is removed", acts: leaves(gone), none: true},
}

// victims are all that something befalls.
func (f *fault) victims() (who []int) {
	for _, a := range f.acts {
		if a.mood != programs.MoodSlow {
			who = append(who, a.who...)
		}
	}
	slices.Sort(who)
	return slices.Compact(who)
}
