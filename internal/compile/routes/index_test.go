// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/await"
)

func prefixHeader(name, value string) matcher.HeaderMatch {
	return matcher.HeaderMatch{Name: name, Kind: matcher.HeaderString, String: matcher.Prefix(value)}
}

// numbered makes n routes of which each has its own cluster, "c0" and so on.
func numbered(n int, of func(i int) (prefix string, headers []matcher.HeaderMatch)) []*model.Route {
	routes := []*model.Route{}
	for i := range n {
		prefix, headers := of(i)
		routes = append(routes, prefixRoute(prefix, fmt.Sprintf("c%d", i), headers...))
	}
	return routes
}

// mostRoutes is the longest list that some request has tried.
func mostRoutes(t *tables.Table) (most uint32) {
	for _, p := range t.Paths {
		most = max(most, p.Count)
	}
	for _, b := range t.Buckets {
		most = max(most, b.Count)
	}
	return most
}

// lookUps is how many of buckets a path takes.
func lookUps(t *tables.Table, p tables.Path) (n int) {
	for _, tuple := range t.Tuples[p.Tuple : p.Tuple+p.TupleCount] {
		if tuple.Number != 0 {
			n++
		}
	}
	return n
}

func TestLongListsAreFoundByAnIndex(t *testing.T) {
	tests := []struct {
		name string
		n    int
		of   func(i int) (string, []matcher.HeaderMatch)
		// ask is a request for route i.
		ask func(i int) *matcher.Request
		// tuples and longest bound the look-ups of one request, and the routes tried after each.
		tuples, longest int
	}{
		{
			"one header", 10000,
			func(i int) (string, []matcher.HeaderMatch) {
				return "/", []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i))}
			},
			func(i int) *matcher.Request { return get("h", "/", "x", fmt.Sprint(i)) },
			1, 1,
		},
		{
			"a hundred paths with a hundred values", 10000,
			func(i int) (string, []matcher.HeaderMatch) {
				return fmt.Sprintf("/%02d/", i/100), []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i%100))}
			},
			func(i int) *matcher.Request {
				return get("h", fmt.Sprintf("/%02d/a", i/100), "x", fmt.Sprint(i%100))
			},
			1, 1,
		},
		{
			"two headers", 10000,
			func(i int) (string, []matcher.HeaderMatch) {
				return "/", []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i/100)), exactHeader("y", fmt.Sprint(i%100))}
			},
			func(i int) *matcher.Request {
				return get("h", "/", "x", fmt.Sprint(i/100), "y", fmt.Sprint(i%100))
			},
			1, 1,
		},
		{
			"either header, or both", 9000,
			func(i int) (string, []matcher.HeaderMatch) {
				x, y := exactHeader("x", fmt.Sprint(i)), exactHeader("y", fmt.Sprint(i))
				return "/", [][]matcher.HeaderMatch{{x}, {y}, {x, y}}[i%3]
			},
			func(i int) *matcher.Request {
				return get("h", "/", [][]string{{"x", fmt.Sprint(i)}, {"y", fmt.Sprint(i)}, {"x", fmt.Sprint(i), "y", fmt.Sprint(i)}}[i%3]...)
			},
			3, 1,
		},
		{
			"few routes of many paths", 3000,
			func(i int) (string, []matcher.HeaderMatch) {
				return fmt.Sprintf("/%d/", i), []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i))}
			},
			func(i int) *matcher.Request { return get("h", fmt.Sprintf("/%d/", i), "x", fmt.Sprint(i)) },
			1, 1,
		},
		{
			"beginnings of values", 2000,
			func(i int) (string, []matcher.HeaderMatch) {
				return "/", []matcher.HeaderMatch{prefixHeader("x", fmt.Sprintf("%04d-", i))}
			},
			func(i int) *matcher.Request { return get("h", "/", "x", fmt.Sprintf("%04d-a", i)) },
			1, 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			routes := append(numbered(tt.n, tt.of), prefixRoute("/", "rest"))
			began := time.Now()
			table, notes := compileTable("table", oneHost(routes...))
			t.Logf("compiled in %s: %d paths, %d tuples, %d buckets, %d routes, %d values",
				time.Since(began), len(table.Paths), len(table.Tuples), len(table.Buckets), len(table.Routes), len(table.Values))
			if len(notes) != 0 {
				t.Fatalf("notes %v", notes)
			}
			for _, p := range table.Paths {
				if n := lookUps(&table, p); n > tt.tuples {
					t.Errorf("%q: %d look-ups, want %d at most", p.Key, n, tt.tuples)
				}
			}
			if most := mostRoutes(&table); int(most) > tt.longest {
				t.Errorf("%d routes are tried, want %d at most", most, tt.longest)
			}
			for i := 0; i < tt.n; i += 1 + tt.n/500 {
				if got, want := clusterFor(&table, tt.ask(i)), fmt.Sprintf("c%d", i); got != want {
					t.Fatalf("route %d: got %s, want %s", i, got, want)
				}
			}
			if got := clusterFor(&table, get("h", "/", "x", "none")); got != "rest" {
				t.Errorf("no value: got %s, want rest", got)
			}
		})
	}
}

func TestIndexKeepsTheOrder(t *testing.T) {
	crowd := numbered(20, func(i int) (string, []matcher.HeaderMatch) {
		return "/", []matcher.HeaderMatch{exactHeader("z", fmt.Sprint(i))}
	})
	table, notes := compileTable("table", oneHost(append(crowd,
		prefixRoute("/", "x", exactHeader("x", "1")),
		prefixRoute("/", "present", matcher.HeaderMatch{Name: "w", Kind: matcher.HeaderPresent}),
		prefixRoute("/", "y", exactHeader("y", "1")),
		prefixRoute("/", "x and y", exactHeader("x", "1"), exactHeader("y", "1")),
		prefixRoute("/deep", "deep", exactHeader("y", "2")),
		prefixRoute("/", "rest"),
		prefixRoute("/", "hidden", exactHeader("x", "2")),
	)...))
	if len(notes) != 0 || len(table.Buckets) == 0 {
		t.Fatalf("notes %v, %d buckets", notes, len(table.Buckets))
	}
	for _, tt := range []struct {
		path    string
		headers []string
		want    string
	}{
		{"/", nil, "rest"},
		{"/", []string{"x", "1", "y", "1"}, "x"},
		{"/", []string{"y", "1", "w", ""}, "present"},
		{"/", []string{"y", "1", "z", "7", "w", "1"}, "c7"},
		{"/", []string{"y", "1"}, "y"},
		{"/", []string{"x", "2"}, "rest"},
		{"/deep", []string{"y", "2"}, "deep"},
		{"/deep", []string{"y", "2", "x", "1"}, "x"},
		{"/deep", []string{"y", "1"}, "y"},
		{"/deep", nil, "rest"},
	} {
		if got := clusterFor(&table, get("h", tt.path, tt.headers...)); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.path, tt.headers, got, tt.want)
		}
	}
}

// A crowd below one prefix has one index, however many longer prefixes see it.
func TestLongerPrefixesShareAnIndex(t *testing.T) {
	routes := numbered(10000, func(i int) (string, []matcher.HeaderMatch) {
		return "/", []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i))}
	})
	for i := range 1000 {
		routes = append(routes, prefixRoute(fmt.Sprintf("/%d/", i), "own"))
	}
	table, notes := compileTable("table", oneHost(routes...))
	if len(notes) != 0 || len(table.Buckets) != 10000 || len(table.Tuples) != 1 {
		t.Errorf("notes %v, %d buckets, %d tuples, want 10000 and 1", notes, len(table.Buckets), len(table.Tuples))
	}
	for path, want := range map[string]string{"/7/": "own", "/": "no_route"} {
		if got := clusterFor(&table, get("h", path)); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got := clusterFor(&table, get("h", "/7/", "x", "9876")); got != "c9876" {
		t.Errorf("got %s, want c9876", got)
	}
}

// What is beyond the limits of indexes is handed over, with a note, and all before it is decided.
func TestIndexBeyondItsLimitsHandsOver(t *testing.T) {
	t.Run("sets of headers", func(t *testing.T) {
		var routes []*model.Route
		// Each prefix begins the next, and each has a crowd that asks for two headers of its own.
		for depth := range 9 {
			prefix := strings.Repeat("/a", depth+1)
			for i := range 40 {
				name := []string{"x", "y"}[i%2]
				routes = append(routes, prefixRoute(prefix, fmt.Sprintf("%d-%d", depth, i), exactHeader(fmt.Sprintf("%s%d", name, depth%7), fmt.Sprintf("%d-%d", depth, i))))
			}
		}
		table, notes := compileTable("table", oneHost(routes...))
		if len(notes) != 1 || !strings.Contains(notes[0].Reason, "conditions on more than 16 sets of headers for one path") {
			t.Errorf("notes %v", notes)
		}
		deepest := strings.Repeat("/a", 9)
		for _, tt := range []struct{ path, name, value, want string }{
			{deepest, "x0", "0-0", "0-0"},
			{deepest, "y0", "7-39", "7-39"},
			{deepest, "x1", "8-0", "route_slow"},
			{deepest[2:], "x0", "7-0", "7-0"},
			{deepest[2:], "x0", "none", "no_route"},
		} {
			if got := clusterFor(&table, get("h", tt.path, tt.name, tt.value)); got != tt.want {
				t.Errorf("%s %s=%s: got %s, want %s", tt.path, tt.name, tt.value, got, tt.want)
			}
		}
	})
	t.Run("entries", func(t *testing.T) {
		routes := numbered(maxBuckets+200, func(i int) (string, []matcher.HeaderMatch) {
			return "/" + fmt.Sprint(i/(maxBuckets/2)), []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i))}
		})
		table, notes := compileTable("table", oneHost(routes...))
		if len(notes) == 0 || len(table.Buckets) > maxBuckets {
			t.Errorf("notes %v, %d buckets", notes, len(table.Buckets))
		}
		if got := clusterFor(&table, get("h", "/0", "x", "77")); got != "c77" {
			t.Errorf("got %s, want c77", got)
		}
		if got := clusterFor(&table, get("h", "/2", "x", fmt.Sprint(maxBuckets+199))); got != "route_slow" {
			t.Errorf("got %s, want route_slow", got)
		}
	})
}

// timedCompile compiles a table of one host.
func timedCompile(routes []*model.Route) (table tables.Table, notes []note.Note, took time.Duration) {
	began := time.Now()
	table, notes = compileTable("table", oneHost(routes...))
	return table, notes, time.Since(began)
}

// However a table is made, compiling it takes some times as long as a plain one of as many routes, and what it takes of the maps is bounded.
func TestHostileTablesAreBounded(t *testing.T) {
	const most = 50
	plain := numbered(10000, func(i int) (string, []matcher.HeaderMatch) { return fmt.Sprintf("/%d/", i), nil })
	present := func(name string) matcher.HeaderMatch {
		return matcher.HeaderMatch{Name: name, Kind: matcher.HeaderPresent}
	}
	tables := map[string][]*model.Route{
		"overlapping prefixes": numbered(10000, func(i int) (string, []matcher.HeaderMatch) {
			return strings.Repeat("a", i%251), []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i))}
		}),
		"overlapping prefixes without an index": numbered(10000, func(i int) (string, []matcher.HeaderMatch) {
			return strings.Repeat("a", i%251) + fmt.Sprint(i), []matcher.HeaderMatch{present(fmt.Sprintf("x%d", i%60)), present(fmt.Sprintf("y%d", i%3))}
		}),
		"headers of one's own": numbered(10000, func(i int) (string, []matcher.HeaderMatch) {
			return "/", []matcher.HeaderMatch{exactHeader(fmt.Sprintf("x%d", i), "1")}
		}),
		"long names": numbered(100, func(i int) (string, []matcher.HeaderMatch) {
			return "/", []matcher.HeaderMatch{exactHeader(strings.Repeat("x", 60<<10)+fmt.Sprint(i), "1")}
		}),
		"prefixes of prefixes of values": numbered(5000, func(i int) (string, []matcher.HeaderMatch) {
			return "/", []matcher.HeaderMatch{prefixHeader("x", strings.Repeat("v", 1+i%120)), prefixHeader("y", strings.Repeat("v", 1+i/42))}
		}),
		"one value": numbered(10000, func(i int) (string, []matcher.HeaderMatch) {
			h := exactHeader("y", fmt.Sprint(i))
			h.Invert = true
			return "/", []matcher.HeaderMatch{exactHeader("x", "1"), h}
		}),
	}
	for name, routes := range tables {
		t.Run(name, func(t *testing.T) {
			await.OneOfThree(t, "the time", func() string {
				_, _, reference := timedCompile(plain)
				table, notes, took := timedCompile(routes)
				t.Logf("%s, a plain one %s: %d paths, %d tuples, %d buckets, %d routes, notes %.200v", took, reference,
					len(table.Paths), len(table.Tuples), len(table.Buckets), len(table.Routes), notes)
				if len(table.Routes) > maxRoutes+int(maps.MaxCandidates) || len(table.Buckets) > maxBuckets {
					t.Errorf("%d routes, %d buckets", len(table.Routes), len(table.Buckets))
				}
				if err := withinLimits(&table); err != nil {
					t.Error(err)
				}
				if took > most*reference {
					return fmt.Sprintf("took %s, a plain one %s", took, reference)
				}
				return ""
			})
		})
	}
}
